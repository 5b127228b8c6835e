/* cast.h - float32 from and to the 16-bit types. */
#ifndef DDP_KERNELS_CAST_H
#define DDP_KERNELS_CAST_H

#include <stddef.h>

/* out[i] = in[i], i in [0, n). load converts bfloat16 or float16 to float32, exactly. store rounds float32 to nearest
 * even, keeps infinities and NaNs (not a NaN's payload), and gives infinity for numbers that are too large. Arrays do
 * not overlap. */
typedef void kernel_cast_f(void *restrict out, const void *in, size_t n);

/* The same with a factor: out = f16(scale * in), out = scale * float(in). */
void kernel_store_f16_scaled(void *out, const float *in, float scale, size_t n);
void kernel_load_f16_scaled(float *out, const void *in, float scale, size_t n);

kernel_cast_f kernel_load_bf16, kernel_load_f16;
kernel_cast_f kernel_store_bf16, kernel_store_f16;

#endif
