/* boot_card.h - how the card of a boot server (boot_host.h) says the server's token, where everybody on the card's way
 * may read and change it. Private to pmix/.
 *
 *   with a secret of the step's (secret.h)   "NONCE.SIGNATURE REST": the token follows from the nonce and the secret;
 *                                            nobody without the secret can sign, and nonce and rest are signed
 *   without                                  "TOKEN REST": it is for whoever reads it */
#ifndef DDP_PMIX_BOOT_CARD_H
#define DDP_PMIX_BOOT_CARD_H

#include "pmix/boot_server.h"

enum { CARD_TOKEN_LEN = 2 * BOOT_TOKEN_BYTES, CARD_HEAD_MAX = 72 };

/* A server's: what its card begins with, until card_sign knows the rest, and its token. 0, or -1: no random bytes. */
struct card_head {
    char nonce[33]; /* "": there is no secret */
    char token[CARD_TOKEN_LEN + 1];
};
int card_begin(struct card_head *ret, ddp_error_t *errp);

/* What stands before " REST". */
void card_sign(const struct card_head *h, const char *rest, char ret[CARD_HEAD_MAX]);

/* The token of a card, whose rest is then *ret_rest. -1: it is no card, or not one of this step's secret. */
int card_read(const char *card, char ret_token[CARD_TOKEN_LEN + 1], const char **ret_rest);

#endif
