/* gpu_step.c - the optimizer on a GPU. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/gpu_impl.h"

static int reserve(gpu_t *g, size_t n, ddp_error_t *errp)
{
    if (n <= g->n_update)
        return 0;
    struct cuda_adamw_range *all = realloc(g->update, n * sizeof *all);
    if (!all)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu slices of parameters", n);
    g->update = all;
    g->n_update = n;
    return 0;
}

int gpu_step(gpu_t *g, const struct optimizer *o, const double *used, ddp_error_t *errp)
{
    const struct gpu_arenas *a = &g->arena;
    uint16_t *bf16 = g->cfg.rounds_at_random ? NULL : a->values_bf16;
    size_t n = 0;
    if (device_enter(g->cfg.device, errp) < 0 || reserve(g, o->n_slices, errp) < 0)
        return -1;
    for (const struct optimizer_slice *s = o->slice; s < o->slice + o->n_slices; s++)
        if (used[s->id] != 0)
            g->update[n++] = (struct cuda_adamw_range){.value = a->values + s->at,
                                                       .m = o->m ? o->m + s->state : NULL,
                                                       .v = o->v ? o->v + s->state : NULL,
                                                       .grad = a->grads + s->at,
                                                       .value_bf16 = bf16 ? bf16 + s->at : NULL,
                                                       .n = s->n_elems,
                                                       .weight_decay = s->decays ? o->args.weight_decay : 0};
    void *stream = device_native_stream(g->program);
    int code = (o->cfg.sgd ? cuda_sgd : cuda_adamw)(g->update, n, DDP_F32, &o->args, NULL, stream);
    if (gpu_result(g, code, o->cfg.sgd ? "cuda_sgd" : "cuda_adamw", errp) < 0)
        return -1;
    return g->cfg.rounds_at_random ? gpu_round(g, o->n_steps, errp) : 0;
}
