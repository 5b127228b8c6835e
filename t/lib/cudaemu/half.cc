/* The 16-bit types, by rounding the number itself: not the way that kernels/cpu/cast.c goes, so that the two check each
 * other. */
#include "t/lib/cudaemu/cudaemu.h"

uint16_t bf16_store(float x)
{
    uint32_t u = __float_as_uint(x), low = u & 0xffff;
    if (x != x)
        return 0x7fff; /* what the device makes of every NaN */
    uint32_t high = u >> 16;
    if (low > 0x8000 || (low == 0x8000 && high & 1))
        high++;
    return (uint16_t)high;
}

static float f16_number(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    float x = exponent == 31 ? (mantissa ? NAN : INFINITY)
              : exponent     ? ldexpf((float)(1024 + mantissa), exponent - 25)
                             : ldexpf((float)mantissa, -24);
    return h & 0x8000 ? -x : x;
}

struct f16_numbers {
    float of[1 << 16];
    f16_numbers()
    {
        for (int h = 0; h < 1 << 16; h++)
            of[h] = f16_number((uint16_t)h);
    }
};

float f16_load(uint16_t h)
{
    static const f16_numbers all;
    return all.of[h];
}

uint16_t f16_store(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double a = fabs((double)x);
    if (x != x)
        return 0x7fff;
    if (a >= 65520) /* half way from the largest number to the next */
        return sign | 0x7c00;
    int exponent; /* of what rounding is to keep 10 binary places of; subnormal numbers share the smallest */
    frexp(a, &exponent);
    exponent = a == 0 || exponent - 1 < -14 ? -14 : exponent - 1;
    int steps = (int)nearbyint(ldexp(a, 10 - exponent)); /* to even */
    return (uint16_t)(sign | (((exponent + 14) << 10) + steps));
}
