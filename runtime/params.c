/* params.c - what a program declares before ddp_commit, and what it can see and change of it afterwards. */
#include <errno.h>

#include "runtime/handle.h"
#include "runtime/sized.h"

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
    for (const struct layout_param *p = d->state.layout.param; p < d->state.layout.param + d->state.layout.n; p++)
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
    else if (flags & ~(unsigned)(DDP_NO_DECAY | KEEP_ANY | DDP_PAD_ROWS))
        error_set(&e, DDP_E_USAGE, EINVAL, "parameter %.100s: unknown flags %#x", name, flags);
    else if (check_kept(d, name, flags, &e) == 0)
        id = layout_add(&d->state.layout, name, dtype, shape, ndim, flags, &e);
    if (id < 0 && !d->add_error.code)
        d->add_error = e;
    return id;
}

static struct ddp_param tensors(const ddp_t *d, int id)
{
    const struct arena *a = &d->state.arena;
    if (id < 0 || id >= d->state.layout.n || !a->values)
        return (struct ddp_param){0};
    const struct layout_param *p = &d->state.layout.param[id];
    uint16_t *own = a->copies && p->flags & KEEP_ANY ? a->copies + p->offset_bytes / sizeof(float) : NULL;
    return (struct ddp_param){
        .value = (char *)a->values + p->offset_bytes,
        .copy = own,
        .grad = (char *)reducer_grads(&d->state.reducer) + p->offset_bytes,
        .n_elems = p->n_elems,
        .dtype = p->dtype,
        .copy_dtype = own ? a->copy_dtype : p->dtype,
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
    if (id < 0 || id >= d->state.layout.n)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: there is no parameter %d: ids are those that "
                         "ddp_param_add returned, 0..%d", d->team.me.rank, call, id, d->state.layout.n - 1);
    return 0;
}

EXPORT int ddp_param_read(ddp_t *d, int id, float *ret, ddp_error_t *errp)
{
    unsigned phases = 1u << PHASE_COMMITTED | 1u << PHASE_IDLE | 1u << PHASE_MICRO | 1u << PHASE_SUMMED;
    if (expect_param(d, id, phases, "ddp_param_read", errp) < 0)
        return -1;
    struct ddp_param p = tensors(d, id);
    return arena_read(&d->state.arena, ret, p.value, p.n_elems * sizeof *ret, errp);
}

EXPORT int ddp_param_write(ddp_t *d, int id, const float *value, ddp_error_t *errp)
{
    if (expect_param(d, id, 1u << PHASE_COMMITTED | 1u << PHASE_IDLE, "ddp_param_write", errp) < 0)
        return -1;
    if (d->has_saved) /* a checkpoint that waits for the one in flight would have other values than were asked for */
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_param_write: a checkpoint is to have the present "
                         "values: call ddp_checkpoint_wait first, or write after the next ddp_step", d->team.me.rank);
    struct ddp_param p = tensors(d, id);
    checkpoint_wait_copied(&d->save);
    if (arena_write(&d->state.arena, p.value, value, p.n_elems * sizeof *value, errp) < 0)
        return -1;
    return arena_round(&d->state.arena, errp);
}

/* Of all parameters, without what zero_gpu.h pads. */
static size_t bytes_unpadded(const ddp_t *d)
{
    size_t n = 0;
    for (int i = 0; i < d->state.layout.n; i++)
        n += layout_padded(d->state.layout.param[i].n_elems * sizeof(float));
    return n;
}

/* Of what travels in place of gradients. */
static size_t encoded_bytes(const struct reducer *r)
{
    bool is_encoded = r->hook.encode || r->wire_dtype != DDP_F32;
    return is_encoded ? r->layout->n_bytes / sizeof(float) * dtype_size(r->wire_dtype) : 0;
}

static struct ddp_memory memory(const ddp_t *d)
{
    if (!d->state.arena.values)
        return (struct ddp_memory){0};
    return (struct ddp_memory){
        .values = d->state.layout.n_bytes,
        .grads = d->state.layout.n_bytes,
        .copies = d->state.arena.copies ? d->state.layout.n_bytes / 2 : 0,
        .moments = optimizer_bytes(&d->state.optimizer),
        .moments_all = (size_t)d->state.optimizer.rule->n_moments * bytes_unpadded(d),
        .partials = shards_bytes(&d->state.shards),
        .encoded = encoded_bytes(&d->state.reducer),
        .snapshot = checkpoint_bytes(&d->save),
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
    checkpoint_wait_copied(&d->save);
    struct arena *a = &d->state.arena;
    if (arena_bcast(a, a->values, d->state.layout.n_bytes, 0, errp) < 0 || arena_round(a, errp) < 0)
        return team_break(&d->team);
    return 0;
}
