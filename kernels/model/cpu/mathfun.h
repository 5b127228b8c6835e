/* mathfun.h - exp for loops: no calls, no tables, no branches, float arithmetic only, so that
 * compilers vectorise them and every width gives the same bits.
 *
 * Method of exp: x = n ln 2 + r, |r| <= ln 2 / 2, ln 2 in two parts (Cody and Waite, "Software Manual for the
 * Elementary Functions", 1980); e^r = 1 + r + r^2 P(r), P of degree 4 interpolated at Chebyshev nodes; 2^n put together
 * from bits. x is clamped such that the bits of 2^n become those of 0 below and of infinity above.
 *
 * exp comes in two halves, for loops over many elements: a processor that looks at some hundred instructions at a time
 * finds more parallel work in two loops with short chains of dependent instructions than in one loop with long chains.
 *
 * Errors, against double, over all finite x of the range (t/unit/kernels/model/kernels.c walks them): <= 2 ulp for x in
 * [-87.3, 88.3]; 0 below -87.7, inf above 88.4; nan for nan. */
#ifndef DDP_KERNELS_MODEL_CPU_MATHFUN_H
#define DDP_KERNELS_MODEL_CPU_MATHFUN_H

#include <stdint.h>
#include <string.h>

#include "kernels/model/cpu/inline.h"

/* e^x = math_exp_finish(r, scale) */
KERNEL_INLINE void math_exp_split(float x, float *r, float *scale)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, left in the low bits */
    float in = x < -88.0f ? -88.0f : x; /* n = -127 */
    in = in > 88.9f ? 88.9f : in;       /* n = 128 */
    float t = in * 1.44269504f + magic;
    float n = t - magic;
    *r = (in - n * 0.693359375f) - n * -2.12194440e-4f;
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits + 127u) << 23;
    memcpy(scale, &bits, sizeof bits);
}

KERNEL_INLINE float math_exp_finish(float r, float scale)
{
    float p = 1.39262508e-3f;
    p = p * r + 8.36323288e-3f;
    p = p * r + 4.16665542e-2f;
    p = p * r + 1.66665767e-1f;
    p = p * r + 0.5f;
    return (1.0f + (r + r * r * p)) * scale;
}

KERNEL_INLINE float math_exp(float x)
{
    float r, scale;
    math_exp_split(x, &r, &scale);
    return math_exp_finish(r, scale);
}

#endif
