/* round.h - stochastic rounding of float32 to bfloat16: to one of the two neighbours, to each with the probability by
 * which the mean is the number itself, so that what is added to weights of that type is not lost by being small.
 *
 * The random bits are a function of a seed, a step and an element's number (Philox4x32-10: Salmon, Moraes, Dror, Shaw,
 * "Parallel random numbers: as easy as 1, 2, 3", SC 2011): the same bits every run, however an array is cut. */
#ifndef DDP_KERNELS_ROUND_H
#define DDP_KERNELS_ROUND_H

#include <stddef.h>
#include <stdint.h>

struct rounding {
    uint64_t seed, step; /* of the same step, an element's number must occur once only */
};

/* out[i] (bfloat16 bits) = in[i], the element number first + i, rounded so; infinities and NaNs stay (not a NaN's
 * payload). What lies above the largest number may become infinite. Arrays do not overlap. */
void kernel_round_bf16(uint16_t *out, const float *in, size_t n, uint64_t first, const struct rounding *r);

/* The generator. */
void kernel_philox(uint32_t ret[4], const uint32_t counter[4], const uint32_t key[2]);

#endif
