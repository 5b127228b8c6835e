#include "runtime/ckpt/checksum_widths.h"

#define WIDTH(name) name##_base
#ifdef __SSE2__
#include <emmintrin.h>
#define MOVE(to, from)                                                                                                 \
    do {                                                                                                               \
        for (int quarter = 0; quarter < 64; quarter += 16)                                                             \
            _mm_stream_si128((void *)((to) + quarter), _mm_loadu_si128((const void *)((from) + quarter)));             \
    } while (0)
#else
#define MOVE(to, from) memcpy(to, from, 64)
#endif
#include "runtime/ckpt/checksum_impl.h"

uint64_t checksum_bytes(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

uint64_t checksum_blocks(const void *data, size_t n, uint64_t first)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return checksum_blocks_avx512(data, n, first);
    if (__builtin_cpu_supports("avx2"))
        return checksum_blocks_avx2(data, n, first);
#endif
    return checksum_blocks_base(data, n, first);
}

uint64_t checksum_copy(void *to, const void *from, size_t n, uint64_t first)
{
    uint64_t sum;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        sum = checksum_copy_avx512(to, from, n, first);
    else if (__builtin_cpu_supports("avx2"))
        sum = checksum_copy_avx2(to, from, n, first);
    else
        sum = checksum_copy_base(to, from, n, first);
    _mm_sfence(); /* the stores around the caches, before what other threads are told next */
#else
    sum = checksum_copy_base(to, from, n, first);
#endif
    return sum;
}
