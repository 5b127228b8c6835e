/* carry.c - buckets of gradients on their way between GPUs (reducer_carrier). */
#include <errno.h>

#include "runtime/base/clock.h"
#include "runtime/gpu/impl.h"

/* The gradient of parameter id as it travels. */
static char *on_wire(const gpu_t *g, int id)
{
    return (char *)g->wire + g->cfg.layout->param[id].offset_bytes / sizeof(float) * dtype_size(g->cfg.wire);
}

static const struct zero_gpu_bucket *bucket_of(const gpu_t *g, const int *id)
{
    const struct zero_gpu *s = g->cfg.spread;
    return &s->bucket[s->plan.bucket_of[id[0]]];
}

/* By which gradients are divided as they set out: float16 overflows where its average would not (as in hook.c). */
static float divisor(const gpu_t *g)
{
    return g->cfg.wire == DDP_F16 ? (float)g->cfg.world->size : 1;
}

/* The tensors' places in the arena, neighbours joined, with the zeros between them: consecutive parameters become one
 * range. Returns how many. */
static size_t join(gpu_t *g, const int *id, int n)
{
    size_t n_spans = 0, size = dtype_size(g->cfg.wire);
    for (int i = 0; i < n; i++) {
        size_t elems = g->cfg.layout->param[id[i]].room_bytes / sizeof(float);
        char *at = on_wire(g, id[i]);
        struct nccl_range *last = n_spans ? &g->span[n_spans - 1] : NULL;
        if (last && (char *)last->data == at + elems * size) { /* from the last layer to the first */
            last->data = at;
            last->n_elems += elems;
        } else if (last && (char *)last->data + last->n_elems * size == at) {
            last->n_elems += elems;
        } else {
            g->span[n_spans++] = (struct nccl_range){at, elems, g->cfg.wire};
        }
    }
    return n_spans;
}

static int encode(gpu_t *g, const int *id, int n, ddp_error_t *errp)
{
    void *stream = device_native_stream(g->travel);
    if (g->cfg.wire == DDP_F32)
        return 0;
    for (int i = 0; i < n; i++) {
        const struct layout_param *p = &g->cfg.layout->param[id[i]];
        g->cast[i] =
            (struct cuda_range){on_wire(g, id[i]), g->arena.grads + p->offset_bytes / sizeof(float), p->n_elems};
    }
    int code = cuda_cast(g->cast, (size_t)n, g->cfg.wire, 1 / divisor(g), stream);
    return gpu_result(g, code, "cuda_cast", errp);
}

/* ---- what is made of a bucket that has come ---- */

/* Elements [first, first + n) of parameter id; first is a multiple of NORM_BLOCK. */
static struct cuda_norm_range blocks(const gpu_t *g, int id, size_t first, size_t n)
{
    float *grad = g->arena.grads + g->cfg.layout->param[id].offset_bytes / sizeof(float) + first;
    return (struct cuda_norm_range){.in = on_wire(g, id) + first * dtype_size(g->cfg.wire),
                                    .out = g->cfg.wire == DDP_F32 ? NULL : grad,
                                    .sums = g->sums + g->norm.first_block[id] + first / NORM_BLOCK,
                                    .n = n};
}

static size_t list_all(gpu_t *g, const int *id, int n)
{
    for (int i = 0; i < n; i++)
        g->blocks[i] = blocks(g, id[i], 0, g->cfg.layout->param[id[i]].n_elems);
    return (size_t)n;
}

static size_t list_owned(gpu_t *g, const struct zero_gpu_bucket *b)
{
    for (size_t i = b->first; i < b->end; i++) {
        const struct optimizer_slice *s = &g->cfg.optimizer->slice[i];
        size_t first = s->at - g->cfg.layout->param[s->id].offset_bytes / sizeof(float);
        g->blocks[i - b->first] = blocks(g, s->id, first, s->n_elems);
    }
    return b->end - b->first;
}

/* Behind the bucket that was started last: its sums of squares and, where it travelled as another type, its gradients.
 * On a stream of their own: the next bucket does not wait for them. */
static int end_last(gpu_t *g, ddp_error_t *errp)
{
    struct gpu_bucket b = g->last;
    if (b.n == 0)
        return 0;
    g->last.n = 0;
    if (device_enter(g->cfg.device, errp) < 0 || gpu_after_travel(g, errp) < 0)
        return -1;
    size_t n = g->cfg.spread ? list_owned(g, bucket_of(g, b.id)) : list_all(g, b.id, b.n);
    int code = cuda_norm_blocks(g->blocks, n, g->cfg.wire, divisor(g), device_native_stream(g->behind));
    return gpu_result(g, code, "cuda_norm_blocks", errp);
}

static int sum_to_owners(gpu_t *g, const struct zero_gpu_bucket *b, ddp_error_t *errp)
{
    void *stream = device_native_stream(g->travel);
    size_t size = dtype_size(g->cfg.wire), n_each = b->n_each;
    char *at = (char *)g->wire + b->at * size, *mine = at + (size_t)g->cfg.world->rank * n_each * size;
    if (g->stage.data)
        return nccl_reduce_scatter_fixed(g->nccl, at, n_each, g->cfg.wire, &g->stage, stream, errp);
    return nccl_reduce_scatter(g->nccl, at, mine, n_each, g->cfg.wire, stream, errp);
}

static int sum_over_ranks(gpu_t *g, const int *id, int n, ddp_error_t *errp)
{
    void *stream = device_native_stream(g->travel);
    if (g->cfg.spread)
        return sum_to_owners(g, bucket_of(g, id), errp);
    size_t n_spans = join(g, id, n);
    if (g->stage.data)
        return nccl_allreduce_fixed(g->nccl, g->span, n_spans, &g->stage, stream, errp);
    return nccl_allreduce(g->nccl, g->span, n_spans, stream, errp);
}

static int set_out(gpu_t *g, const int *id, int n, ddp_error_t *errp)
{
    if (end_last(g, errp) < 0 || gpu_after_program(g, g->travel, errp) < 0 || gpu_times_depart(g, errp) < 0 ||
        encode(g, id, n, errp) < 0)
        return -1;
    if ((g->nccl && sum_over_ranks(g, id, n, errp) < 0) || gpu_times_come(g, errp) < 0)
        return -1;
    g->last = (struct gpu_bucket){id, n};
    return 0;
}

/* Each block's sum comes from its owner, and zero from the others, which leaves it as it is in any order. NCCL adds
 * them, not the tail (reducer.h), since they may be megabytes, and the host's way between nodes is slow for that. */
static int share_sums(gpu_t *g, ddp_error_t *errp)
{
    const struct nccl_range all = {g->sums, g->norm.n_blocks, DDP_F64};
    if (device_event_record(g->come, g->behind, errp) < 0 || device_stream_after(g->travel, g->come, errp) < 0 ||
        nccl_allreduce(g->nccl, &all, 1, device_native_stream(g->travel), errp) < 0)
        return -1;
    return gpu_after_travel(g, errp);
}

static int arrive(gpu_t *g, ddp_error_t *errp)
{
    size_t n_sums = g->norm.n_blocks * sizeof *g->sums;
    bool is_shared = g->cfg.spread && g->nccl;
    if (end_last(g, errp) < 0 || (is_shared && share_sums(g, errp) < 0) ||
        device_copy(g->behind, g->host_sums, g->sums, n_sums, DEVICE_FROM, errp) < 0 ||
        (is_shared && device_fill(g->behind, g->sums, 0, n_sums, errp) < 0) || /* for the next step */
        device_event_record(g->summed, g->behind, errp) < 0)
        return -1;
    int rc = gpu_wait(g, g->summed, errp);
    g->times.summed_ns = clock_ns();
    g->times.n = 0;
    return rc;
}

static int tell(gpu_t *g, const ddp_error_t *why, ddp_error_t *errp)
{
    g->last.n = 0;
    return gpu_tell(g, why, errp);
}

/* ---- the carrier's functions ---- */

static int zero(void *ctx, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    ddp_error_t why = {0};
    g->last.n = g->times.n = 0;
    return device_fill(g->program, g->arena.grads, 0, g->cfg.layout->n_bytes, &why) < 0 ? tell(g, &why, errp) : 0;
}

static int start(void *ctx, const int *id, int n, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    ddp_error_t why = {0};
    return set_out(g, id, n, &why) < 0 ? tell(g, &why, errp) : 0;
}

static int wait(void *ctx, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    ddp_error_t why = {0};
    return arrive(g, &why) < 0 ? tell(g, &why, errp) : 0;
}

const struct reducer_carrier *gpu_carrier(gpu_t *g)
{
    g->carrier = (struct reducer_carrier){.ctx = g,
                                          .grads = g->arena.grads,
                                          .sums = g->host_sums,
                                          .wire = g->cfg.wire,
                                          .zero = zero,
                                          .start = start,
                                          .wait = wait,
                                          .span = g->cfg.is_traced ? gpu_times_span : NULL,
                                          .done = g->cfg.is_traced ? gpu_times_done : NULL};
    return &g->carrier;
}
