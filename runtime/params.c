/* params.c - what a program declares before ddp_commit, and what that makes of it.
 *
 * What does not go together (data.c, data_open.c and join.c refuse it; reducer.c keeps the first plan):
 *   shards and accumulation          shards are the micro-steps
 *   shards and a hook or compress    what these round depends on the number of ranks
 *   shards and ddp_join              with shards all ranks run out of data together
 *   planned buckets and find-unused, zero=1 or a GPU
 *   a GPU and a hook                 which computes on the processor
 *   a checkpoint, or ddp_join, and a step that has begun; a checkpoint and ranks that have joined
 * All other pairs do. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/budget.h"
#include "runtime/grads/hook.h"
#include "runtime/handle.h"
#include "runtime/sized.h"

/* Where no size is named: of the first step's buckets, before there is a plan. */
#define BUCKET_MB 25.0
#define FIRST_BUCKET_MB 1.0

#define KEEP_ANY (DDP_KEEP_BF16 | DDP_KEEP_F16)

EXPORT int ddp_option(ddp_t *d, const char *key, const char *value, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_option (after ddp_commit)", errp) < 0)
        return -1;
    if (!key || !value)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_option: a key and a value are needed");
    return config_set(&d->config, key, value, errp);
}

EXPORT int ddp_hook_sized(ddp_t *d, const struct ddp_hook *hook, size_t size, ddp_error_t *errp)
{
    struct ddp_hook h = {.encode = NULL};
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_hook (after ddp_commit)", errp) < 0)
        return -1;
    if (hook && sized_take(&h, sizeof h, hook, size, "ddp_hook", errp) < 0)
        return -1;
    if (!h.encode || !h.decode || !dtype_size(h.wire))
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_hook: encode, decode and a type that travels are needed");
    d->hook = h;
    return 0;
}

/* All parameters whose values are kept in 16 bits have them in one type. */
static int check_kept(const ddp_t *d, const char *name, unsigned flags, ddp_error_t *errp)
{
    if ((flags & KEEP_ANY) == KEEP_ANY)
        return error_set(errp, DDP_E_USAGE, EINVAL, "parameter %.100s: DDP_KEEP_BF16 and DDP_KEEP_F16: a job keeps "
                         "values in one of the two types", name);
    for (const struct layout_param *p = d->layout.param; p < d->layout.param + d->layout.n; p++)
        if (flags & KEEP_ANY && p->flags & KEEP_ANY & ~flags)
            return error_set(errp, DDP_E_USAGE, EINVAL, "parameter %.80s: DDP_KEEP_%s, but parameter %.80s has the "
                             "other: a job keeps values in one of the two types", name,
                             flags & DDP_KEEP_F16 ? "F16" : "BF16", p->name);
    return 0;
}

EXPORT int ddp_param_add(ddp_t *d, const char *name, enum ddp_dtype dtype, const size_t *shape, int ndim,
                         unsigned flags)
{
    ddp_error_t e = {0};
    int id = -1;
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_param_add (after ddp_commit)", &e) < 0)
        ;
    else if (dtype != DDP_F32)
        error_set(&e, DDP_E_USAGE, ENOTSUP, "parameter %.100s: type %s is not supported yet: use DDP_F32", name,
                  dtype_name(dtype));
    else if (flags & ~(unsigned)(DDP_NO_DECAY | KEEP_ANY))
        error_set(&e, DDP_E_USAGE, EINVAL, "parameter %.100s: unknown flags %#x", name, flags);
    else if (check_kept(d, name, flags, &e) == 0)
        id = layout_add(&d->layout, name, dtype, shape, ndim, flags, &e);
    if (id < 0 && !d->add_error.code)
        d->add_error = e;
    return id;
}

/* In which values are kept beside float32: DDP_F32 where they are not. */
static enum ddp_dtype kept(const ddp_t *d)
{
    int i = 0;
    while (d->device && i < d->layout.n && !(d->layout.param[i].flags & KEEP_ANY))
        i++;
    if (!d->device || i == d->layout.n)
        return DDP_F32;
    return d->layout.param[i].flags & DDP_KEEP_F16 ? DDP_F16 : DDP_BF16;
}

/* What a GPU cannot do yet. */
static int check_gpu(const ddp_t *d, ddp_error_t *errp)
{
    if (d->hook.encode)
        return error_set(errp, DDP_E_USAGE, ENOTSUP, "a hook (ddp_hook) computes on the processor, but gradients are "
                         "on a GPU: use the option compress, or device cpu");
    return 0;
}

static int check_settings(ddp_t *d, ddp_error_t *errp)
{
    if (d->add_error.code)
        return -1;
    const char *trace = config_text(d->config.trace);
    if (trace && trace_open(&d->trace, trace, d->team.me.rank, d->team.me.size, errp) < 0)
        return -1;
    if (scaler_parse(d->config.loss_scale, kept(d) == DDP_F16, &d->scaler, errp) < 0)
        return -1;
    if (stop_parse(d->config.stop_signals, &d->stop_signals, errp) < 0)
        return -1;
    if (d->hook.encode && d->config.compress != COMPRESS_NONE)
        return error_set(errp, DDP_E_USAGE, EINVAL, "the program sets a hook (ddp_hook), and compress=%s would set "
                         "another: leave one out", hook_compress_name(d->config.compress));
    if (d->device)
        return check_gpu(d, errp);
    hook_compress(d->config.compress, &d->hook);
    return 0;
}

/* On GPUs only where it is asked for: what it saves there is memory, and how long values take to come back, when
 * nothing hides that, nobody has measured. */
static bool is_spread(const ddp_t *d)
{
    enum zero_mode zero = d->config.zero;
    return d->device ? zero == ZERO_ON : zero_is_wanted(zero, &d->team.me, d->layout.n_bytes);
}

/* In which gradients travel on a GPU, where the hook that `compress` sets is gpu/carry.c. */
static enum ddp_dtype gpu_wire(const ddp_t *d)
{
    static const enum ddp_dtype type[] = {
        [COMPRESS_NONE] = DDP_F32, [COMPRESS_BF16] = DDP_BF16, [COMPRESS_F16] = DDP_F16};
    return type[d->config.compress];
}

static size_t encoded_bytes(const ddp_t *d)
{
    if (d->device)
        return gpu_wire(d) == DDP_F32 ? 0 : d->layout.n_bytes / 2;
    return d->hook.encode ? d->layout.n_bytes / sizeof(float) * dtype_size(d->hook.wire) : 0;
}

/* All that ddp_commit will touch on this node. */
static int check_memory(const ddp_t *d, ddp_error_t *errp)
{
    if (d->device)
        return 0; /* it is all a GPU's, which says so where there is too little */
    size_t n = d->layout.n_bytes, owners = is_spread(d) ? (size_t)d->team.me.size : 1;
    const struct budget_part parts[] = {{"parameters", n},
                                        {"gradients", n},
                                        {"optimizer state", (size_t)d->optimizer.rule->n_moments * n / owners},
                                        {"encoded gradients", encoded_bytes(d)}};
    return budget_check("", parts, sizeof parts / sizeof *parts, d->team.me.local_size, errp);
}

/* No bucket size is named. */
static bool plans_buckets(const ddp_t *d)
{
    return d->config.bucket_mb < 0 && d->config.first_bucket_mb < 0;
}

static size_t bucket_bytes(const ddp_t *d, double mb)
{
    size_t bytes = (size_t)(mb * (1 << 20));
    size_t least = d->device && is_spread(d) && plans_buckets(d) ? spread_cap(d->team.me.size) : 0;
    return bytes > least ? bytes : least;
}

static double bucket_mb(const ddp_t *d)
{
    return d->config.bucket_mb < 0 ? BUCKET_MB : d->config.bucket_mb;
}

static size_t cap(const ddp_t *d)
{
    return bucket_bytes(d, bucket_mb(d));
}

static size_t first_cap(const ddp_t *d)
{
    return bucket_bytes(d, d->config.first_bucket_mb < 0 ? fmin(FIRST_BUCKET_MB, bucket_mb(d))
                                                         : d->config.first_bucket_mb);
}

/* What this rank steps, on a GPU; before anything is allocated there. */
static int own(ddp_t *d, ddp_error_t *errp)
{
    if (!is_spread(d))
        return optimizer_own_all(&d->optimizer, &d->layout, errp);
    return spread_open(&d->spread, &d->layout, first_cap(d), cap(d), d->team.me.rank, d->team.me.size, &d->optimizer,
                       errp);
}

/* Collective. */
static int open_gpu(ddp_t *d, ddp_error_t *errp)
{
    const struct gpu_config cfg = {.device = d->device,
                                   .layout = &d->layout,
                                   .world = d->team.map,
                                   .comm = d->team.comm,
                                   .stream = d->stream,
                                   .wire = gpu_wire(d),
                                   .optimizer = &d->optimizer,
                                   .spread = is_spread(d) ? &d->spread : NULL,
                                   .kept = kept(d),
                                   .shares_devices = d->shares_gpus,
                                   .nccl_log = config_text(d->config.nccl_log),
                                   .is_traced = d->trace.file != NULL,
                                   .timeout_s = d->config.timeout_s};
    ddp_error_t why = {0};
    if (own(d, &why) == 0)
        d->gpu = gpu_open(&cfg, &why);
    if (team_agree(&d->team, &why, errp) < 0 || gpu_wire_up(d->gpu, errp) < 0)
        return -1;
    if (gpu_allocate(d->gpu, &why) == 0 && d->config.deterministic)
        gpu_sum_in_order(d->gpu, &why);
    return team_agree(&d->team, &why, errp);
}

static int open_reducer(ddp_t *d, ddp_error_t *errp)
{
    bool zero = d->config.zero == ZERO_ON;
    struct reducer_config cfg = {.n_ranks = d->team.me.size,
                                 .first_cap_bytes = first_cap(d),
                                 .cap_bytes = cap(d),
                                 .find_unused = d->config.find_unused,
                                 .plan = plans_buckets(d),
                                 .hook = d->hook.encode ? &d->hook : NULL,
                                 .is_fixed = zero || d->gpu,
                                 .carrier = d->gpu ? gpu_carrier(d->gpu) : NULL,
                                 .owned_only = zero && !d->gpu && !d->hook.encode};
    return reducer_open(&d->reducer, d->team.comm, &d->layout, &cfg, errp);
}

/* Memory for the values and the optimizer's state: all of them, or what this rank owns. */
static int allocate(ddp_t *d, ddp_error_t *errp)
{
    size_t n = d->layout.n_bytes ? d->layout.n_bytes : LAYOUT_ALIGN;
    if (d->gpu) {
        const struct gpu_arenas *a = gpu_arenas(d->gpu);
        d->values = a->values;
        optimizer_lend(&d->optimizer, a->moment);
        return 0;
    }
    if (is_spread(d)) {
        if (zero_open(&d->zero, &d->reducer, &d->optimizer, errp) < 0)
            return -1;
        d->values = comm_segment_data(d->zero.values);
    } else {
        if (optimizer_own_all(&d->optimizer, &d->layout, errp) < 0)
            return -1;
        d->own_values = d->values = aligned_alloc(LAYOUT_ALIGN, n);
        if (!d->values)
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for %zu bytes of parameters",
                             d->team.me.rank, n);
        memset(d->values, 0, n);
    }
    return optimizer_allocate(&d->optimizer, errp);
}

static int open_optimizer(ddp_t *d, const struct ddp_optimizer *opt, size_t size, ddp_error_t *errp)
{
    struct ddp_optimizer mine;
    if (opt && sized_take(&mine, sizeof mine, opt, size, "ddp_commit", errp) < 0)
        return -1;
    return optimizer_open(&d->optimizer, opt ? &mine : NULL, errp);
}

EXPORT int ddp_commit_sized(ddp_t *d, const struct ddp_optimizer *opt, size_t size, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_commit (a second time)", errp) < 0)
        return -1;
    if (check_settings(d, &d->add_error) == 0 && open_optimizer(d, opt, size, &d->add_error) == 0)
        check_memory(d, &d->add_error);
    if (team_agree(&d->team, &d->add_error, errp) < 0 || handle_compare(d, errp) < 0 ||
        (d->device && open_gpu(d, errp) < 0) || open_reducer(d, errp) < 0 || allocate(d, errp) < 0)
        return team_break(&d->team);
    d->reducer.trace = &d->trace;
    d->phase = PHASE_COMMITTED;
    return 0;
}

static struct ddp_param tensors(const ddp_t *d, int id)
{
    if (id < 0 || id >= d->layout.n || !d->values)
        return (struct ddp_param){0};
    const struct layout_param *p = &d->layout.param[id];
    uint16_t *copies = d->gpu && p->flags & KEEP_ANY ? gpu_arenas(d->gpu)->values_16 : NULL;
    uint16_t *own = copies ? copies + p->offset_bytes / sizeof(float) : NULL;
    return (struct ddp_param){
        .value = (char *)d->values + p->offset_bytes,
        .copy = own,
        .grad = (char *)reducer_grads(&d->reducer) + p->offset_bytes,
        .n_elems = p->n_elems,
        .dtype = p->dtype,
        .copy_dtype = own ? kept(d) : p->dtype,
    };
}

EXPORT void ddp_param_get_sized(const ddp_t *d, int id, struct ddp_param *ret, size_t size)
{
    struct ddp_param p = tensors(d, id);
    sized_give(ret, size, &p, sizeof p);
}

static int expect_param(const ddp_t *d, int id, unsigned phases, const char *call, ddp_error_t *errp)
{
    if (handle_expect(d, phases, call, errp) < 0)
        return -1;
    if (id < 0 || id >= d->layout.n)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: there is no parameter %d: ids are those that "
                         "ddp_param_add returned, 0..%d", d->team.me.rank, call, id, d->layout.n - 1);
    return 0;
}

EXPORT int ddp_param_read(ddp_t *d, int id, float *ret, ddp_error_t *errp)
{
    unsigned phases = 1u << PHASE_COMMITTED | 1u << PHASE_IDLE | 1u << PHASE_MICRO | 1u << PHASE_SUMMED;
    if (expect_param(d, id, phases, "ddp_param_read", errp) < 0)
        return -1;
    struct ddp_param p = tensors(d, id);
    return handle_read(d, ret, p.value, p.n_elems * sizeof *ret, errp);
}

EXPORT int ddp_param_write(ddp_t *d, int id, const float *value, ddp_error_t *errp)
{
    if (expect_param(d, id, 1u << PHASE_COMMITTED | 1u << PHASE_IDLE, "ddp_param_write", errp) < 0)
        return -1;
    struct ddp_param p = tensors(d, id);
    checkpoint_wait_copied(d);
    return handle_write(d, p.value, value, p.n_elems * sizeof *value, errp) < 0 ? -1 : handle_values_changed(d, errp);
}

/* Of all parameters, without what zero_gpu.h pads. */
static size_t bytes_unpadded(const ddp_t *d)
{
    size_t n = 0;
    for (int i = 0; i < d->layout.n; i++)
        n += layout_padded(d->layout.param[i].n_elems * sizeof(float));
    return n;
}

static struct ddp_memory memory(const ddp_t *d)
{
    if (!d->values)
        return (struct ddp_memory){0};
    return (struct ddp_memory){
        .values = d->layout.n_bytes,
        .grads = d->layout.n_bytes,
        .copies = kept(d) == DDP_F32 ? 0 : d->layout.n_bytes / 2,
        .moments = optimizer_bytes(&d->optimizer),
        .moments_all = (size_t)d->optimizer.rule->n_moments * bytes_unpadded(d),
        .partials = partials_bytes(&d->partials),
        .encoded = encoded_bytes(d),
        .snapshot = checkpoint_bytes(d),
    };
}

EXPORT void ddp_memory_sized(const ddp_t *d, struct ddp_memory *ret, size_t size)
{
    struct ddp_memory m = memory(d);
    sized_give(ret, size, &m, sizeof m);
}

EXPORT int ddp_sync_params(ddp_t *d, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_COMMITTED | 1u << PHASE_IDLE, "ddp_sync_params", errp) < 0)
        return -1;
    checkpoint_wait_copied(d);
    return handle_bcast(d, d->values, d->layout.n_bytes, 0, errp) < 0 || handle_values_changed(d, errp) < 0
               ? team_break(&d->team) : 0;
}
