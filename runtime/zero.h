/* zero.h - optimizer state spread over the ranks: stage 1 of ZeRO (Rajbhandari et al., SC 2020, arXiv:1910.02054).
 *
 * A rank owns of every bucket what it reduces (comm_owned): gradients are reduced to their owners only (with a hook, to
 * everyone), a rank keeps moments for what it owns alone, steps that alone, and the values are gathered, bucket by bucket while the next one is stepped. The
 * optimizer's arithmetic is element by element and the norm is the same one, so values are the same bits as without.
 *
 * Who owns what follows from the buckets, which stay as they are (reducer_config.is_fixed). With nodes of unequal size
 * local ranks at or beyond the smallest node's size reduce only within their node: they own nothing. */
#ifndef DDP_RUNTIME_ZERO_H
#define DDP_RUNTIME_ZERO_H

#include <stdbool.h>

#include "runtime/comm/comm.h"
#include "runtime/optimizer.h"
#include "runtime/reducer.h"

struct zero_bucket {
    struct comm_range *range; /* [n_ranges] in the values: its parameters */
    size_t n_ranges;
    size_t first, end;        /* slices of the optimizer */
    comm_work_t *work;        /* gathers */
};

struct zero {
    comm_segment_t *values; /* laid out as the gradients are; goes with the communicator */
    struct comm_range *range;
    struct zero_bucket *bucket; /* [n_buckets] */
    int n_buckets;
};

/* Makes the values' segment, and gives o its slices. Collective. */
int zero_open(struct zero *z, const struct reducer *r, struct optimizer *o, ddp_error_t *errp);
void zero_close(struct zero *z); /* a zeroed struct is allowed */

/* After optimizer_begin: steps what this rank owns, and gathers. Collective. */
int zero_apply(struct zero *z, const struct reducer *r, struct optimizer *o, ddp_error_t *errp);

#endif
