/* floats.h - arrays for tests of kernels. */
#ifndef DDP_T_LIB_FLOATS_H
#define DDP_T_LIB_FLOATS_H

#include "t/unit/unit.h"

void seed_floats(uint64_t seed);
uint32_t draw(void); /* 31 random bits */

/* n numbers in [-scale, scale). The caller frees. */
float *random_floats(size_t n, float scale);

/* n times nan, 64-byte aligned, for an output: what a kernel forgets to write, or reads without need, shows. The caller
 * frees. */
float *poisoned(size_t n);

/* Fails the test where got is further from want than tolerance, relative to the largest element of want. */
void check_close(const char *what, const float *got, const double *want, size_t n, double tolerance);

#endif
