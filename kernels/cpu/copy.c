#include "kernels/copy.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

enum { LINE = 64, AHEAD = 1024 }; /* bytes: of a cache line; how far ahead is fetched */

bool kernel_has_copy_past(void)
{
    return true;
}

void kernel_copy_past(void *to, const void *from, size_t n)
{
    size_t at = 0;
    for (; at + LINE <= n; at += LINE) {
        const char *in = (const char *)from + at;
        __m128i *out = (__m128i *)(void *)((char *)to + at);
        __m128i line[LINE / sizeof(__m128i)];
        if (at + LINE + AHEAD <= n)
            _mm_prefetch(in + AHEAD, _MM_HINT_T0);
        memcpy(line, in, LINE);
        for (size_t i = 0; i < LINE / sizeof *line; i++)
            _mm_stream_si128(out + i, line[i]);
    }
    memcpy((char *)to + at, (const char *)from + at, n - at);
    _mm_sfence();
}

#else

bool kernel_has_copy_past(void)
{
    return false;
}

void kernel_copy_past(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
}

#endif
