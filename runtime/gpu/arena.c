/* arena.c - values, the optimizer's state and the sums of shards in a GPU's memory (optimizer/arena.h). */
#include <errno.h>
#include <string.h>

#include "kernels/cuda/fold.h"
#include "runtime/base/clock.h"
#include "runtime/gpu/impl.h"

/* One piece; host is the program's side, and lies in pageable memory. */
static int copy(gpu_t *g, void *at, void *host, size_t n, enum device_way way, ddp_error_t *errp)
{
    bool is_to = way == DEVICE_TO;
    if (is_to)
        memcpy(g->bounce, host, n);
    if (device_copy(g->copies, is_to ? at : g->bounce, is_to ? g->bounce : at, n, way, errp) < 0 ||
        device_stream_wait(g->copies, deadline_in(g->cfg.timeout_s), NULL, NULL, errp) < 0)
        return -1;
    if (!is_to)
        memcpy(host, g->bounce, n);
    return 0;
}

static int copy_all(gpu_t *g, char *at, char *host, size_t n_bytes, enum device_way way, ddp_error_t *errp)
{
    if (gpu_after_program(g, g->copies, errp) < 0)
        return -1;
    for (size_t i = 0, n; i < n_bytes; i += n) {
        n = n_bytes - i < GPU_BOUNCE_BYTES ? n_bytes - i : GPU_BOUNCE_BYTES;
        if (copy(g, at + i, host + i, n, way, errp) < 0)
            return -1;
    }
    return 0;
}

static int read_values(void *ctx, void *host, const void *from, size_t n, ddp_error_t *errp)
{
    return copy_all(ctx, (char *)(uintptr_t)from, host, n, DEVICE_FROM, errp); /* only read there */
}

static int write_values(void *ctx, void *to, const void *host, size_t n, ddp_error_t *errp)
{
    return copy_all(ctx, to, (char *)(uintptr_t)host, n, DEVICE_TO, errp); /* only read here */
}

static int bcast_all(gpu_t *g, void *at, size_t n, int root, ddp_error_t *errp)
{
    struct nccl_range all = {at, n / sizeof(float), DDP_F32};
    if (gpu_after_program(g, g->travel, errp) < 0 ||
        nccl_bcast(g->nccl, &all, 1, root, device_native_stream(g->travel), errp) < 0 ||
        nccl_settle(g->nccl, errp) < 0 || device_event_record(g->summed, g->travel, errp) < 0)
        return -1;
    return gpu_wait(g, g->summed, errp);
}

static int bcast(void *ctx, void *at, size_t n, int root, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    ddp_error_t why = {0};
    return g->nccl && bcast_all(g, at, n, root, &why) < 0 ? gpu_tell(g, &why, errp) : 0;
}

static int round_all(void *ctx, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    if (!g->arena.values_16)
        return 0;
    if (device_enter(g->cfg.device, errp) < 0)
        return -1;
    return gpu_round_range(g, 0, g->cfg.layout->n_bytes / sizeof(float), g->program, errp);
}

/* ---- sums of shards (shards.h) ---- */

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

static int open_shards(void *ctx, struct shards *p, int n_shards, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    const struct shards_place place = {.ctx = g, .take = take, .give = give, .fold = fold};
    if (gpu_sum_in_order(g, errp) < 0)
        return -1;
    return shards_open(p, n_shards, g->cfg.layout->n_bytes / sizeof(float), &place, errp);
}

/* ---- the arena ---- */

static void leave(void *ctx, bool is_clean)
{
    gpu_leave(ctx, is_clean);
}

static void close_all(void *ctx)
{
    gpu_close(ctx);
}

static const struct arena_ops ops = {.step = gpu_step,
                                     .read = read_values,
                                     .write = write_values,
                                     .bcast = bcast,
                                     .round = round_all,
                                     .shards = open_shards,
                                     .leave = leave,
                                     .close = close_all};

struct arena gpu_arena(gpu_t *g)
{
    return (struct arena){.ops = &ops,
                          .ctx = g,
                          .values = g->arena.values,
                          .copies = g->arena.values_16,
                          .copy_dtype = g->cfg.kept,
                          .is_spread = g->cfg.spread != NULL,
                          .carrier = gpu_carrier(g),
                          .device = g->cfg.device,
                          .program = g->program};
}
