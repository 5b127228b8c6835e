/* norm.h - the norm of all gradients, from sums over fixed blocks. Pure.
 *
 * Each parameter is cut into blocks of NORM_BLOCK elements (kernels/optim.h). A block's sum of squares is computed
 * wherever and whenever its elements are at hand; the sums are then combined in the fixed tree T of
 * doc/architecture.md: over each parameter's blocks, then over the parameters in registration order. So the norm's bits
 * depend on the gradients alone. */
#ifndef DDP_RUNTIME_GRADS_NORM_H
#define DDP_RUNTIME_GRADS_NORM_H

#include "runtime/grads/layout.h"

struct norm {
    const struct layout *layout; /* borrowed; float32 only */
    size_t *first_block;         /* [layout->n + 1]: parameter i has blocks [first_block[i], first_block[i + 1]) */
    size_t n_blocks;
    double *sums;                /* [n_blocks], the caller's; zeroed by it before the first visit */
};

/* sums may be set later, before norm_visit. */
int norm_open(struct norm *n, const struct layout *layout, double *sums, ddp_error_t *errp);
void norm_close(struct norm *n); /* a zeroed struct is allowed */

/* Sets the sums of the blocks of parameter id in elements [first, first + n_elems), which lie at x. first is a multiple
 * of NORM_BLOCK; the last block is whole, or the parameter's last. Blocks may be visited in any order, by several
 * threads. */
void norm_visit(const struct norm *n, int id, size_t first, const float *x, size_t n_elems);

/* The L2 norm, once every block has its sum. Inf or nan exactly where a gradient is: squares are summed as doubles, in
 * which no sum of squares of finite floats overflows. */
double norm_total(const struct norm *n);

/* The first parameter with a sum that is not finite; -1: none. */
int norm_worst(const struct norm *n);

#endif
