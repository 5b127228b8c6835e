/* golden.h - holds the bits of a kernel's results to recorded ones: every processor has to give them. */
#ifndef DDP_T_LIB_GOLDEN_H
#define DDP_T_LIB_GOLDEN_H

#include <stddef.h>
#include <stdint.h>

struct golden {
    const char *name;
    uint64_t sum;
};

/* xorshift64 (Marsaglia 2003): the same 32 bits everywhere. The seed is not 0. */
uint32_t golden_draw(uint64_t *seed);

/* Any bits as floats, so zeros, subnormals, infinities and NaNs too; and numbers in [-1, 1]. seed > 0. */
void golden_any(float *x, size_t n, uint64_t seed);
void golden_even(float *x, size_t n, uint64_t seed);

/* A sum over n elements. Of a NaN counts that it is one: sign and payload are the processor's. */
uint64_t golden_f32(uint64_t sum, const float *x, size_t n);
uint64_t golden_f64(uint64_t sum, const double *x, size_t n);
uint64_t golden_bytes(uint64_t sum, const void *data, size_t n);

/* Fails the test, and prints the sum, where that is not what the table of n has under this name. */
void golden_check(const struct golden *table, size_t n, const char *name, uint64_t sum);

#endif
