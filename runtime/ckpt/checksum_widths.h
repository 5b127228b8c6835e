/* checksum_widths.h - checksum.h's loops for each vector width, all of which give the same sums; private to
 * runtime/ckpt. */
#ifndef DDP_RUNTIME_CKPT_CHECKSUM_WIDTHS_H
#define DDP_RUNTIME_CKPT_CHECKSUM_WIDTHS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __x86_64__
uint64_t checksum_copy_avx2(void *to, const void *from, size_t n, uint64_t first);
uint64_t checksum_blocks_avx2(const void *data, size_t n, uint64_t first);
uint64_t checksum_copy_avx512(void *to, const void *from, size_t n, uint64_t first);
uint64_t checksum_blocks_avx512(const void *data, size_t n, uint64_t first);
#endif
uint64_t checksum_copy_base(void *to, const void *from, size_t n, uint64_t first);
uint64_t checksum_blocks_base(const void *data, size_t n, uint64_t first);

#endif
