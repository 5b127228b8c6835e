#ifdef __x86_64__

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#include <immintrin.h>

#include "runtime/ckpt/checksum_widths.h"

#define XXH_VECTOR XXH_AVX2
#define WIDTH(name) name##_avx2
#define MOVE(to, from)                                                                                                 \
    do {                                                                                                               \
        __m256i low = _mm256_loadu_si256((const void *)(from));                                                        \
        __m256i high = _mm256_loadu_si256((const void *)((from) + 32));                                                \
        _mm256_stream_si256((void *)(to), low);                                                                        \
        _mm256_stream_si256((void *)((to) + 32), high);                                                                \
    } while (0)
#include "runtime/ckpt/checksum_impl.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#else
typedef int no_avx2; /* a file without a declaration is not C */
#endif
