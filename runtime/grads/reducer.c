#include "runtime/grads/reducer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/grads/reducer_impl.h"

size_t reducer_used_at(const struct reducer *r)
{
    return TAIL_COUNT + (r->carrier ? 0 : r->norm.n_blocks);
}

size_t reducer_tail_elems(const struct reducer *r)
{
    return reducer_used_at(r) + (size_t)r->layout->n;
}

/* Where each parameter lies in what travels, and the segment. */
static comm_segment_t *open_wire(struct reducer *r, ddp_error_t *errp)
{
    size_t at = 0, elem_bytes = dtype_size(r->wire_dtype);
    for (int i = 0; i < r->layout->n; i++) {
        const struct layout_param *p = &r->layout->param[i];
        r->wire_offset[i] = r->hook.encode ? at : p->offset_bytes;
        at += layout_padded(p->n_elems * elem_bytes);
    }
    return r->hook.encode ? comm_segment_create(r->comm, at, errp) : r->grads;
}

static int open_segments(struct reducer *r, ddp_error_t *errp)
{
    r->tail = comm_segment_create(r->comm, reducer_tail_elems(r) * sizeof(double), errp);
    if (!r->tail)
        return -1;
    r->norm.sums = r->carrier ? r->carrier->sums : reducer_tail(r) + TAIL_COUNT;
    if (r->carrier)
        return 0;
    r->grads = comm_segment_create(r->comm, r->layout->n_bytes, errp);
    r->wire = r->grads ? open_wire(r, errp) : NULL;
    return r->wire ? 0 : -1;
}

static int allocate(struct reducer *r, ddp_error_t *errp)
{
    size_t n = (size_t)r->layout->n + 1;
    r->tuning.ready_ns = calloc(n * REDUCER_MEASURED, sizeof *r->tuning.ready_ns);
    r->tuning.took_s = calloc(n * REDUCER_MEASURED, sizeof *r->tuning.took_s);
    r->wire_offset = calloc(n, sizeof *r->wire_offset);
    r->range = calloc(n, sizeof *r->range);
    r->bucket = calloc(n, sizeof *r->bucket);
    r->mark = calloc(n, sizeof *r->mark);
    r->is_used = calloc(n, sizeof *r->is_used);
    r->arrival = calloc(n, sizeof *r->arrival);
    r->ready_ns = calloc(n, sizeof *r->ready_ns);
    if (!r->tuning.ready_ns || !r->tuning.took_s || !r->wire_offset || !r->range || !r->bucket || !r->mark ||
        !r->is_used || !r->arrival || !r->ready_ns)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d parameters", r->layout->n);
    if (bucket_plan_open(&r->plan, r->layout->n, errp) < 0 || norm_open(&r->norm, r->layout, NULL, errp) < 0)
        return -1;
    return open_segments(r, errp);
}

void reducer_lay_out(struct reducer *r)
{
    for (int i = 0; i < r->plan.n_params; i++) {
        int id = r->plan.param[i];
        r->range[i] = (struct comm_range){r->wire_offset[id], r->layout->param[id].n_elems, r->wire_dtype};
    }
    r->metrics.n_buckets = r->plan.n_buckets;
}

int reducer_open(struct reducer *r, comm_t *comm, const struct layout *layout, const struct reducer_config *cfg,
                 ddp_error_t *errp)
{
    *r = (struct reducer){.comm = comm, .layout = layout, .cfg = *cfg, .carrier = cfg->carrier};
    r->wire_dtype = r->carrier ? r->carrier->wire : DDP_F32;
    if (cfg->hook) {
        r->hook = *cfg->hook;
        r->wire_dtype = cfg->hook->wire;
    }
    r->cfg.hook = NULL;
    r->cfg.plan = cfg->plan && cfg->n_ranks > 1 && !cfg->find_unused && !cfg->is_fixed;
    if (allocate(r, errp) < 0) {
        reducer_close(r);
        return -1;
    }
    for (int b = 0; b < layout->n; b++)
        r->bucket[b] = (struct reducer_bucket){.reducer = r, .index = b};
    bucket_plan_by_size(&r->plan, NULL, layout, cfg->first_cap_bytes, cfg->cap_bytes);
    reducer_lay_out(r);
    return 0;
}

/* Segments, and works in flight, go with the communicator, which is destroyed before if there are such works. */
void reducer_close(struct reducer *r)
{
    norm_close(&r->norm);
    bucket_plan_close(&r->plan);
    free(r->tuning.ready_ns);
    free(r->tuning.took_s);
    free(r->wire_offset);
    free(r->range);
    free(r->bucket);
    free(r->mark);
    free(r->is_used);
    free(r->arrival);
    free(r->ready_ns);
    *r = (struct reducer){0};
}

float *reducer_grads(const struct reducer *r)
{
    return r->carrier ? r->carrier->grads : comm_segment_data(r->grads);
}

double *reducer_tail(const struct reducer *r)
{
    return comm_segment_data(r->tail);
}

const double *reducer_used(const struct reducer *r)
{
    return reducer_tail(r) + reducer_used_at(r);
}

void reducer_zero_grads(struct reducer *r)
{
    if (!r->carrier)
        memset(reducer_grads(r), 0, r->layout->n_bytes);
    else if (r->carrier->zero(r->carrier->ctx, &r->error) < 0)
        r->is_failed = true;
}

void reducer_zero(struct reducer *r)
{
    reducer_zero_grads(r);
    memset(r->is_used, 0, (size_t)r->layout->n * sizeof *r->is_used);
}

int reducer_n_buckets(const struct reducer *r)
{
    return r->plan.n_buckets;
}

const int *reducer_bucket(const struct reducer *r, int b, int *ret_n)
{
    *ret_n = r->plan.first[b + 1] - r->plan.first[b];
    return r->plan.param + r->plan.first[b];
}
