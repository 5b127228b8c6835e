/* mathfun.h - exp and the logistic function for loops: no calls, no tables, no branches, float arithmetic only, so that
 * compilers vectorise them and every width gives the same bits.
 *
 * Method of exp: x = n ln 2 + r, |r| <= ln 2 / 2, ln 2 in two parts (Cody and Waite, "Software Manual for the
 * Elementary Functions", 1980); e^r = 1 + r + r^2 P(r), P of degree 4 interpolated at Chebyshev nodes; 2^n put together
 * from bits.
 *
 * Errors, against double, over all finite x of the range (t/unit/kernels.c walks them):
 *   math_exp      <= 2 ulp for x in [-87.3, 88.3]; 0 below, inf above; nan for nan
 *   math_logistic <= 4 ulp for x >= -87.3; at most 2e-38 below; nan for nan */
#ifndef DDP_KERNELS_CPU_MATHFUN_H
#define DDP_KERNELS_CPU_MATHFUN_H

#include <stdint.h>
#include <string.h>

#include "kernels/cpu/inline.h"

#define MATH_EXP_MIN (-87.3f)
#define MATH_EXP_MAX 88.3f

KERNEL_INLINE float math_exp(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, left in the low bits */
    float in = x < MATH_EXP_MIN ? MATH_EXP_MIN : x;
    in = in > MATH_EXP_MAX ? MATH_EXP_MAX : in;
    float t = in * 1.44269504f + magic;
    float n = t - magic;
    float r = (in - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.39262508e-3f;
    p = p * r + 8.36323288e-3f;
    p = p * r + 4.16665542e-2f;
    p = p * r + 1.66665767e-1f;
    p = p * r + 0.5f;
    float y = 1.0f + (r + r * r * p);
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits + 127u) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    y = y * scale;
    y = x < MATH_EXP_MIN ? 0.0f : y;
    return x > MATH_EXP_MAX ? __builtin_inff() : y;
}

/* 1 / (1 + e^-x). tanh(u) = 2 math_logistic(2u) - 1. */
KERNEL_INLINE float math_logistic(float x)
{
    return 1.0f / (1.0f + math_exp(-x));
}

#endif
