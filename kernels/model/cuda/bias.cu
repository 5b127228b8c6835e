/* A block takes a row, a thread a piece of it at a time. */
#include "kernels/model/cuda/bias.h"

#include "kernels/model/cuda/lanes.h"

#define THREADS 128u

template <typename T> struct bias_args {
    T *out;
    const T *add; /* NULL: zeros */
    const T *bias;
    unsigned width;
    bool whole; /* rows begin at multiples of 16 bytes */
};

template <typename T> __global__ void __launch_bounds__(THREADS) bias_rows(bias_args<T> a)
{
    constexpr unsigned N = piece<T>::N;
    size_t row = (size_t)blockIdx.x * a.width;
    for (unsigned column = threadIdx.x * N; column < a.width; column += THREADS * N) {
        unsigned n = elements_left<N>(column, a.width);
        float x[N], y[N] = {0};
        load_piece(x, a.bias + column, n, a.whole);
        if (a.add)
            load_piece(y, a.add + row + column, n, a.whole);
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            x[i] += y[i];
        store_piece(a.out + row + column, x, n, a.whole);
    }
}

template <typename T>
static int launch(void *out, const void *add, const void *bias, size_t rows, size_t width, void *stream)
{
    bias_args<T> a = {(T *)out, (const T *)add, (const T *)bias, (unsigned)width, width % piece<T>::N == 0};
    return (int)CUDA_LAUNCH(bias_rows<T>, dim3((unsigned)rows), dim3(THREADS), 0, (cudaStream_t)stream, a);
}

extern "C" int cuda_bias_rows(void *out, const void *add, const void *bias, size_t rows, size_t width, enum ddp_dtype t,
                              void *stream)
{
    auto *of_type = INSTANCE_OF(launch, t);
    if (!width || width > INT32_MAX || rows > INT32_MAX || !of_type || !is_aligned_16(out) || !is_aligned_16(add) ||
        !is_aligned_16(bias))
        return cudaErrorInvalidValue;
    if (!rows)
        return cudaSuccess;
    return of_type(out, add, bias, rows, width, stream);
}
