/* zero_cpu.h - optimizer state spread over the ranks: stage 1 of ZeRO (Rajbhandari et al., SC 2020, arXiv:1910.02054). On
 * processors; on GPUs zero_gpu.h says who owns what, and gpu.h steps it.
 *
 * A rank owns of every bucket what it reduces (comm_owned): gradients are reduced to their owners only (with a hook to
 * everyone, since every rank decodes), a rank keeps moments for what it owns alone, steps that alone, and the values
 * are gathered, bucket by bucket while the next one is stepped. Between ddp_backward_end and ddp_step the gradients
 * that other ranks own are no sums. The optimizer's arithmetic is element by element and the norm is the same one, so
 * values are the same bits as without.
 *
 * Who owns what follows from the buckets, which stay as they are (reducer_config.is_fixed). With nodes of unequal size
 * local ranks at or beyond the smallest node's size reduce only within their node: they own nothing.
 *
 * zero=auto (the default) spreads the step, not the sums: gradients are reduced to everyone, in buckets that are planned as
 * ever, and who owns what follows from the first ones. So nothing that a program can see differs from zero=0 but
 * ddp_memory, and what is possible without is possible with it: hooks, ddp_join, find-unused, shards. It is on where
 * all ranks share a node: there values come back at the speed of a copy, less than the step that the ranks save by not
 * doing it each (2% to 3% of a training step with 85 million parameters and two ranks, 1% with 5 million).
 * Between nodes they would come back over the network, when nothing hides it. Below ZERO_AUTO_BYTES a gather's
 * latency is more than what it saves. */
#ifndef DDP_RUNTIME_OPTIMIZER_ZERO_CPU_H
#define DDP_RUNTIME_OPTIMIZER_ZERO_CPU_H

#include <stdbool.h>

#include "runtime/comm/comm.h"
#include "runtime/grads/reducer.h"
#include "runtime/optimizer/optimizer.h"

enum zero_mode { ZERO_AUTO, ZERO_OFF, ZERO_ON };

#define ZERO_AUTO_BYTES ((size_t)1 << 20) /* of parameters */

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

/* Is the optimizer's state to be spread, n_bytes of parameters in all? Pure, and the same on all ranks. */
bool zero_is_wanted(enum zero_mode setting, const struct ddp_world *w, size_t n_bytes);

/* Makes the values' segment, and gives o its slices. Collective. */
int zero_open(struct zero *z, const struct reducer *r, struct optimizer *o, ddp_error_t *errp);
void zero_close(struct zero *z); /* a zeroed struct is allowed */

/* After optimizer_begin: steps what this rank owns, and gathers. Collective. */
int zero_apply(struct zero *z, const struct reducer *r, struct optimizer *o, ddp_error_t *errp);

#endif
