/* boot_given.c - the boot over a store of the caller's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "pmix/boot_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"

enum { VALUE_MAX = 4096 }; /* what world.c and comm/wireup.c put is less */

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

static int given_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    const struct boot_given *g = b->state;
    if (n > VALUE_MAX)
        return error_set(errp, DDP_E_USAGE, EMSGSIZE, "boot: the value of %s has %zu bytes", key, n);
    return g->put(g->ctx, name_of(b->rank, key).text, data, n, errp);
}

/* A get waits until the value is there, and everybody gets everybody's: there is nothing to wait for here. */
static int given_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    (void)b;
    (void)deadline;
    (void)errp;
    return 0;
}

static int given_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
                     ddp_error_t *errp)
{
    const struct boot_given *g = b->state;
    ddp_error_t e = {DDP_E_BOOT, EPROTO, "the store gave no reason"};
    char *data = malloc(VALUE_MAX);
    if (!data)
        return error_errno(errp, "boot: get %s", key);
    double left_s = (double)deadline_left_ns(deadline) / NS_PER_S;
    long n = g->get(g->ctx, name_of(rank, key).text, data, VALUE_MAX, left_s, &e);
    if (n < 0 || n > VALUE_MAX) {
        free(data);
        return error_set(errp, e.domain, e.code, "rank %d did not come to the start of the group: %s", rank, e.text);
    }
    *ret_data = data;
    *ret_n = (size_t)n;
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
    boot_t *b = calloc(1, sizeof *b);
    struct boot_given *mine = malloc(sizeof *mine);
    if (!b || !mine) {
        error_errno(errp, "boot");
        free(b);
        free(mine);
        return NULL;
    }
    *mine = *g;
    *b = (boot_t){.ops = &given_ops, .rank = g->rank, .size = g->size, .state = mine};
    boot_guard_heed(g->rank, g->size);
    return b;
}
