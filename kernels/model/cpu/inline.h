/* inline.h - KERNEL_INLINE marks helpers of CPU_DISPATCH functions: they must become part of each clone. */
#ifndef DDP_KERNELS_MODEL_CPU_INLINE_H
#define DDP_KERNELS_MODEL_CPU_INLINE_H

#define KERNEL_INLINE static inline __attribute__((always_inline, unused))

#endif
