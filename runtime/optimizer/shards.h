/* shards.h - adds up a rank's logical shards in the fixed tree over their numbers, one shard at a time. Pure.
 *
 * The sum over V logical shards is T over their numbers (doc/architecture.md). The S = V/R shards of rank r are an
 * aligned power-of-two block, which is a subtree; so T over the ranks' own T's is T over V, for every R.
 *
 * Shards come in order, and partial sums are kept like the ones of a binary counter: level j, where it is in use, holds
 * the sum of 2^j consecutive shards, and lower levels hold later shards. With k the number of ones at the end of i in
 * binary, the levels below k are full when shard i comes, and together with the shard they make level k:
 *     level[k] = level[k-1] + (level[k-2] + (... + (level[0] + shard)))
 * When the last shard comes, all levels are full, and the same formula gives the sum over the rank. It can be computed
 * range by range, while other gradients of that shard are still being computed. Functions that return int return 0, or
 * -1 with *errp filled; they can fail only where the sums are not in the processor's memory. */
#ifndef DDP_RUNTIME_OPTIMIZER_SHARDS_H
#define DDP_RUNTIME_OPTIMIZER_SHARDS_H

#include <stddef.h>

#include "runtime/base/error.h"

#define SHARDS_MAX_LEVELS 31

/* The memory that sums lie in, and the addition there. In a GPU's memory the additions are enqueued, and nothing waits
 * for them. */
struct shards_place {
    void *ctx;
    float *(*take)(void *ctx, size_t n_bytes, ddp_error_t *errp); /* allocates */
    void (*give)(void *ctx, float *p);                            /* frees */
    /* As kernel_fold. */
    int (*fold)(void *ctx, float *out, const float *const *in, int n_in, size_t n, ddp_error_t *errp);
};

struct shards {
    struct shards_place place;
    int n_levels;  /* log2(S) */
    size_t n_elems;
    float *level[SHARDS_MAX_LEVELS]; /* [n_elems] each */
    double loss[SHARDS_MAX_LEVELS];
};

/* For n_shards (a power of two) per rank and gradients of n_elems elements. One shard needs no memory. place NULL: the
 * processor's memory. */
int shards_open(struct shards *p, int n_shards, size_t n_elems, const struct shards_place *place,
                ddp_error_t *errp);
void shards_close(struct shards *p); /* a zeroed struct is allowed */

/* Bytes of all levels. */
size_t shards_bytes(const struct shards *p);

/* Adds shard i's gradients and loss to the partial sums; i counts from 0 within the rank. For all shards but the
 * last. */
int shards_keep(struct shards *p, int i, const float *grads, double loss, ddp_error_t *errp);

/* For the last shard: grads[first, first + n) become the sum over the rank's shards. */
int shards_fold(const struct shards *p, float *grads, size_t first, size_t n, ddp_error_t *errp);

/* For the last shard, whose loss is `loss`: the sum of the losses of the rank's shards. */
double shards_fold_loss(const struct shards *p, double loss);

#endif
