#include "t/unit/unit.h"

#include <inttypes.h>
#include <math.h>

#include "kernels/bits.h"
#include "runtime/base/hash.h"
#include "t/lib/golden.h"

uint32_t golden_draw(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)(*seed >> 24);
}

/* Neighbours far from each other: xorshift's first numbers after a small seed are small. */
static uint64_t spread(uint64_t seed)
{
    return seed * 0x9e3779b97f4a7c15;
}

void golden_any(float *x, size_t n, uint64_t seed)
{
    seed = spread(seed);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = golden_draw(&seed);
        if (i % 8 == 0)
            bits &= 0x807fffff; /* zero or subnormal */
        if (i % 64 == 1)
            bits = (bits & 0x80000000) | 0x7f800000; /* infinite */
        x[i] = f32_from_bits(bits);
    }
}

void golden_even(float *x, size_t n, uint64_t seed)
{
    seed = spread(seed);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(int32_t)golden_draw(&seed) * 0x1p-31f;
}

uint64_t golden_f32(uint64_t sum, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = hash_step(sum, isnan(x[i]) ? 0x7fc00000 : f32_bits(x[i]));
    return sum;
}

uint64_t golden_f64(uint64_t sum, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        sum = hash_step(sum, isnan(x[i]) ? 0x7ff8000000000000 : bits);
    }
    return sum;
}

uint64_t golden_bytes(uint64_t sum, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = hash_step(sum, ((const unsigned char *)data)[i]);
    return sum;
}

void golden_check(const struct golden *table, size_t n, const char *name, uint64_t sum)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(table[i].name, name)) {
            if (table[i].sum != sum)
                fail_msg("%s: the sum of its bits is 0x%016" PRIx64 ", not 0x%016" PRIx64, name, sum, table[i].sum);
            return;
        }
    fail_msg("no sum is recorded for %s: 0x%016" PRIx64, name, sum);
}
