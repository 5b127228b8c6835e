/* zero_cpu.h - optimizer state spread over the ranks: stage 1 of ZeRO (Rajbhandari et al., SC 2020, arXiv:1910.02054),
 * on processors. For GPUs zero_gpu.h says which rank owns what, and gpu.h takes the step.
 *
 * A rank owns the part of every bucket that it reduces (comm_owned). Gradients are reduced to their owners only (with a
 * hook to all ranks, since every rank decodes); a rank keeps moments for its own part only and steps only that part;
 * then the values are gathered bucket by bucket, each while the next bucket is stepped. Between ddp_backward_end and
 * ddp_step the gradients that other ranks own are not sums. The optimizer computes element by element and the norm is
 * the same, so values have the same bits as without ZeRO.
 *
 * Ownership follows from the buckets, which therefore never change (reducer_config.is_fixed). Where nodes have unequal
 * numbers of ranks, local ranks at or above the smallest node's size reduce only within their node, and own nothing.
 *
 * zero=auto (the default) spreads the step, not the sums: gradients are reduced to all ranks, in buckets that are
 * planned as without ZeRO, and ownership follows from the first buckets. So a program sees no difference from zero=0
 * but in ddp_memory, and all that works without ZeRO works with it: hooks, ddp_join, find-unused, shards. auto is on
 * where all ranks share a node. There the values are gathered at the speed of a copy, which takes less time than the
 * ranks save by not all taking the whole step (2% to 3% of a training step with 85 million parameters and two ranks, 1%
 * with 5 million). Between nodes the values would go over the network, at a time when no computation hides it. With
 * fewer than ZERO_AUTO_BYTES of parameters a gather's latency is longer than the time saved. */
#ifndef DDP_RUNTIME_OPTIMIZER_ZERO_CPU_H
#define DDP_RUNTIME_OPTIMIZER_ZERO_CPU_H

#include <stdbool.h>

#include "runtime/comm/comm.h"
#include "runtime/grads/reducer.h"
#include "runtime/optimizer/optimizer.h"

enum zero_mode { ZERO_AUTO, ZERO_OFF, ZERO_ON };

#define ZERO_AUTO_BYTES ((size_t)1 << 20) /* of parameters */

struct zero_cpu_bucket {
    struct comm_range *range; /* [n_ranges] in the values: its parameters */
    size_t n_ranges;
    size_t first, end;        /* the bucket's slices of the optimizer: [first, end) */
    comm_work_t *work;        /* the gather in flight */
};

struct zero_cpu {
    comm_segment_t *values; /* laid out as the gradients are; freed with the communicator */
    struct comm_range *range;
    struct zero_cpu_bucket *bucket; /* [n_buckets] */
    int n_buckets;
};

/* True if the optimizer's state is to be spread; n_bytes: of all parameters. Pure, and the same on all ranks. */
bool zero_cpu_is_wanted(enum zero_mode setting, const struct ddp_world *w, size_t n_bytes);

/* Creates the values' segment, and adds to o the slices that this rank owns. Collective. */
int zero_cpu_open(struct zero_cpu *z, const struct reducer *r, struct optimizer *o, ddp_error_t *errp);
void zero_cpu_close(struct zero_cpu *z); /* a zeroed struct is allowed */

/* After optimizer_begin: steps the slices that this rank owns, and gathers the values. Collective. */
int zero_cpu_apply(struct zero_cpu *z, const struct reducer *r, struct optimizer *o, ddp_error_t *errp);

#endif
