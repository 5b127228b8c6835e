/* A block's sum stays in the first-level cache while up to ARITY inputs at a time are added to it. */
#include "kernels/fold.h"

#include <string.h>

#include "kernels/cpu/dispatch.h"

enum { BLOCK = 1024, ARITY = 3 };

typedef void pass_f(float *restrict sum, const float *const *in, size_t n);

CPU_DISPATCH static void fold1(float *restrict sum, const float *const *in, size_t n)
{
    const float *a = in[0];
    for (size_t i = 0; i < n; i++)
        sum[i] = a[i] + sum[i];
}

CPU_DISPATCH static void fold2(float *restrict sum, const float *const *in, size_t n)
{
    const float *a = in[0], *b = in[1];
    for (size_t i = 0; i < n; i++)
        sum[i] = a[i] + (b[i] + sum[i]);
}

CPU_DISPATCH static void fold3(float *restrict sum, const float *const *in, size_t n)
{
    const float *a = in[0], *b = in[1], *c = in[2];
    for (size_t i = 0; i < n; i++)
        sum[i] = a[i] + (b[i] + (c[i] + sum[i]));
}

void kernel_fold(float *out, const float *const *in, int n_in, size_t n)
{
    static pass_f *const pass[ARITY + 1] = {NULL, fold1, fold2, fold3};
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t part = n - at < BLOCK ? n - at : BLOCK;
        if (out != in[n_in - 1])
            memcpy(out + at, in[n_in - 1] + at, part * sizeof *out);
        for (int left = n_in - 1, k; left > 0; left -= k) {
            const float *from[ARITY];
            k = left < ARITY ? left : ARITY;
            for (int j = 0; j < k; j++)
                from[j] = in[left - k + j] + at;
            pass[k](out + at, from, part);
        }
    }
}
