#include "runtime/reducer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"

int reducer_open(struct reducer *r, comm_t *comm, const struct layout *layout, ddp_error_t *errp)
{
    struct reducer made = {.comm = comm, .layout = layout, .bad_id = -1};
    made.range[0] = (struct comm_range){0, layout->n_bytes / sizeof(float), DDP_F32};
    made.range[1] = (struct comm_range){layout->n_bytes, TAIL_COUNT, DDP_F64};
    made.is_ready = calloc((size_t)layout->n + 1, sizeof *made.is_ready);
    if (!made.is_ready)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d parameters", layout->n);
    made.segment = comm_segment_create(comm, layout->n_bytes + LAYOUT_ALIGN, errp);
    if (!made.segment) {
        free(made.is_ready);
        return -1;
    }
    *r = made;
    return 0;
}

void reducer_close(struct reducer *r)
{
    free(r->is_ready); /* the segment goes with the communicator */
    *r = (struct reducer){0};
}

float *reducer_grads(const struct reducer *r)
{
    return comm_segment_data(r->segment);
}

double *reducer_tail(const struct reducer *r)
{
    return (double *)((char *)comm_segment_data(r->segment) + r->layout->n_bytes);
}

void reducer_zero(struct reducer *r)
{
    memset(reducer_grads(r), 0, r->layout->n_bytes + LAYOUT_ALIGN);
}

void reducer_micro_begin(struct reducer *r)
{
    memset(r->is_ready, 0, (size_t)r->layout->n * sizeof *r->is_ready);
    r->n_ready = 0;
    r->first_ready_ns = 0;
    r->bad_id = -1;
}

void reducer_ready(struct reducer *r, int id)
{
    bool is_known = id >= 0 && id < r->layout->n;
    if (!is_known || r->is_ready[id]) {
        if (r->bad_id < 0)
            r->bad_id = is_known ? id : r->layout->n;
        return;
    }
    if (!r->first_ready_ns)
        r->first_ready_ns = clock_ns();
    r->is_ready[id] = true;
    r->n_ready++;
}

bool reducer_has_begun(const struct reducer *r)
{
    return r->n_ready > 0;
}

int reducer_micro_end(const struct reducer *r, ddp_error_t *errp)
{
    if (r->bad_id == r->layout->n)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_grad_ready was called for a parameter that does not exist");
    if (r->bad_id >= 0)
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_grad_ready was called twice for parameter %s",
                         r->layout->param[r->bad_id].name);
    for (int i = 0; r->n_ready < r->layout->n && i < r->layout->n; i++)
        if (!r->is_ready[i])
            return error_set(errp, DDP_E_USAGE, EINVAL,
                             "parameter %s was not used: call ddp_grad_ready for every parameter before "
                             "ddp_backward_end (a gradient not written stays 0)",
                             r->layout->param[i].name);
    return 0;
}

int reducer_sum(struct reducer *r, ddp_error_t *errp)
{
    uint64_t began = clock_ns();
    if (comm_reduce_ranges(r->comm, r->segment, r->range, 2, DDP_SUM, errp) < 0)
        return -1;
    r->metrics.backward_s += r->first_ready_ns ? (double)(began - r->first_ready_ns) / 1e9 : 0;
    r->metrics.wait_s += (double)(clock_ns() - began) / 1e9;
    r->metrics.bytes_reduced += r->layout->n_bytes;
    r->metrics.n_buckets = 1;
    r->metrics.steps++;
    return 0;
}
