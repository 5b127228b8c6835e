#include "spank/guards/proof.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/base/io.h"
#include "runtime/base/plain.h"
#include "runtime/base/siphash.h"

enum { AT_NONCE = 8, AT_NUMBERS = AT_NONCE + PROOF_NONCE_LEN, AT_NAME = AT_NUMBERS + 16 };

/* Of a head, after the nonce that it answers; nonce NULL: of the answer to it. */
static uint64_t sign(const char *token, const unsigned char *nonce, const unsigned char head[PROOF_HEAD_LEN])
{
    unsigned char key[SIPHASH_KEY_LEN], text[1 + PROOF_NONCE_LEN + PROOF_HEAD_LEN - AT_NONCE] = {nonce != NULL};
    siphash_key(token, key);
    if (nonce)
        memcpy(text + 1, nonce, PROOF_NONCE_LEN);
    memcpy(text + 1 + PROOF_NONCE_LEN, head + AT_NONCE, PROOF_HEAD_LEN - AT_NONCE);
    return siphash(key, text, sizeof text);
}

static void put64(unsigned char *p, uint64_t v)
{
    bytes_put32(p, (uint32_t)v);
    bytes_put32(p + 4, (uint32_t)(v >> 32));
}

int proof_ask(const char *token, const unsigned char nonce[PROOF_NONCE_LEN], const struct proof_asker *who,
              unsigned char ret[PROOF_HEAD_LEN])
{
    const int number[] = {who->rank, who->node, who->looks_for, who->port};
    memset(ret, 0, PROOF_HEAD_LEN);
    if (io_random(ret + AT_NONCE, PROOF_NONCE_LEN, NULL) < 0)
        return -1;
    for (int i = 0; i < 4; i++)
        bytes_put32(ret + AT_NUMBERS + 4 * i, (uint32_t)number[i]);
    memcpy(ret + AT_NAME, who->name, strnlen(who->name, PROOF_NAME_LEN - 1));
    put64(ret, sign(token, nonce, ret));
    return 0;
}

bool proof_is_right(const char *token, const unsigned char nonce[PROOF_NONCE_LEN],
                    const unsigned char head[PROOF_HEAD_LEN])
{
    unsigned char want[8];
    put64(want, sign(token, nonce, head));
    return io_token_equal(want, head, sizeof want);
}

void proof_read(const unsigned char head[PROOF_HEAD_LEN], struct proof_asker *ret)
{
    int *const number[] = {&ret->rank, &ret->node, &ret->looks_for, &ret->port};
    for (int i = 0; i < 4; i++)
        *number[i] = (int)bytes_get32(head + AT_NUMBERS + 4 * i);
    memcpy(ret->name, head + AT_NAME, PROOF_NAME_LEN);
    ret->name[PROOF_NAME_LEN - 1] = 0;
    plain_line(ret->name);
}

void proof_answer(const char *token, const unsigned char head[PROOF_HEAD_LEN], char ret[PROOF_ANSWER_LEN + 1])
{
    snprintf(ret, PROOF_ANSWER_LEN + 1, "%016llx", (unsigned long long)sign(token, NULL, head));
}
