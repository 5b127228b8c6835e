#include "kernels/cast.h"

#include <stdint.h>

#include "kernels/bits.h"
#include "kernels/cpu/dispatch.h"

CPU_DISPATCH
void kernel_load_bf16(void *restrict out, const void *in, size_t n)
{
    float *restrict o = out;
    const uint16_t *p = in;
    for (size_t i = 0; i < n; i++)
        o[i] = f32_from_bits((uint32_t)p[i] << 16);
}

CPU_DISPATCH
void kernel_store_bf16(void *restrict out, const void *in, size_t n)
{
    uint16_t *restrict o = out;
    const float *p = in;
    for (size_t i = 0; i < n; i++) {
        uint32_t u = f32_bits(p[i]);
        uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
        uint32_t quiet = u >> 16 | 0x40;
        o[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
    }
}

CPU_DISPATCH
void kernel_load_f16(void *restrict out, const void *in, size_t n)
{
    float *restrict o = out;
    const uint16_t *p = in;
    for (size_t i = 0; i < n; i++) {
        uint32_t h = p[i], sign = (h & 0x8000) << 16, mag = h & 0x7fff;
        uint32_t normal = (mag << 13) + (112u << 23);          /* exponent bias 15 becomes 127 */
        uint32_t special = (mag << 13) | 0x7f800000;           /* inf and NaN */
        uint32_t tiny = f32_bits((float)(int32_t)mag * 0x1p-24f); /* zero and subnormals are multiples of 2^-24 */
        o[i] = f32_from_bits(sign | (mag >= 0x7c00 ? special : mag < 0x400 ? tiny : normal));
    }
}

CPU_DISPATCH
void kernel_store_f16(void *restrict out, const void *in, size_t n)
{
    uint16_t *restrict o = out;
    const float *p = in;
    for (size_t i = 0; i < n; i++) {
        uint32_t u = f32_bits(p[i]), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
        uint32_t normal = (mag - (112u << 23) + 0xfff + (mag >> 13 & 1)) >> 13; /* may round up to inf: right */
        uint32_t tiny = f32_bits(f32_from_bits(mag) + 0.5f) - 0x3f000000; /* adding 0.5 rounds to 2^-24 */
        uint32_t special = mag > 0x7f800000 ? 0x7e00 : 0x7c00;
        o[i] = (uint16_t)(sign | (mag >= 0x47800000 ? special : mag < 0x38800000 ? tiny : normal));
    }
}

enum { TILE = 1024 }; /* stays in the first-level cache */

CPU_DISPATCH
static void scale_into(float *restrict out, const float *in, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = in[i] * scale;
}

void kernel_store_f16_scaled(void *out, const float *in, float scale, size_t n)
{
    for (size_t at = 0, k; at < n; at += k) {
        float scaled[TILE];
        k = n - at < TILE ? n - at : TILE;
        scale_into(scaled, in + at, scale, k);
        kernel_store_f16((uint16_t *)out + at, scaled, k);
    }
}

void kernel_load_f16_scaled(float *out, const void *in, float scale, size_t n)
{
    for (size_t at = 0, k; at < n; at += k) {
        float loaded[TILE];
        k = n - at < TILE ? n - at : TILE;
        kernel_load_f16(loaded, (const uint16_t *)in + at, k);
        scale_into(out + at, loaded, scale, k);
    }
}
