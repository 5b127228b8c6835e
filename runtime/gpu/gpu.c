#include "runtime/gpu/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/gpu/impl.h"

#define LEAVE_S 10.0 /* for what is under way, after a failure */

int gpu_result(gpu_t *g, int code, const char *call, ddp_error_t *errp)
{
    return device_result(g->cfg.device, code, call, errp);
}

int gpu_after_program(gpu_t *g, device_stream_t *s, ddp_error_t *errp)
{
    return device_event_record(g->asked, g->program, errp) < 0 ? -1 : device_stream_after(s, g->asked, errp);
}

int gpu_after_travel(gpu_t *g, ddp_error_t *errp)
{
    if (g->nccl && nccl_settle(g->nccl, errp) < 0)
        return -1;
    return device_event_record(g->come, g->travel, errp) < 0 ? -1 : device_stream_after(g->behind, g->come, errp);
}

static int is_reached(void *ctx, ddp_error_t *errp)
{
    return device_event_query(ctx, errp);
}

int gpu_wait(gpu_t *g, device_event_t *e, ddp_error_t *errp)
{
    if (g->nccl)
        return nccl_wait(g->nccl, is_reached, e, errp);
    return device_event_wait(e, deadline_in(g->cfg.timeout_s), NULL, NULL, errp);
}

int gpu_tell(gpu_t *g, const ddp_error_t *why, ddp_error_t *errp)
{
    if (why->domain != DDP_E_PEER)
        comm_abort(g->cfg.comm, why->text);
    if (errp)
        *errp = *why;
    return -1;
}

int gpu_round_range(gpu_t *g, size_t first, size_t n, device_stream_t *s, ddp_error_t *errp)
{
    const struct cuda_range range = {g->arena.values_16 + first, g->arena.values + first, n};
    if (!g->arena.values_16)
        return 0;
    return gpu_result(g, cuda_cast(&range, 1, g->cfg.kept, 1, device_native_stream(s)), "cuda_cast", errp);
}

/* ---- opening ---- */

static int open_streams(gpu_t *g, ddp_error_t *errp)
{
    device_t *d = g->cfg.device;
    g->program = device_stream_borrow(d, g->cfg.stream, errp);
    g->travel = g->program ? device_stream_create(d, DEVICE_URGENT, errp) : NULL;
    g->copies = g->travel ? device_stream_create(d, DEVICE_NORMAL, errp) : NULL;
    g->behind = g->copies ? device_stream_create(d, DEVICE_NORMAL, errp) : NULL;
    g->asked = g->behind ? device_event_create(d, false, errp) : NULL;
    g->come = g->asked ? device_event_create(d, false, errp) : NULL;
    g->summed = g->come ? device_event_create(d, g->cfg.is_traced, errp) : NULL;
    g->bounce = g->summed ? device_host_malloc(d, GPU_BOUNCE_BYTES, "copies", errp) : NULL;
    return g->bounce ? gpu_times_open(g, errp) : -1;
}

static int open_lists(gpu_t *g, ddp_error_t *errp)
{
    size_t n = (size_t)g->cfg.layout->n + 1;
    g->span = calloc(n, sizeof *g->span);
    g->cast = calloc(n, sizeof *g->cast);
    g->blocks = calloc(n, sizeof *g->blocks);
    if (!g->span || !g->cast || !g->blocks)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu parameters", n - 1);
    return norm_open(&g->norm, g->cfg.layout, NULL, errp);
}

static int open_optimizer(gpu_t *g, ddp_error_t *errp)
{
    const char *rule = g->cfg.optimizer->rule->name;
    g->step = cuda_optim_find(rule);
    if (!g->step)
        return error_set(errp, DDP_E_USAGE, ENOTSUP, "optimizer: rule = %s has no kernel for GPUs: use device cpu",
                         rule);
    return 0;
}

gpu_t *gpu_open(const struct gpu_config *cfg, ddp_error_t *errp)
{
    gpu_t *g = calloc(1, sizeof *g);
    if (!g) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a GPU");
        return NULL;
    }
    g->cfg = *cfg;
    if (open_optimizer(g, errp) == 0 && open_streams(g, errp) == 0 && open_lists(g, errp) == 0)
        return g;
    gpu_close(g);
    return NULL;
}

static void enter(void *ctx)
{
    device_enter(ctx, NULL); /* a failure shows in the next call */
}

static int sum(void *ctx, void *out, const void *const *in, int n_in, size_t n_elems, enum ddp_dtype t, void *stream,
               ddp_error_t *errp)
{
    int code = cuda_reduce_tree(&out, 1, in, n_in, n_elems, t, stream);
    return device_result(ctx, code, "cuda_reduce_tree", errp);
}

static size_t arena_bytes(const gpu_t *g, enum ddp_dtype t)
{
    size_t n = g->cfg.layout->n_bytes ? g->cfg.layout->n_bytes : LAYOUT_ALIGN;
    return n / sizeof(float) * dtype_size(t);
}

/* What is gathered and summed over the ranks lies where NCCL likes it, where NCCL has such memory. */
static int take_nccl_memory(gpu_t *g, ddp_error_t *errp)
{
    void *values = NULL;
    if (g->cfg.spread && nccl_memory_create(g->nccl, arena_bytes(g, DDP_F32), false, &values, errp) < 0)
        return -1;
    g->arena.values = values;
    return nccl_memory_create(g->nccl, arena_bytes(g, g->cfg.wire), true, &g->wire, errp);
}

int gpu_wire_up(gpu_t *g, ddp_error_t *errp)
{
    struct nccl_config cfg = {.timeout_s = g->cfg.timeout_s,
                              .device = {.ctx = g->cfg.device, .enter = enter, .sum = sum},
                              .share_devices = g->cfg.shares_devices,
                              .log = g->cfg.nccl_log,
                              .warn = g->cfg.warn,
                              .warn_ctx = g->cfg.warn_ctx};
    if (g->cfg.world->size == 1)
        return 0;
    g->nccl = nccl_create(&cfg, g->cfg.world, g->cfg.comm, errp);
    return g->nccl && nccl_start(g->nccl, errp) == 0 ? take_nccl_memory(g, errp) : -1;
}

/* ---- memory ---- */

static void *allocate_own(gpu_t *g, size_t n, const char *what, ddp_error_t *errp)
{
    void *p = device_malloc(g->cfg.device, n, what, errp);
    if (p)
        g->own[g->n_own++] = p;
    return p;
}

/* n bytes of zeros: at `there`, which is NCCL's, or NULL where it gave none. */
static void *allocate(gpu_t *g, void *there, size_t n, const char *what, ddp_error_t *errp)
{
    void *p = there ? there : allocate_own(g, n, what, errp);
    return p && device_fill(g->program, p, 0, n, errp) == 0 ? p : NULL;
}

static int allocate_moments(gpu_t *g, ddp_error_t *errp)
{
    struct optimizer *o = g->cfg.optimizer;
    size_t n = o->n_elems ? o->n_elems * sizeof(float) : LAYOUT_ALIGN;
    for (int k = 0; k < o->rule->n_moments; k++)
        if (!(g->arena.moment[k] = allocate(g, NULL, n, "optimizer state", errp)))
            return -1;
    optimizer_lend(o, g->arena.moment);
    return 0;
}

int gpu_allocate(gpu_t *g, ddp_error_t *errp)
{
    const struct gpu_config *c = &g->cfg;
    struct gpu_arenas *a = &g->arena;
    size_t n = arena_bytes(g, DDP_F32), n_16 = arena_bytes(g, DDP_BF16);
    size_t n_sums = (g->norm.n_blocks + 1) * sizeof(double);
    const char *kept = c->kept == DDP_F16 ? "parameters in float16" : "parameters in bfloat16";
    bool is_same = c->wire == DDP_F32;
    if (!(a->values = allocate(g, a->values, n, "parameters", errp)) ||
        !(a->grads = allocate(g, is_same ? g->wire : NULL, n, "gradients", errp)) ||
        !(g->wire = is_same ? a->grads : allocate(g, g->wire, n_16, "encoded gradients", errp)) ||
        allocate_moments(g, errp) < 0 ||
        (c->kept != DDP_F32 && !(a->values_16 = allocate(g, NULL, n_16, kept, errp))) ||
        !(g->sums = allocate(g, NULL, n_sums, "sums of squares", errp)) ||
        !(g->host_sums = device_host_malloc(c->device, n_sums, "sums of squares", errp)))
        return -1;
    return 0;
}

int gpu_sum_in_order(gpu_t *g, ddp_error_t *errp)
{
    struct nccl_range all = {g->wire, g->cfg.layout->n_bytes / sizeof(float), g->cfg.wire};
    if (!g->nccl || g->stage.data)
        return 0;
    size_t n = nccl_fixed_stage_bytes(g->cfg.world, &all, 1);
    g->stage.n_bytes = n < GPU_STAGE_BYTES ? n : GPU_STAGE_BYTES;
    g->stage.data = allocate_own(g, g->stage.n_bytes, "sums in a fixed order", errp);
    return g->stage.data ? 0 : -1;
}

/* What NCCL allocated was freed with its communicator. */
static void release(gpu_t *g)
{
    while (g->n_own > 0)
        device_free(g->cfg.device, g->own[--g->n_own]);
    device_host_free(g->cfg.device, g->host_sums);
    device_host_free(g->cfg.device, g->bounce);
}

/* Until nothing is under way. What the program has asked for may use gradients, which go with NCCL, and without a wait;
 * also after a failure, when the backward pass is perhaps queued whole. A stream that is late breaks the device. */
static int wait_for_all(gpu_t *g, double limit_s)
{
    device_stream_t *const all[] = {g->program, g->travel, g->behind, g->copies};
    uint64_t deadline = deadline_in(limit_s);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (device_stream_wait(all[i], deadline, NULL, NULL, NULL) < 0)
            return -1;
    return 0;
}

void gpu_leave(gpu_t *g, bool is_clean)
{
    if (!g || !g->nccl)
        return;
    if (is_clean && wait_for_all(g, g->cfg.timeout_s) == 0)
        nccl_close(g->nccl, NULL);
    nccl_abort(g->nccl); /* else: what waits for a rank that is gone ends */
    if (wait_for_all(g, g->cfg.timeout_s < LEAVE_S ? g->cfg.timeout_s : LEAVE_S) < 0)
        nccl_leave_memory(g->nccl);
    nccl_destroy(g->nccl);
    g->nccl = NULL;
}

void gpu_close(gpu_t *g)
{
    int saved = errno;
    if (g) {
        gpu_leave(g, false);
        release(g);
        device_event_destroy(g->asked);
        device_event_destroy(g->come);
        device_event_destroy(g->summed);
        gpu_times_close(g);
        device_stream_destroy(g->copies);
        device_stream_destroy(g->behind);
        device_stream_destroy(g->travel);
        device_stream_destroy(g->program);
        norm_close(&g->norm);
        free(g->span);
        free(g->cast);
        free(g->blocks);
        free(g->update);
        free(g);
    }
    errno = saved;
}
