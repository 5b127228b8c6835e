/* boot_single.c - the boot of one process alone: rank 0 of 1. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/boot_impl.h"
#include "pmix/boot_store.h"

struct single {
    struct boot_item *items;
};

static int single_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    struct single *s = b->state;
    return boot_store_put(&s->items, key, data, n) < 0 ? error_errno(errp, "boot: put %s", key) : 0;
}

static int single_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    (void)b;
    (void)deadline;
    (void)errp;
    return 0;
}

static int single_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
                      ddp_error_t *errp)
{
    (void)deadline;
    struct single *s = b->state;
    const struct boot_item *it = boot_store_find(s->items, key);
    if (!it)
        return error_set(errp, DDP_E_BOOT, ENOENT, "boot: rank %d has put nothing under %s", rank, key);
    void *copy = malloc(it->n + 1);
    if (!copy)
        return error_errno(errp, "boot: get %s", key);
    memcpy(copy, it->data, it->n);
    *ret_data = copy;
    *ret_n = it->n;
    return 0;
}

static int single_close(boot_t *b, ddp_error_t *errp)
{
    struct single *s = b->state;
    (void)errp;
    boot_store_clear(&s->items);
    free(s);
    return 0;
}

static const struct boot_ops single_ops = {single_put, single_fence, single_get, single_close};

int boot_single_open(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    (void)deadline;
    b->state = calloc(1, sizeof(struct single));
    if (!b->state)
        return error_errno(errp, "boot");
    b->ops = &single_ops;
    b->rank = 0;
    b->size = 1;
    return 0;
}
