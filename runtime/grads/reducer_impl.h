/* reducer_impl.h - what the reducer's files share. */
#ifndef DDP_RUNTIME_GRADS_REDUCER_IMPL_H
#define DDP_RUNTIME_GRADS_REDUCER_IMPL_H

#include "kernels/optim.h"
#include "runtime/grads/reducer.h"

/* The unit at which a reduction is cut between ranks: a block of the norm, so that no block is cut. */
static inline size_t reducer_unit_bytes(const struct reducer *r)
{
    return NORM_BLOCK * dtype_size(r->wire_dtype);
}

/* The index in the tail at which the counts of used parameters begin; and the length of the tail. */
size_t reducer_used_at(const struct reducer *r);
size_t reducer_tail_elems(const struct reducer *r);

/* Fills r->range and the buckets from r->plan, after the plan was made or replaced. */
void reducer_lay_out(struct reducer *r);

/* Starts bucket b; after reducer_wait its gradients are sums. reducer_wait reports a start that failed. */
void reducer_start(struct reducer *r, int b);
int reducer_wait(struct reducer *r, int b, ddp_error_t *errp);

/* In a measured pass, after the backward pass instead of during it: reduces the buckets one after the other, and times
 * each. */
int reducer_measure(struct reducer *r, ddp_error_t *errp);

/* Called after a pass that synchronised: may replace the plan for the next pass. Collective. */
int reducer_tune(struct reducer *r, ddp_error_t *errp);

#endif
