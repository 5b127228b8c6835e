/* planner.h - where to cut buckets, computed from when gradients are ready and what a reduction costs. Pure.
 *
 * Model: a reduction of B bytes takes alpha + beta B (Hockney, Parallel Computing 20, 1994); one runs at a time, in
 * order; a bucket can start when its last gradient is ready and the bucket before it has ended:
 *     end(b) = max(end(b - 1), ready(b)) + alpha + beta bytes(b)
 * Small buckets start early and pay alpha often, large ones start late. The planner finds cuts for which the last
 * bucket ends first; end(b) never gets earlier when end(b - 1) gets later, so that dynamic programming over positions
 * finds the optimum. Of equally good plans it takes the one with fewer buckets. */
#ifndef DDP_RUNTIME_GRADS_PLANNER_H
#define DDP_RUNTIME_GRADS_PLANNER_H

#include <stddef.h>

struct planner_model {
    double alpha_s, beta_s_per_byte;
};

/* The model that fits measured reductions. beta comes by least squares, which the large reductions dominate: a single
 * small one looks faster than many in a row are, because a link or a socket buffers it. alpha then comes by least
 * squares of the relative errors, which the small ones dominate. Neither is below 0. n >= 1, seconds > 0. */
struct planner_model planner_fit(const size_t *bytes, const double *seconds, int n);

/* Gradients 0 .. n - 1 in the order in which they are reduced: ready_s[i] is when gradient i is ready, bytes[i] its
 * size. Fills end[0 .. n) as far as needed, where bucket b ends before position end[b], and returns the number of
 * buckets, or -1 when memory runs out. The result is the optimum for up to PLANNER_MAX gradients; with more, neighbours
 * are merged first. */
int planner_cut(const struct planner_model *m, const double *ready_s, const size_t *bytes, int n, int *end);
#define PLANNER_MAX 1024

#endif
