/* commit.c - what the declarations of a program (params.c) make: where the numbers lie, in which parts, and who steps
 * them.
 *
 * What does not go together (data_open.c and join.c refuse some of it; reducer.c keeps the first plan):
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

#include "runtime/base/budget.h"
#include "runtime/grads/hook.h"
#include "runtime/handle.h"
#include "runtime/optimizer/zero_cpu.h"
#include "runtime/sized.h"

/* Where no size is named: of the first step's buckets, before there is a plan. */
#define BUCKET_MB 25.0
#define FIRST_BUCKET_MB 1.0

/* In which values are kept beside float32: DDP_F32 where they are not. */
static enum ddp_dtype kept(const ddp_t *d)
{
    int i = 0;
    while (d->device && i < d->state.layout.n && !(d->state.layout.param[i].flags & KEEP_ANY))
        i++;
    if (!d->device || i == d->state.layout.n)
        return DDP_F32;
    return d->state.layout.param[i].flags & DDP_KEEP_F16 ? DDP_F16 : DDP_BF16;
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
    if (loss_scale_parse(d->config.loss_scale, kept(d) == DDP_F16, &d->state.loss_scale, errp) < 0)
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
    return d->device ? zero == ZERO_ON : zero_cpu_is_wanted(zero, &d->team.me, d->state.layout.n_bytes);
}

/* In which gradients travel on a GPU, where the hook that `compress` sets is gpu/carry.c. */
static enum ddp_dtype gpu_wire(const ddp_t *d)
{
    static const enum ddp_dtype type[] = {
        [COMPRESS_NONE] = DDP_F32, [COMPRESS_BF16] = DDP_BF16, [COMPRESS_F16] = DDP_F16};
    return type[d->config.compress];
}

/* All that ddp_commit will touch on this node. */
static int check_memory(const ddp_t *d, ddp_error_t *errp)
{
    if (d->device)
        return 0; /* it is all a GPU's, which says so where there is too little */
    size_t n = d->state.layout.n_bytes, owners = is_spread(d) ? (size_t)d->team.me.size : 1;
    size_t n_encoded = n / sizeof(float) * dtype_size(d->hook.wire);
    const struct budget_part parts[] = {{"parameters", n},
                                        {"gradients", n},
                                        {"optimizer state", (size_t)d->state.optimizer.rule->n_moments * n / owners},
                                        {"encoded gradients", d->hook.encode ? n_encoded : 0}};
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
    size_t least = d->device && is_spread(d) && plans_buckets(d) ? zero_gpu_cap(d->team.me.size) : 0;
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
        return optimizer_own_all(&d->state.optimizer, &d->state.layout, errp);
    return zero_gpu_open(&d->spread, &d->state.layout, first_cap(d), cap(d), d->team.me.rank, d->team.me.size,
                         &d->state.optimizer, errp);
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
                                 .is_fixed = zero || d->device,
                                 .carrier = d->state.arena.carrier,
                                 .owned_only = zero && !d->device && !d->hook.encode};
    int rc = reducer_open(&d->state.reducer, d->team.comm, &d->state.layout, &cfg, errp);
    return rc < 0 ? comm_fail(d->team.comm, errp) : 0;
}

/* On the processor the arena follows from the reducer's buckets; on a GPU it is there first, and carries them. Both are
 * collective, and what one rank alone lacks the others are told. */
static int open_on_cpu(ddp_t *d, ddp_error_t *errp)
{
    struct state *s = &d->state;
    if (open_reducer(d, errp) < 0)
        return -1;
    int rc = arena_cpu_open(&s->arena, d->team.comm, &s->reducer, &s->optimizer, &d->team.me, is_spread(d), errp);
    return rc < 0 ? comm_fail(d->team.comm, errp) : 0;
}

static void warn(void *ctx, const char *line)
{
    ddp_t *d = ctx;
    checkpoint_warn(&d->save, "%s", line);
}

static int open_on_gpu(ddp_t *d, ddp_error_t *errp)
{
    struct state *s = &d->state;
    const struct gpu_config cfg = {.device = d->device,
                                   .layout = &s->layout,
                                   .world = d->team.map,
                                   .comm = d->team.comm,
                                   .stream = d->stream,
                                   .wire = gpu_wire(d),
                                   .optimizer = &s->optimizer,
                                   .spread = is_spread(d) ? &d->spread : NULL,
                                   .kept = kept(d),
                                   .shares_devices = d->shares_gpus,
                                   .nccl_log = config_text(d->config.nccl_log),
                                   .is_traced = d->trace.file != NULL,
                                   .timeout_s = d->config.timeout_s,
                                   .warn = warn,
                                   .warn_ctx = d};
    ddp_error_t why = {0};
    gpu_t *g = own(d, &why) == 0 ? gpu_open(&cfg, &why) : NULL;
    if (g)
        s->arena = gpu_arena(g); /* for its end */
    if (team_agree(&d->team, &why, errp) < 0 || gpu_wire_up(g, errp) < 0)
        return -1;
    if (gpu_allocate(g, &why) == 0 && d->config.deterministic)
        gpu_sum_in_order(g, &why);
    if (team_agree(&d->team, &why, errp) < 0)
        return -1;
    s->arena = gpu_arena(g);
    parts_gpu_open(&d->parts_gpu, d->device, s->arena.program);
    parts_on(&d->parts, &d->parts_gpu.clock);
    return open_reducer(d, errp);
}

static int open_optimizer(ddp_t *d, const struct ddp_optimizer *opt, size_t size, ddp_error_t *errp)
{
    struct ddp_optimizer mine;
    if (opt && sized_take(&mine, sizeof mine, opt, size, "ddp_commit", errp) < 0)
        return -1;
    return optimizer_open(&d->state.optimizer, opt ? &mine : NULL, errp);
}

/* On GPUs only where it is asked for: nobody has measured how long a step waits for it there. */
static int verify_within(const ddp_t *d)
{
    bool is_possible = d->team.me.size > 1 && d->team.me.size <= VERIFY_RANKS_MAX;
    if (!is_possible || d->config.verify >= 0)
        return is_possible ? d->config.verify : 0;
    return d->device || d->state.arena.is_spread ? 0 : VERIFY_WITHIN;
}

/* Settings, layout and optimizer are the same on all ranks; else an error that names the first difference. */
static int compare(ddp_t *d, ddp_error_t *errp)
{
    char optimizer[512];
    char *settings = config_shared_text(&d->config, d->hook.encode ? dtype_name(d->hook.wire) : "none");
    char *layout = layout_text(&d->state.layout);
    int rc = settings && layout ? 0 : team_no_memory(&d->team, "the layout", errp);
    optimizer_text(&d->state.optimizer, optimizer, sizeof optimizer);
    if (rc == 0 && (team_same(&d->team, settings, config_explain, errp) < 0 ||
                    team_same(&d->team, layout, layout_explain, errp) < 0 ||
                    team_same(&d->team, optimizer, config_explain, errp) < 0))
        rc = -1;
    free(settings);
    free(layout);
    return rc;
}

EXPORT int ddp_commit_sized(ddp_t *d, const struct ddp_optimizer *opt, size_t size, ddp_error_t *errp)
{
    ddp_error_t own = {0}; /* the others are told, whether or not the caller wants to know */
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_commit (a second time)", errp) < 0)
        return -1;
    errp = errp ? errp : &own;
    if (check_settings(d, &d->add_error) == 0 && open_optimizer(d, opt, size, &d->add_error) == 0)
        check_memory(d, &d->add_error);
    if (team_agree(&d->team, &d->add_error, errp) < 0 || compare(d, errp) < 0 ||
        (d->device ? open_on_gpu(d, errp) : open_on_cpu(d, errp)) < 0)
        return team_break(&d->team);
    d->state.reducer.trace = &d->trace;
    d->verify.within = verify_within(d);
    d->phase = PHASE_COMMITTED;
    events_open(d);
    return 0;
}
