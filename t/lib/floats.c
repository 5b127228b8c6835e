#include "t/lib/floats.h"

#include <math.h>

static uint64_t state = 99;

void seed_floats(uint64_t seed)
{
    state = seed;
}

uint32_t draw(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}

float *random_floats(size_t n, float scale)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)draw() / (float)(1u << 30) - 1) * scale;
    return x;
}

float *poisoned(size_t n)
{
    float *x = aligned_alloc(64, (n + 16) / 16 * 64);
    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

void check_close(const char *what, const float *got, const double *want, size_t n, double tolerance)
{
    double largest = 1e-30;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * largest))
            fail_msg("%s[%zu] of %zu: %.9g, want %.9g", what, i, n, (double)got[i], want[i]);
}
