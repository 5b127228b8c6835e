/* bits.h - float32 and its bits. C and C++. */
#ifndef DDP_KERNELS_BITS_H
#define DDP_KERNELS_BITS_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#endif
