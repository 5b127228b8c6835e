/* gpu_carry.c - buckets of gradients on their way between GPUs (reducer_carrier). */
#include <errno.h>

#include "runtime/gpu_impl.h"

/* The gradient of parameter id as it travels. */
static char *on_wire(const gpu_t *g, int id)
{
    return (char *)g->wire + g->cfg.layout->param[id].offset_bytes / sizeof(float) * dtype_size(g->cfg.wire);
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
    size_t n_spans = 0, size = dtype_size(g->cfg.wire), unit = LAYOUT_ALIGN / sizeof(float);
    for (int i = 0; i < n; i++) {
        size_t elems = (g->cfg.layout->param[id[i]].n_elems + unit - 1) / unit * unit;
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
        g->cast[i] = (struct cuda_range){on_wire(g, id[i]), (char *)g->arena.grads + p->offset_bytes, p->n_elems};
    }
    int code = cuda_cast(g->cast, (size_t)n, DDP_F32, g->cfg.wire, 1 / divisor(g), stream);
    return gpu_result(g, code, "cuda_cast", errp);
}

/* Behind the bucket that was started last: its sums of squares and, where it travelled as another type, its gradients.
 * On a stream of their own: the next bucket does not wait for them. */
static int end_last(gpu_t *g, ddp_error_t *errp)
{
    struct gpu_bucket b = g->last;
    bool is_same = g->cfg.wire == DDP_F32;
    if (b.n == 0)
        return 0;
    g->last.n = 0;
    if (device_enter(g->cfg.device, errp) < 0 || gpu_after_travel(g, errp) < 0)
        return -1;
    for (int i = 0; i < b.n; i++) {
        const struct layout_param *p = &g->cfg.layout->param[b.id[i]];
        float *grad = g->arena.grads + p->offset_bytes / sizeof(float);
        g->blocks[i] = (struct cuda_norm_range){.in = on_wire(g, b.id[i]),
                                                .out = is_same ? NULL : grad,
                                                .sums = g->sums + g->norm.first_block[b.id[i]],
                                                .n = p->n_elems};
    }
    int code = cuda_norm_blocks(g->blocks, (size_t)b.n, g->cfg.wire, divisor(g), NULL,
                                device_native_stream(g->behind));
    return gpu_result(g, code, "cuda_norm_blocks", errp);
}

static int sum_over_ranks(gpu_t *g, const int *id, int n, ddp_error_t *errp)
{
    void *stream = device_native_stream(g->travel);
    size_t n_spans = join(g, id, n);
    if (g->stage.data)
        return nccl_allreduce_fixed(g->nccl, g->span, n_spans, &g->stage, stream, errp);
    return nccl_allreduce(g->nccl, g->span, n_spans, stream, errp);
}

static int set_out(gpu_t *g, const int *id, int n, ddp_error_t *errp)
{
    if (end_last(g, errp) < 0 || gpu_after_program(g, g->travel, errp) < 0 || encode(g, id, n, errp) < 0)
        return -1;
    if (g->nccl && sum_over_ranks(g, id, n, errp) < 0)
        return -1;
    g->last = (struct gpu_bucket){id, n};
    return 0;
}

static int arrive(gpu_t *g, ddp_error_t *errp)
{
    size_t n_sums = g->norm.n_blocks * sizeof *g->sums;
    if (end_last(g, errp) < 0 || device_copy(g->behind, g->host_sums, g->sums, n_sums, DEVICE_FROM, errp) < 0 ||
        device_event_record(g->summed, g->behind, errp) < 0)
        return -1;
    return gpu_wait(g, g->summed, errp);
}

/* What failed here is not known to the others, who wait for this rank. */
static int tell(gpu_t *g, const ddp_error_t *why, ddp_error_t *errp)
{
    g->last.n = 0;
    if (why->domain != DDP_E_PEER)
        comm_abort(g->cfg.comm, why->text);
    if (errp)
        *errp = *why;
    return -1;
}

/* ---- the carrier's functions ---- */

static int zero(void *ctx, ddp_error_t *errp)
{
    gpu_t *g = ctx;
    ddp_error_t why = {0};
    g->last.n = 0;
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

void gpu_carry(gpu_t *g)
{
    g->carrier = (struct reducer_carrier){.ctx = g,
                                          .grads = g->arena.grads,
                                          .sums = g->host_sums,
                                          .wire = g->cfg.wire,
                                          .zero = zero,
                                          .start = start,
                                          .wait = wait};
}

const struct reducer_carrier *gpu_carrier(const gpu_t *g)
{
    return &g->carrier;
}
