/* bucket.h - which gradients are reduced together, and in which order. Pure.
 *
 * A plan is an order of all parameters, cut into buckets of consecutive parameters; buckets are reduced in index order.
 * Gradients are not copied for this: a bucket is a list of places in the arena. The rules are those of PyTorch's
 * DistributedDataParallel (Li et al., VLDB 2020, section 3.2): reverse registration order first, since backward passes
 * run from the last layer to the first; a bucket closes after the tensor that reaches its cap; the first cap is
 * smaller, so that the first reduction starts early. */
#ifndef DDP_RUNTIME_GRADS_BUCKET_H
#define DDP_RUNTIME_GRADS_BUCKET_H

#include <stddef.h>

#include "runtime/grads/layout.h"

struct bucket_plan {
    int n_params, n_buckets;
    int *param;     /* [n_params] in the order in which they are reduced */
    int *first;     /* [n_buckets + 1]: bucket b holds param[first[b]] .. param[first[b + 1] - 1] */
    int *bucket_of; /* [n_params] by parameter */
};

/* Allocates room for any plan of n_params parameters. */
int bucket_plan_open(struct bucket_plan *p, int n_params, ddp_error_t *errp);
void bucket_plan_close(struct bucket_plan *p); /* a zeroed struct is allowed */

/* Below, `order` is a permutation of 0 .. n_params - 1; NULL: n_params - 1 .. 0. */

/* Cuts by size: the first bucket closes when it holds first_cap bytes or more, the others at cap. */
void bucket_plan_by_size(struct bucket_plan *p, const int *order, const struct layout *l, size_t first_cap, size_t cap);

/* Cuts where told: bucket b ends before position end[b] of the order; end[] rises, and end[n_buckets - 1] is
 * n_params. */
void bucket_plan_by_cuts(struct bucket_plan *p, const int *order, const int *end, int n_buckets);

#endif
