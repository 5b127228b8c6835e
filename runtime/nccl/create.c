/* The wire-up's first half: what ranks tell each other before NCCL does, over the host communicator. An id is a secret
 * until all ranks have come: whoever has one can take part.
 *
 * Ids do not travel through the boot, as the host communicator's tokens do. Which device a program uses is known in
 * ddp_commit only, when the boot is closed; jobs without GPUs would pay for the ids; and an id of an earlier wire-up
 * that the boot still holds could be taken for the present one. */
#include <config.h> /* explicit_bzero */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/watch.h"
#include "runtime/nccl/impl.h"
#include "runtime/nccl/plan.h"

struct card {
    int32_t version; /* of the library */
    int32_t n_roots; /* that this rank counts with */
    int32_t has;     /* nccl_lib.has, a bit each: what some ranks can do alone the others would wait for */
    char refusal[sizeof((ddp_error_t *)0)->text]; /* empty, or why this rank cannot take part */
    unsigned char id[NCCL_ID_BYTES];              /* of a root */
};

/* roots: n_ids ranks */
static int fill_card(nccl_t *n, const int *roots, struct card *card, ddp_error_t *why)
{
    card->version = n->lib->version;
    card->n_roots = n->n_ids;
    for (int f = 0; f < NCCL_FEATURES; f++)
        card->has |= n->lib->has[f] << f;
    int code = NCCL_OK;
    for (int i = 0; i < n->n_ids; i++)
        if (roots[i] == n->world->rank)
            code = n->lib->unique_id(card->id);
    return code == NCCL_OK ? 0 : nccl_error(n, code, WATCH_IN_NCCL_INIT, why);
}

static int compare(const nccl_t *n, const struct card *cards, ddp_error_t *errp)
{
    char who[2][96], have[2][32];
    for (int r = 0; r < n->world->size; r++) {
        world_rank_name(n->world, r, who[1], sizeof who[1]);
        if (cards[r].refusal[0])
            return error_set(errp, DDP_E_PEER, ECONNABORTED, "%s: %s", who[1], cards[r].refusal);
    }
    for (int r = 1; r < n->world->size; r++) {
        if (cards[r].version == cards[0].version && cards[r].n_roots == cards[0].n_roots &&
            cards[r].has == cards[0].has)
            continue;
        world_rank_name(n->world, 0, who[0], sizeof who[0]);
        world_rank_name(n->world, r, who[1], sizeof who[1]);
        return error_set(errp, DDP_E_COMM, EPROTO, "%s has NCCL %s and %s has %s: all ranks need the same version and "
                         "build of it, and the same build of libddp (LD_LIBRARY_PATH)", who[0],
                         nccl_version_text(cards[0].version, have[0]), who[1],
                         nccl_version_text(cards[r].version, have[1]));
    }
    return 0;
}

/* All ranks have the same version, so all are warned alike, or none. */
static void warn_of_version(const nccl_t *n)
{
    char line[256];
    if (n->world->size == 1 || n->lib->version < NCCL_CRASHES_FROM || n->lib->version >= NCCL_CRASHES_UNTIL)
        return;
    snprintf(line, sizeof line, "NCCL %s may crash when it is aborted because a rank has failed, which then hides why: "
             "install NCCL 2.28.9 or newer", n->version);
    nccl_warn(n, line);
}

static int exchange(nccl_t *n, const struct nccl_config *cfg, ddp_error_t *why, ddp_error_t *errp)
{
    size_t size = (size_t)n->world->size;
    struct card *cards = calloc(size + 1, sizeof *cards), *own = cards + size;
    int *roots = calloc((size_t)n->n_ids + 1, sizeof *roots), rc = -1;
    n->ids = calloc((size_t)n->n_ids + 1, NCCL_ID_BYTES);
    if (!cards || !roots || !n->ids || nccl_roots(n->world, n->n_ids, roots) < 0) {
        error_errno(errp, "NCCL's wire-up");
        comm_fail(n->comm, errp);
        goto out;
    }
    if (n->lib && nccl_environment(cfg, n->world, why) == 0)
        fill_card(n, roots, own, why);
    if (why->code)
        memcpy(own->refusal, why->text, sizeof own->refusal);
    rc = comm_allgather(n->comm, own, sizeof *own, cards, errp);
    if (rc == 0 && why->code)
        rc = error_set(errp, why->domain, why->code, "%s", why->text);
    if (rc == 0)
        rc = compare(n, cards, errp);
    for (int i = 0; rc == 0 && i < n->n_ids; i++)
        memcpy(n->ids + (size_t)i * NCCL_ID_BYTES, cards[roots[i]].id, NCCL_ID_BYTES);
out:
    if (cards)
        explicit_bzero(cards, (size + 1) * sizeof *cards);
    free(cards);
    free(roots);
    return rc;
}

nccl_t *nccl_create_with(const struct nccl_config *cfg, const struct nccl_lib *lib, const ddp_error_t *why,
                         const struct world *w, comm_t *c, ddp_error_t *errp)
{
    nccl_t *n = calloc(1, sizeof *n);
    ddp_error_t refusal = {0};
    if (!n) {
        error_errno(errp, "NCCL communicator");
        comm_fail(c, errp);
        return NULL;
    }
    *n = (struct nccl){.lib = lib, .cfg = *cfg, .world = w, .comm = c, .watch = comm_watch(c), .version = "none"};
    n->cfg.log = NULL;
    n->life = NCCL_CREATED;
    if (lib) {
        nccl_version_text(lib->version, n->version);
        n->n_ids = nccl_n_roots(w->size, cfg->ranks_per_root, lib->has[NCCL_SCALABLE]);
    } else {
        refusal = *why;
    }
    if (exchange(n, cfg, &refusal, errp) < 0) {
        nccl_destroy(n);
        return NULL;
    }
    warn_of_version(n);
    return n;
}

nccl_t *nccl_create(const struct nccl_config *cfg, const struct world *w, comm_t *c, ddp_error_t *errp)
{
    ddp_error_t why = {0};
    const struct nccl_lib *lib = nccl_lib_open(&why);
    return nccl_create_with(cfg, lib, &why, w, c, errp);
}
