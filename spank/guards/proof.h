/* proof.h - how two guards of a step show each other that they have its token, without telling any of it: who
 * listens sends random bytes, who asks to be let in answers with a head, and is answered in turn. A head is made for
 * one port, so that somebody else who listens there and passes it on to the guard, at another port, gets nowhere; nor
 * does it help again. Pure, but for random bytes. */
#ifndef DDP_SPANK_GUARDS_PROOF_H
#define DDP_SPANK_GUARDS_PROOF_H

#include <stdbool.h>

#include "spank/step/hostlist.h"

#define PROOF_NONCE_LEN 16
#define PROOF_NAME_LEN 64
#define PROOF_HEAD_LEN (8 + PROOF_NONCE_LEN + 16 + PROOF_NAME_LEN)
#define PROOF_ANSWER_LEN 16 /* hexadecimal */

/* Who asks, and what for: node `looks_for`, at this port (0: a unix socket). */
struct proof_asker {
    int rank, node, looks_for, port;
    char name[PROOF_NAME_LEN]; /* of its node */
};

/* token: GUARDS_TOKEN_LEN hexadecimal digits. 0, or -1: no random bytes. */
int proof_ask(const char *token, const unsigned char nonce[PROOF_NONCE_LEN], const struct proof_asker *who,
              unsigned char ret[PROOF_HEAD_LEN]);

/* Whether a head answers this nonce. */
bool proof_is_right(const char *token, const unsigned char nonce[PROOF_NONCE_LEN],
                    const unsigned char head[PROOF_HEAD_LEN]);
void proof_read(const unsigned char head[PROOF_HEAD_LEN], struct proof_asker *ret);

/* What only one who has the token can say to a head. */
void proof_answer(const char *token, const unsigned char head[PROOF_HEAD_LEN], char ret[PROOF_ANSWER_LEN + 1]);

#endif
