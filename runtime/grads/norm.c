#include "runtime/grads/norm.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/optim.h"

int norm_open(struct norm *n, const struct layout *layout, double *sums, ddp_error_t *errp)
{
    struct norm made = {.layout = layout, .sums = sums};
    made.first_block = malloc(((size_t)layout->n + 1) * sizeof *made.first_block);
    if (!made.first_block)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the norms of %d parameters", layout->n);
    for (int i = 0; i < layout->n; i++) {
        made.first_block[i] = made.n_blocks;
        made.n_blocks += (layout->param[i].n_elems + NORM_BLOCK - 1) / NORM_BLOCK;
    }
    made.first_block[layout->n] = made.n_blocks;
    *n = made;
    return 0;
}

void norm_close(struct norm *n)
{
    free(n->first_block);
    *n = (struct norm){0};
}

void norm_visit(const struct norm *n, int id, size_t first, const float *x, size_t n_elems)
{
    double *sum = n->sums + n->first_block[id] + first / NORM_BLOCK;
    for (size_t at = 0; at < n_elems; at += NORM_BLOCK)
        *sum++ = kernel_block_sum_squares(x + at, n_elems - at < NORM_BLOCK ? n_elems - at : NORM_BLOCK);
}

static size_t largest_power_below(size_t n)
{
    size_t m = 1;
    while (2 * m < n)
        m *= 2;
    return m;
}

/* T over sum[0..n). */
static double over_blocks(const double *sum, size_t n)
{
    if (n == 1)
        return sum[0];
    size_t m = largest_power_below(n);
    return over_blocks(sum, m) + over_blocks(sum + m, n - m);
}

/* T over parameters [from, from + n). */
static double over_params(const struct norm *norm, size_t from, size_t n)
{
    if (n == 1)
        return over_blocks(norm->sums + norm->first_block[from],
                           norm->first_block[from + 1] - norm->first_block[from]);
    size_t m = largest_power_below(n);
    return over_params(norm, from, m) + over_params(norm, from + m, n - m);
}

double norm_total(const struct norm *n)
{
    return n->layout->n ? sqrt(over_params(n, 0, (size_t)n->layout->n)) : 0;
}

int norm_worst(const struct norm *n)
{
    int id = 0;
    for (size_t b = 0; b < n->n_blocks; b++) {
        while (b >= n->first_block[id + 1])
            id++;
        if (!isfinite(n->sums[b]))
            return id;
    }
    return -1;
}
