#ifdef __x86_64__

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif

#include <immintrin.h>

#include "runtime/ckpt/checksum_widths.h"

#define XXH_VECTOR XXH_AVX512
#define WIDTH(name) name##_avx512
#define MOVE(to, from) _mm512_stream_si512((void *)(to), _mm512_loadu_si512(from))
#include "runtime/ckpt/checksum_impl.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

#else
typedef int no_avx512; /* a file without a declaration is not C */
#endif
