/* foreign.h - "device memory" that others than the emulated CUDA runtime allocate, as the double of NCCL does: by its
 * addresses, which is all that the two, one in a program and one in a shared library, can know of each other. */
#ifndef DDP_T_LIB_CUDAEMU_FOREIGN_H
#define DDP_T_LIB_CUDAEMU_FOREIGN_H

#include <stdint.h>

#define CUDAEMU_FOREIGN_BASE ((uintptr_t)0x5d0000000000)
#define CUDAEMU_FOREIGN_BYTES ((uintptr_t)1 << 40)

#endif
