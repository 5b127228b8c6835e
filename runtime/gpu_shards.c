/* gpu_shards.c - sums of shards in a GPU's memory (partials.h). */
#include "kernels/cuda/fold.h"
#include "runtime/gpu_impl.h"

static float *take(void *ctx, size_t n_bytes, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    return device_malloc(g->cfg.device, n_bytes, "sums of shards", errp);
}

static void give(void *ctx, float *p)
{
    gpu_t *g = ctx;
    device_free(g->cfg.device, p);
}

static int fold(void *ctx, float *out, const float *const *in, int n_in, size_t n, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    if (device_enter(g->cfg.device, errp) < 0)
        return -1;
    return gpu_result(g, cuda_fold(out, in, n_in, n, device_native_stream(g->program)), "cuda_fold", errp);
}

struct partials_place gpu_place(gpu_t *g)
{
    return (struct partials_place){.ctx = g, .take = take, .give = give, .fold = fold};
}
