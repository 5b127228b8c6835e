/* boot_given.c - the boot over a store of the caller's, which strangers may read and write. A value lies there behind a
 * seal, zeroes without a secret of the step's (secret.h): else nobody without it can make one, or pass it for another
 * rank's or key's. Ranks that differ in the secret so find out at the first value that they get. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/boot_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"
#include "runtime/base/secret.h"
#include "runtime/base/siphash.h"

enum {
    VALUE_MAX = 4096, /* with its seal; what world.c and comm/wireup.c put is less */
    SEAL_LEN = 16,
};

struct given {
    struct boot_given store;
    char secret[SECRET_LEN + 1]; /* "": there is none */
};

/* The store is flat: whose value it is stands in the key. */
struct name {
    char text[BOOT_KEY_MAX + 16];
};
static struct name name_of(int rank, const char *key)
{
    struct name n;
    snprintf(n.text, sizeof n.text, "%d/%s", rank, key);
    return n;
}

/* What follows from half a secret, a value and whose it is. boot_card.c's texts with these keys begin otherwise. */
static void hash(const char *half, const char *name, const void *data, size_t n, unsigned char ret[SEAL_LEN])
{
    unsigned char key[SIPHASH_KEY_LEN];
    char text[sizeof "group0 " + sizeof(struct name) + VALUE_MAX];
    siphash_key(half, key);
    for (int i = 0; i < SEAL_LEN / 8; i++) {
        size_t head = (size_t)snprintf(text, sizeof text, "group%d %s", i, name) + 1;
        memcpy(text + head, data, n);
        uint64_t word = siphash(key, text, head + n);
        memcpy(ret + 8 * i, &word, sizeof word);
    }
}

static void seal(const struct given *g, const char *name, const void *data, size_t n, unsigned char ret[SEAL_LEN])
{
    memset(ret, 0, SEAL_LEN);
    if (*g->secret)
        hash(g->secret, name, data, n, ret);
}

static int given_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    const struct given *g = b->state;
    struct name name = name_of(b->rank, key);
    unsigned char value[VALUE_MAX];
    if (n > VALUE_MAX - SEAL_LEN)
        return error_set(errp, DDP_E_USAGE, EMSGSIZE, "boot: the value of %s has %zu bytes", key, n);
    seal(g, name.text, data, n, value);
    memcpy(value + SEAL_LEN, data, n);
    return g->store.put(g->store.ctx, name.text, value, SEAL_LEN + n, errp);
}

/* A get waits until the value is there, and everybody gets everybody's: there is nothing to wait for here. */
static int given_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    (void)b;
    (void)deadline;
    (void)errp;
    return 0;
}

static int check_seal(const boot_t *b, int rank, const char *name, const unsigned char *value, size_t n,
                      ddp_error_t *errp)
{
    static const unsigned char none[SEAL_LEN];
    const struct given *g = b->state;
    unsigned char want[SEAL_LEN];
    const char *differ = *g->secret ? "with another " SECRET_VARIABLE " than" : "with a " SECRET_VARIABLE ", unlike";
    if (n >= SEAL_LEN) {
        seal(g, name, value + SEAL_LEN, n - SEAL_LEN, want);
        if (io_token_equal(want, value, SEAL_LEN))
            return 0;
        if (io_token_equal(none, value, SEAL_LEN))
            differ = "without a " SECRET_VARIABLE ", unlike";
    }
    return error_set(errp, DDP_E_BOOT, EPROTO, "rank %d has started the group %s rank %d: start all ranks by one "
                     "srun --ddp=on, or all by env -u " SECRET_VARIABLE "; else somebody has changed the group's store",
                     rank, differ, b->rank);
}

static int given_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
                     ddp_error_t *errp)
{
    const struct given *g = b->state;
    struct name name = name_of(rank, key);
    ddp_error_t e = {DDP_E_BOOT, EPROTO, "the store gave no reason"};
    unsigned char *data = malloc(VALUE_MAX);
    if (!data)
        return error_errno(errp, "boot: get %s", key);
    double left_s = (double)deadline_left_ns(deadline) / NS_PER_S;
    long n = g->store.get(g->store.ctx, name.text, data, VALUE_MAX, left_s, &e);
    int rc = n < 0 || n > VALUE_MAX ? error_set(errp, e.domain, e.code, "rank %d did not come to the start of the "
                                                "group: %s", rank, e.text)
                                    : check_seal(b, rank, name.text, data, (size_t)n, errp);
    if (rc < 0) {
        free(data);
        return -1;
    }
    *ret_n = (size_t)n - SEAL_LEN;
    *ret_data = memmove(data, data + SEAL_LEN, *ret_n);
    return 0;
}

static int given_close(boot_t *b, ddp_error_t *errp)
{
    (void)errp;
    io_close(notice_take()); /* what no watch has taken */
    free(b->state);
    return 0;
}

static const struct boot_ops given_ops = {given_put, given_fence, given_get, given_close};

boot_t *boot_given(const struct boot_given *g, ddp_error_t *errp)
{
    const char *secret = secret_of_step();
    boot_t *b = calloc(1, sizeof *b);
    struct given *mine = calloc(1, sizeof *mine);
    if (!b || !mine) {
        error_errno(errp, "boot");
        free(b);
        free(mine);
        return NULL;
    }
    mine->store = *g;
    snprintf(mine->secret, sizeof mine->secret, "%s", secret ? secret : "");
    *b = (boot_t){.ops = &given_ops, .rank = g->rank, .size = g->size, .state = mine};
    boot_guard_heed(g->rank, g->size);
    return b;
}

void boot_token(const boot_t *b, int rank, unsigned char token[BOOT_NONCE_BYTES])
{
    const struct given *g = b->state;
    unsigned char nonce[BOOT_NONCE_BYTES];
    if (b->ops != &given_ops || !*g->secret)
        return;
    memcpy(nonce, token, sizeof nonce);
    hash(g->secret + SECRET_LEN / 2, name_of(rank, "token").text, nonce, sizeof nonce, token);
}
_Static_assert(BOOT_NONCE_BYTES == SEAL_LEN, "a token is one hash");
