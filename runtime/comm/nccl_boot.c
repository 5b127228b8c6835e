/* The wire-up's first half: what ranks tell each other through the boot, in the fence of the host communicator's. Ids
 * are secrets: whoever has one can take part. They travel as the other tokens do, and are wiped after use. */
#include <config.h> /* explicit_bzero */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/comm/nccl_impl.h"
#include "runtime/comm/nccl_plan.h"

enum { CARD_VERSION = 0x646e0001 };

struct card {
    uint32_t magic;
    int32_t version; /* of the library */
    int32_t n_roots; /* that this rank counts with */
    uint32_t shares; /* devices may be shared */
    char device[NCCL_DEVICE_MAX + 1];
    char refusal[sizeof((ddp_error_t *)0)->text]; /* empty, or why this rank cannot take part */
    unsigned char id[NCCL_ID_BYTES];              /* of a root */
};

static int make_id(nccl_t *n, struct card *card)
{
    int *roots = malloc((size_t)n->n_ids * sizeof *roots);
    if (!roots || nccl_roots(n->world, n->n_ids, roots) < 0) {
        free(roots);
        return error_errno(&n->refusal, "NCCL's roots");
    }
    int code = NCCL_OK;
    for (int i = 0; i < n->n_ids; i++)
        if (roots[i] == n->world->rank)
            code = n->lib->unique_id(card->id);
    free(roots);
    return code == NCCL_OK ? 0 : nccl_error(n, code, WATCH_IN_NCCL_INIT, &n->refusal);
}

static void fill_card(nccl_t *n, const char *device, struct card *card)
{
    card->magic = CARD_VERSION;
    card->shares = n->cfg.share_devices;
    snprintf(card->device, sizeof card->device, "%s", device ? device : "");
    if (n->lib && n->refusal.code == 0) {
        n->n_ids = nccl_n_roots(n->world->size, n->lib->has[NCCL_SCALABLE]);
        card->version = n->lib->version;
        card->n_roots = n->n_ids;
        make_id(n, card);
    }
    if (n->refusal.code != 0)
        memcpy(card->refusal, n->refusal.text, sizeof card->refusal);
}

nccl_t *nccl_offer_with(const struct nccl_config *cfg, const struct nccl_lib *lib, const ddp_error_t *why,
                        const struct world *w, boot_t *b, ddp_error_t *errp)
{
    nccl_t *n = calloc(1, sizeof *n);
    char key[BOOT_KEY_MAX + 1];
    struct card card = {0};
    if (!n) {
        error_errno(errp, "NCCL communicator");
        return NULL;
    }
    *n = (struct nccl){.lib = lib, .cfg = *cfg, .world = w, .life = NCCL_OFFERED, .version = "none"};
    n->cfg.device = n->cfg.log = NULL;
    if (lib)
        nccl_version_text(lib->version, n->version);
    if (!lib)
        n->refusal = *why;
    else
        nccl_environment(cfg, w->rank, &n->refusal);
    fill_card(n, cfg->device, &card);
    int rc = boot_put(b, nccl_key(cfg->generation, key), &card, sizeof card, errp);
    explicit_bzero(&card, sizeof card);
    if (rc == 0)
        return n;
    nccl_destroy(n);
    return NULL;
}

nccl_t *nccl_offer(const struct nccl_config *cfg, const struct world *w, boot_t *b, ddp_error_t *errp)
{
    ddp_error_t why = {0};
    const struct nccl_lib *lib = nccl_lib_open(&why);
    return nccl_offer_with(cfg, lib, &why, w, b, errp);
}

/* ---- what the others say ---- */

static int get_card(const nccl_t *n, boot_t *b, int rank, uint64_t deadline, struct card *ret, ddp_error_t *errp)
{
    char key[BOOT_KEY_MAX + 1], who[96];
    void *data;
    size_t size;
    world_rank_name(n->world, rank, who, sizeof who);
    if (boot_get(b, rank, nccl_key(n->cfg.generation, key), &data, &size, deadline, errp) < 0)
        return -1;
    bool is_right = size == sizeof *ret;
    if (is_right)
        memcpy(ret, data, size);
    explicit_bzero(data, size);
    free(data);
    if (!is_right || ret->magic != CARD_VERSION)
        return error_set(errp, DDP_E_BOOT, EPROTO, "%s runs another version of libddp", who);
    ret->refusal[sizeof ret->refusal - 1] = ret->device[NCCL_DEVICE_MAX] = 0;
    if (ret->refusal[0])
        return error_set(errp, DDP_E_PEER, ECONNABORTED, "%s: %s", who, ret->refusal);
    return 0;
}

static int compare_versions(const nccl_t *n, const struct card *cards, ddp_error_t *errp)
{
    char who[2][96], have[2][32];
    for (int r = 1; r < n->world->size; r++) {
        if (cards[r].version == cards[0].version && cards[r].n_roots == cards[0].n_roots)
            continue;
        world_rank_name(n->world, 0, who[0], sizeof who[0]);
        world_rank_name(n->world, r, who[1], sizeof who[1]);
        return error_set(errp, DDP_E_COMM, EPROTO, "%s has NCCL %s and %s has %s: all ranks need the same version and "
                         "the same build of libddp (LD_LIBRARY_PATH)", who[0],
                         nccl_version_text(cards[0].version, have[0]), who[1],
                         nccl_version_text(cards[r].version, have[1]));
    }
    return 0;
}

static int compare_devices(const struct world *w, const struct card *cards, ddp_error_t *errp)
{
    for (int b = 1; b < w->size; b++)
        for (int l = 0; l < w->local_of[b]; l++) {
            int a = world_rank_at(w, w->node_of[b], l);
            bool is_same = cards[a].device[0] && strcmp(cards[a].device, cards[b].device) == 0;
            if (is_same && !(cards[a].shares && cards[b].shares))
                return nccl_duplicate(w, a, b, cards[a].device, errp);
        }
    return 0;
}

static int take_ids(nccl_t *n, const struct card *cards, ddp_error_t *errp)
{
    int *roots = malloc((size_t)n->n_ids * sizeof *roots);
    n->ids = malloc((size_t)n->n_ids * NCCL_ID_BYTES);
    int rc = roots && n->ids && nccl_roots(n->world, n->n_ids, roots) == 0 ? 0 : error_errno(errp, "NCCL's ids");
    for (int i = 0; rc == 0 && i < n->n_ids; i++)
        memcpy(n->ids + (size_t)i * NCCL_ID_BYTES, cards[roots[i]].id, NCCL_ID_BYTES);
    free(roots);
    return rc;
}

int nccl_meet(nccl_t *n, boot_t *b, ddp_error_t *errp)
{
    uint64_t deadline = deadline_in(n->cfg.timeout_s);
    size_t size = (size_t)n->world->size;
    if (n->life != NCCL_OFFERED)
        return error_set(errp, DDP_E_USAGE, EINVAL, "nccl_meet is called once, after nccl_offer");
    if (n->refusal.code != 0)
        return error_set(errp, n->refusal.domain, n->refusal.code, "%s", n->refusal.text);
    struct card *cards = calloc(size, sizeof *cards);
    if (!cards)
        return error_errno(errp, "NCCL's wire-up");
    int rc = 0;
    for (int r = 0; rc == 0 && r < n->world->size; r++)
        rc = get_card(n, b, r, deadline, &cards[r], errp);
    if (rc == 0)
        rc = compare_versions(n, cards, errp) < 0 || compare_devices(n->world, cards, errp) < 0 ? -1 : 0;
    if (rc == 0)
        rc = take_ids(n, cards, errp);
    explicit_bzero(cards, size * sizeof *cards);
    free(cards);
    n->life = rc == 0 ? NCCL_MET : n->life;
    return rc;
}
