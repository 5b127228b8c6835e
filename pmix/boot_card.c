#include "pmix/boot_card.h"

#include <stdio.h>
#include <string.h>

#include "pmix/boot_wire.h"
#include "runtime/base/io.h"
#include "runtime/base/secret.h"

enum { NONCE_LEN = 32, SIGNATURE_LEN = 32 };

static void sign(const char *secret, const char *nonce, const char *rest, char ret[SIGNATURE_LEN + 1])
{
    char text[WIRE_HASH_MAX];
    snprintf(text, sizeof text, "%.*s %s", NONCE_LEN, nonce, rest);
    wire_hash(secret, text, SIGNATURE_LEN / 16, ret);
}

static void derive(const char *secret, const char *nonce, char ret[CARD_TOKEN_LEN + 1])
{
    char text[NONCE_LEN + 1];
    snprintf(text, sizeof text, "%.*s", NONCE_LEN, nonce);
    wire_hash(secret + SECRET_LEN / 2, text, CARD_TOKEN_LEN / 16, ret);
}

int card_begin(struct card_head *ret, ddp_error_t *errp)
{
    const char *secret = secret_of_step();
    *ret = (struct card_head){0};
    if (!secret)
        return io_random_hex(ret->token, BOOT_TOKEN_BYTES, errp);
    if (io_random_hex(ret->nonce, NONCE_LEN / 2, errp) < 0)
        return -1;
    derive(secret, ret->nonce, ret->token);
    return 0;
}

void card_sign(const struct card_head *h, const char *rest, char ret[CARD_HEAD_MAX])
{
    const char *secret = secret_of_step();
    char signature[SIGNATURE_LEN + 1] = "";
    if (*h->nonce && secret)
        sign(secret, h->nonce, rest, signature);
    snprintf(ret, CARD_HEAD_MAX, "%s%s%s", *h->nonce ? h->nonce : h->token, *h->nonce ? "." : "", signature);
}

int card_read(const char *card, char ret_token[CARD_TOKEN_LEN + 1], const char **ret_rest)
{
    const char *secret = secret_of_step();
    size_t n = strcspn(card, " ");
    char signature[SIGNATURE_LEN + 1];
    *ret_rest = card[n] ? card + n + 1 : card + n;
    if (!secret) {
        snprintf(ret_token, CARD_TOKEN_LEN + 1, "%.*s", (int)n, card);
        return n <= CARD_TOKEN_LEN ? 0 : -1;
    }
    if (n != NONCE_LEN + 1 + SIGNATURE_LEN || card[NONCE_LEN] != '.')
        return -1;
    sign(secret, card, *ret_rest, signature);
    if (!io_token_equal(signature, card + NONCE_LEN + 1, SIGNATURE_LEN))
        return -1;
    derive(secret, card, ret_token);
    return 0;
}
