#include "pmix/boot_carried.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pmix/boot_wire.h"
#include "runtime/base/secret.h"

/* The card by which a rank joins, for looking whether there is another one by now. */
struct joining {
    carried_card_f *again;
    void *ctx;
    uint64_t deadline;
    char card[CARRIED_CARD_MAX], text[2 * CARRIED_CARD_MAX];
};

static int read_card(struct joining *w, const char *card, struct boot_join *j)
{
    snprintf(w->card, sizeof w->card, "%s", card);
    int rc = boot_host_addrs(card, w->text, sizeof w->text, &j->token, &j->addrs);
    return rc == 0 && !wire_token_ok(j->token) ? -1 : rc;
}

static bool look_again(struct boot_join *j)
{
    struct joining *w = j->ctx;
    char card[CARRIED_CARD_MAX];
    return w->again(w->ctx, card, w->deadline) == 0 && strcmp(card, w->card) != 0 && read_card(w, card, j) == 0;
}

int carried_join(struct boot_carried *c, int rank, int size, const char *card, carried_card_f *again, void *ctx,
                 uint64_t deadline, ddp_error_t *errp)
{
    struct joining w = {.again = again, .ctx = ctx, .deadline = deadline};
    struct boot_join j = {.who = "rank 0's boot server", .rank = rank, .size = size, .ctx = &w};
    j.look = again ? look_again : NULL;
    int rc = read_card(&w, card, &j);
    if (rc == BOOT_HOST_FORGED)
        return error_set(errp, DDP_E_BOOT, EPROTO, "what rank 0 has published was not made with this step's "
                         SECRET_VARIABLE ": is that, from srun --ddp=on, in the environment of all ranks? Else "
                         "somebody has changed it");
    if (rc < 0)
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
