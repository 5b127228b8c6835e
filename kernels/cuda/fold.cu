#include "kernels/cuda/fold.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/pack.h"

constexpr int THREADS = 256;

struct arrays {
    const float *in[CUDA_FOLD_MAX];
    int n;
};

static __global__ void __launch_bounds__(THREADS) fold(float *out, const arrays a, size_t n, bool packed)
{
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, stride = (size_t)gridDim.x * THREADS;
    size_t n_packs = packed ? n / PACK : 0;
    for (size_t p = first; p < n_packs; p += stride) {
        pack<type_f32> sum = pack_read<type_f32>(a.in[a.n - 1] + p * PACK);
#pragma unroll 4
        for (int k = a.n - 2; k >= 0; k--) {
            pack<type_f32> x = pack_read<type_f32>(a.in[k] + p * PACK);
            for (int j = 0; j < PACK; j++)
                sum.x[j] = x.x[j] + sum.x[j];
        }
        pack_write<type_f32>(out + p * PACK, sum);
    }
    for (size_t i = n_packs * PACK + first; i < n; i += stride) {
        float sum = a.in[a.n - 1][i];
        for (int k = a.n - 2; k >= 0; k--)
            sum = a.in[k][i] + sum;
        out[i] = sum;
    }
}

extern "C" int cuda_fold(float *out, const float *const *in, int n_in, size_t n, void *stream)
{
    arrays a;
    if (n_in < 1 || n_in > CUDA_FOLD_MAX)
        return cudaErrorInvalidValue;
    if (!n)
        return cudaSuccess;
    bool packed = is_packed<type_f32>(out);
    for (int k = 0; k < n_in; k++) {
        a.in[k] = in[k];
        packed = packed && is_packed<type_f32>(in[k]);
    }
    a.n = n_in;
    size_t per_block = (size_t)THREADS * (packed ? PACK : 1), blocks = (n + per_block - 1) / per_block;
    unsigned grid = (unsigned)(blocks < INT32_MAX ? blocks : INT32_MAX);
    return CUDA_LAUNCH(fold, grid, THREADS, 0, stream, out, a, n, packed);
}
