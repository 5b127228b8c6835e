#include "pmix/boot_carried.h"

#include <errno.h>

int carried_join(struct boot_carried *c, int rank, int size, const char *card, uint64_t deadline, ddp_error_t *errp)
{
    char text[2 * CARRIED_CARD_MAX];
    struct boot_join j = {.who = "rank 0's boot server", .rank = rank, .size = size};
    if (boot_host_addrs(card, text, sizeof text, &j.token, &j.addrs) < 0)
        return error_set(errp, DDP_E_BOOT, EPROTO, "rank 0 names no address that this rank can use: is DDP_INTERFACE a "
                         "network interface that is up on its node, and its libddp of the same version?");
    return boot_local_join(&c->local, &j, deadline, errp);
}

void carried_close(struct boot_carried *c, uint64_t deadline)
{
    if (c->local.ops)
        c->local.ops->close(&c->local, NULL);
    boot_host_destroy(c->host, deadline);
}

int carried_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    struct boot_carried *c = b->state;
    return c->local.ops->put(&c->local, key, data, n, errp);
}

int carried_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    struct boot_carried *c = b->state;
    return c->local.ops->fence(&c->local, deadline, errp);
}

int carried_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
                ddp_error_t *errp)
{
    struct boot_carried *c = b->state;
    return c->local.ops->get(&c->local, rank, key, ret_data, ret_n, deadline, errp);
}
