/* step.c - the optimizer on a GPU. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/gpu/impl.h"

static int reserve(gpu_t *g, size_t n, ddp_error_t *errp)
{
    if (n <= g->n_update)
        return 0;
    struct cuda_optim_range *all = realloc(g->update, n * sizeof *all);
    if (!all)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for %zu slices of parameters",
                         g->cfg.world->rank, n);
    g->update = all;
    g->n_update = n;
    return 0;
}

/* Slices [first, end) of those that were used, into g->update. Returns how many. */
static size_t list(gpu_t *g, size_t first, size_t end, const double *used, uint16_t *copy)
{
    const struct gpu_arenas *a = &g->arena;
    const struct optimizer *o = g->cfg.optimizer;
    size_t n = 0;
    for (const struct optimizer_slice *s = o->slice + first; s < o->slice + end; s++) {
        if (used[s->id] == 0)
            continue;
        struct cuda_optim_range *r = &g->update[n++];
        *r = (struct cuda_optim_range){.value = a->values + s->at,
                                       .grad = a->grads + s->at,
                                       .copy = copy ? copy + s->at : NULL,
                                       .copy_type = g->cfg.kept,
                                       .n = s->n_elems,
                                       .weight_decay = s->decays ? o->args.weight_decay : 0};
        for (int k = 0; k < o->rule->n_moments; k++)
            r->moment[k] = o->moment[k] + s->state;
    }
    return n;
}

static int update(gpu_t *g, size_t n, ddp_error_t *errp)
{
    const struct optimizer *o = g->cfg.optimizer;
    void *stream = device_native_stream(g->program);
    char call[32];
    snprintf(call, sizeof call, "cuda_%s", o->rule->name);
    return gpu_result(g, g->step(g->update, n, &o->args, stream), call, errp);
}

/* ---- spread ---- */

/* The bucket's values, from who has stepped them. */
static int gather(gpu_t *g, const struct zero_gpu_bucket *b, ddp_error_t *errp)
{
    float *at = g->arena.values + b->at;
    if (gpu_after_program(g, g->travel, errp) < 0)
        return -1;
    if (!g->nccl)
        return 0;
    return nccl_allgather(g->nccl, at + (size_t)g->cfg.world->rank * b->n_each, at, b->n_each, DDP_F32,
                          device_native_stream(g->travel), errp);
}

/* Behind that: what is derived from them. Rounded on each rank: to gather that, too, would move half as much again. */
static int follow(gpu_t *g, const struct zero_gpu_bucket *b, ddp_error_t *errp)
{
    size_t n = b->n_each * (size_t)g->cfg.world->size;
    if (gpu_after_travel(g, errp) < 0)
        return -1;
    return gpu_round_range(g, b->at, n, g->behind, errp);
}

static int step_spread(gpu_t *g, const double *used, ddp_error_t *errp)
{
    const struct zero_gpu_bucket *b = g->cfg.spread->bucket, *end = b + g->cfg.spread->plan.n_buckets;
    if (b == end)
        return 0;
    for (const struct zero_gpu_bucket *last = NULL; b < end; last = b++)
        if (update(g, list(g, b->first, b->end, used, NULL), errp) < 0 || (last && follow(g, last, errp) < 0) ||
            gather(g, b, errp) < 0)
            return -1;
    if (follow(g, end - 1, errp) < 0 || device_event_record(g->summed, g->behind, errp) < 0)
        return -1;
    return gpu_wait(g, g->summed, errp); /* before the program's stream is asked for more: a peer's death ends this */
}

int gpu_step(void *ctx, const double *used, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    const struct optimizer *o = g->cfg.optimizer;
    ddp_error_t why = {0};
    int rc = device_enter(g->cfg.device, &why) < 0 ? -1 : reserve(g, o->n_slices, &why);
    if (rc == 0 && g->cfg.spread)
        rc = step_spread(g, used, &why);
    else if (rc == 0)
        rc = update(g, list(g, 0, o->n_slices, used, g->arena.values_16), &why);
    return rc < 0 ? gpu_tell(g, &why, errp) : 0;
}
