/* reducer_impl.h - what the reducer's files share. */
#ifndef DDP_RUNTIME_GRADS_REDUCER_IMPL_H
#define DDP_RUNTIME_GRADS_REDUCER_IMPL_H

#include "kernels/optim.h"
#include "runtime/grads/reducer.h"

/* In which a reduction is cut between ranks: no block of the norm is. */
static inline size_t reducer_unit_bytes(const struct reducer *r)
{
    return NORM_BLOCK * dtype_size(r->wire_dtype);
}

/* Where the counts of use lie in the tail. */
size_t reducer_used_at(const struct reducer *r);
size_t reducer_tail_elems(const struct reducer *r);

/* The ranges that travel follow a new plan. */
void reducer_lay_out(struct reducer *r);

/* Bucket b sets out; after reducer_wait its gradients are sums. A start that failed shows in the wait. */
void reducer_start(struct reducer *r, int b);
int reducer_wait(struct reducer *r, int b, ddp_error_t *errp);

/* Instead of starting buckets during the pass: one after the other, timed. */
int reducer_measure(struct reducer *r, ddp_error_t *errp);

/* After a pass that synchronised: perhaps a new plan for the next. Collective. */
int reducer_tune(struct reducer *r, ddp_error_t *errp);

#endif
