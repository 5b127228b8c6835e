/* checksum.h - xxHash (Collet, XXH3, 64 bits; https://xxhash.com): finds damage by accident, not by malice.
 *
 * A tensor's checksum is the sum, modulo 2^64, over its blocks k = 0, 1, ... of CKPT_BLOCK_BYTES (the last one may be
 * shorter) of XXH3_64bits_withSeed(block k, seed k). So each rank can sum the blocks that it has, in any order, and the
 * ranks' sums add up to the tensor's checksum, however the tensor is spread over the ranks. */
#ifndef DDP_RUNTIME_CKPT_CHECKSUM_H
#define DDP_RUNTIME_CKPT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#define CKPT_BLOCK_BYTES ((size_t)16384) /* 4096 float32, a block of runtime/grads/norm.h: optimizer state is spread
                                            over ranks in whole blocks */

/* The checksum of n bytes as one piece, seed 0: for small files and the heads of large ones. */
uint64_t checksum_bytes(const void *data, size_t n);

/* The sum over the blocks in data[0..n), the first of which is block `first` of its tensor; n is a multiple of
 * CKPT_BLOCK_BYTES, or the tensor ends there. */
uint64_t checksum_blocks(const void *data, size_t n, uint64_t first);

/* The same while copying: to[0..n) = from[0..n), which do not overlap; each block is read from memory once. */
uint64_t checksum_copy(void *to, const void *from, size_t n, uint64_t first);

#endif
