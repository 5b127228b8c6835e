/* norm.h - the norm of all gradients, from sums over fixed blocks. Pure.
 *
 * Each parameter is cut into blocks of NORM_BLOCK elements (kernels/optim.h). A block's sum of squares may be computed
 * on any rank and at any time; the sums are then added in the fixed tree T of doc/architecture.md: over each
 * parameter's blocks, then over the parameters in registration order. So the norm's bits depend on the gradients
 * alone. */
#ifndef DDP_RUNTIME_GRADS_NORM_H
#define DDP_RUNTIME_GRADS_NORM_H

#include "runtime/grads/layout.h"

struct norm {
    const struct layout *layout; /* borrowed; float32 only */
    size_t *first_block;         /* [layout->n + 1]: parameter i has blocks [first_block[i], first_block[i + 1]) */
    size_t n_blocks;
    double *sums;                /* [n_blocks], the caller's, who zeroes it before the first visit */
};

/* The caller may set n->sums later, before the first norm_visit. */
int norm_open(struct norm *n, const struct layout *layout, double *sums, ddp_error_t *errp);
void norm_close(struct norm *n); /* a zeroed struct is allowed */

/* Sets the sums of the blocks in elements [first, first + n_elems) of parameter id, which lie at x. first is a multiple
 * of NORM_BLOCK; the last block is whole, or it is the parameter's last. Blocks may be visited in any order and by
 * several threads. */
void norm_visit(const struct norm *n, int id, size_t first, const float *x, size_t n_elems);

/* The L2 norm, once every block has its sum. It is inf or nan exactly if an element of a gradient is: squares are
 * summed as doubles, in which no sum of squares of finite floats overflows. */
double norm_total(const struct norm *n);

/* The first parameter that has a block sum which is not finite; -1: none. */
int norm_worst(const struct norm *n);

#endif
