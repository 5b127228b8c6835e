/* shards.h - a rank's shards added up in the fixed tree over their numbers, one at a time. Pure.
 *
 * The sum over V logical shards is T over their numbers (doc/architecture.md). Rank r's S = V/R of them are an aligned
 * power-of-two block, a subtree; so T over the ranks of every rank's own T is T over V, for every R.
 *
 * Shards come in order, and partial sums are kept as a binary counter keeps its ones: level j, where it is in use,
 * holds the sum of 2^j consecutive shards, and lower levels hold later shards. After shard i the levels below k, k the
 * number of ones that end i, are full, and with the shard they make level k:
 *     level[k] = level[k-1] + (level[k-2] + (... + (level[0] + shard)))
 * For the last shard all levels are full, and the same sum is the whole. It can be made range by range, while other
 * gradients of that shard are still being computed. Functions that return int give 0, or -1 with *errp filled: where the
 * sums lie elsewhere. */
#ifndef DDP_RUNTIME_OPTIMIZER_SHARDS_H
#define DDP_RUNTIME_OPTIMIZER_SHARDS_H

#include <stddef.h>

#include "runtime/base/error.h"

#define PARTIALS_MAX_LEVELS 31

/* Where sums lie, and what adds there: a GPU's memory, say, where nothing waits for it to be done. */
struct partials_place {
    void *ctx;
    float *(*take)(void *ctx, size_t n_bytes, ddp_error_t *errp);
    void (*give)(void *ctx, float *p);
    /* kernel_fold */
    int (*fold)(void *ctx, float *out, const float *const *in, int n_in, size_t n, ddp_error_t *errp);
};

struct partials {
    struct partials_place place;
    int n_levels;  /* log2(S) */
    size_t n_elems;
    float *level[PARTIALS_MAX_LEVELS]; /* [n_elems] each */
    double loss[PARTIALS_MAX_LEVELS];
};

/* n_shards (a power of two) per rank, gradients of n_elems elements. One shard needs no memory. place NULL: here. */
int partials_open(struct partials *p, int n_shards, size_t n_elems, const struct partials_place *place,
                  ddp_error_t *errp);
void partials_close(struct partials *p); /* a zeroed struct is allowed */

/* Bytes of all levels. */
size_t partials_bytes(const struct partials *p);

/* Keeps shard i's gradients and loss, i counting from 0 within the rank; not for the last one. */
int partials_keep(struct partials *p, int i, const float *grads, double loss, ddp_error_t *errp);

/* The last shard: grads[first, first + n) become the sum over the rank's shards. */
int partials_fold(const struct partials *p, float *grads, size_t first, size_t n, ddp_error_t *errp);

/* The last shard: the sum of the losses. */
double partials_fold_loss(const struct partials *p, double loss);

#endif
