/* A group over a store that a stranger reads (boot_given) while one of its ranks listens: with a secret of the step's
 * nothing that lies there lets him in; without one he finds the tokens there, as documented. */
#include "t/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/secret.h"
#include "runtime/comm/handshake.h"
#include "runtime/comm/tcp.h"
#include "t/lib/ranks.h"

enum { KEYS = 4, VALUE_MAX = 1024, AT_ADDRESS = 16 + 4 }; /* in wireup.c's card, behind its seal */

/* Shared by the ranks; an item is there once n is not 0. */
struct store {
    struct {
        _Atomic size_t n;
        char data[VALUE_MAX];
    } item[KEYS];
};

/* A rank's way to it. Rank 1 is the stranger, too: rank 0 listens for its data and control connections. */
struct way {
    struct store *store;
    const struct world *world;
    bool is_in; /* a listener has answered the stranger */
};

static int slot_of(const char *key)
{
    return 2 * (key[0] - '0') + !strcmp(key + 2, "comm");
}

static int put(void *ctx, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    struct way *x = ctx;
    (void)errp;
    memcpy(x->store->item[slot_of(key)].data, data, n);
    x->store->item[slot_of(key)].n = n;
    return 0;
}

/* Greets with these bytes as a token over both connections that the listener expects. It closes one that is wrong, and
 * answers both when they are right. */
static bool is_let_in(const struct way *x, const struct tcp_address *to, const char *bytes)
{
    bool is_in = false;
    int fd[2];
    struct handshake m = {.fd = -1};
    memcpy(m.call, bytes, sizeof m.call);
    for (int i = 0; i < 2; i++) {
        fd[i] = tcp_connect(to, "rank 0", deadline_in(20), NULL);
        handshake_call(fd[i], &m, x->world, 0, i ? MEET_CONTROL : MEET_DATA, deadline_in(20), NULL);
    }
    for (int i = 0; i < 2; i++) {
        char c;
        is_in = io_recv_all(fd[i], &c, 1, deadline_in(20), "rank 0", NULL) == 0 || is_in;
        close(fd[i]);
    }
    return is_in;
}

static void try_all(struct way *x, const char *value, size_t n)
{
    struct tcp_address to;
    memcpy(&to, value + AT_ADDRESS, sizeof to);
    for (size_t i = 0; i + MEET_TOKEN <= n && !x->is_in; i++)
        x->is_in = is_let_in(x, &to, value + i);
}

static long get(void *ctx, const char *key, void *data, size_t size, double timeout_s, ddp_error_t *errp)
{
    struct way *x = ctx;
    uint64_t deadline = deadline_in(timeout_s);
    size_t n;
    while ((n = x->store->item[slot_of(key)].n) == 0 && deadline_left_ns(deadline) > 0)
        usleep(100); /* the other rank is about to put it */
    if (n == 0 || n > size)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "no %s", key);
    memcpy(data, x->store->item[slot_of(key)].data, n);
    if (x->world && x->world->rank == 1 && !strcmp(key, "0/comm") && !x->is_in)
        try_all(x, data, n);
    return (long)n;
}

static int group_rank(struct job *j, int rank)
{
    const bool *has_secret = j->arg;
    struct comm_config cfg = {.timeout_s = 30, .timeout_name = "DDP_TIMEOUT", .interface = "lo"};
    struct way x = {.store = j->shared};
    ddp_error_t e = {0};
    if (*has_secret)
        setenv(SECRET_VARIABLE, "0123456789abcdef0123456789abcdef00112233445566778899aabbccddeeff", 1);
    else
        unsetenv(SECRET_VARIABLE);
    boot_t *b = boot_given(&(struct boot_given){rank, 2, &x, put, get}, &e);
    struct world *w = b ? world_exchange_as(b, rank ? "n1" : "n0", NULL, deadline_in(30), &e) : NULL;
    CHECK(w, "%s", e.text);
    x.world = w;
    comm_t *c = comm_create(&cfg, w, b, &e);
    CHECK(rank == 0 || x.is_in == !*has_secret, "what lies in the store lets strangers in: %d", x.is_in);
    CHECK(!*has_secret || (c && comm_barrier(c, &e) == 0), "%s", e.text);
    comm_destroy(c);
    boot_leave(b, NULL);
    world_destroy(w);
    return 0;
}

static void the_store_tells_strangers_no_token(void **state)
{
    (void)state;
    for (int has_secret = 0; has_secret < 2; has_secret++) {
        const bool has = has_secret;
        struct job j = {.size = 2, .arg = &has};
        if (!job_run(&j, group_rank))
            fail_msg("with%s a secret", has ? "" : "out");
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_store_tells_strangers_no_token),
};
UNIT_MAIN(tests)
