/* Per element the inputs are pushed, in their order, onto a counter: level l holds the sum of a whole subtree of 2^l
 * inputs, and two of one level make one of the next. The rest, of unequal levels, is added from the last one back: that
 * is T. What every thread does depends on the number of inputs alone. */
#include "kernels/cuda/reduce.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/pack.h"

constexpr int THREADS = 256, AHEAD = 4;
/* Of the counter, one for each bit of the number of inputs: fewer, and so fewer registers, where there are few. */
constexpr int FEW_LEVELS = 4, MANY_LEVELS = 8;
static_assert(CUDA_REDUCE_MAX < 1 << MANY_LEVELS, "the counter has a level for each bit");

struct arrays {
    void *out[CUDA_REDUCE_MAX];
    const void *in[CUDA_REDUCE_MAX];
    int n_out, n_in;
};

template <int Width, int Levels> struct counter {
    float level[Levels][Width];
    bool here[Levels]; /* false: all of the subtree is absent */

    __device__ __forceinline__ void push(float x[Width], bool is_here, int k)
    {
        bool carry = true; /* rather than an early return: so that levels are registers */
#pragma unroll
        for (int l = 0; l < Levels; l++) {
            if (carry && k >> l & 1) {
                add(l, x, &is_here);
            } else if (carry) {
                for (int j = 0; j < Width; j++)
                    level[l][j] = x[j];
                here[l] = is_here;
                carry = false;
            }
        }
    }

    /* x = level l + x */
    __device__ __forceinline__ void add(int l, float x[Width], bool *is_here)
    {
        for (int j = 0; j < Width; j++)
            x[j] = !here[l] ? x[j] : !*is_here ? level[l][j] : level[l][j] + x[j];
        *is_here = *is_here || here[l];
    }

    /* Of n >= 1 inputs. */
    __device__ __forceinline__ void total(float x[Width], int n)
    {
        bool is_here = false;
        for (int j = 0; j < Width; j++)
            x[j] = 0;
#pragma unroll
        for (int l = 0; l < Levels; l++)
            if (n >> l & 1)
                add(l, x, &is_here);
    }
};

/* Elements [i, i + Width) of all arrays; Raw is what is read at once. */
template <typename T, int Width, typename Raw, int Levels>
static __device__ __forceinline__ void reduce_at(const arrays &a, size_t i)
{
    counter<Width, Levels> c;
    for (int k = 0; k < a.n_in; k += AHEAD) {
        Raw ahead[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) /* some loads under way at a time */
            if (k + u < a.n_in && a.in[k + u])
                ahead[u] = *(const Raw *)((const typename T::raw *)a.in[k + u] + i);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            float x[Width] = {};
            if (k + u < a.n_in) {
                if (a.in[k + u])
                    for (int j = 0; j < Width; j++)
                        x[j] = T::load(((const typename T::raw *)&ahead[u])[j]);
                c.push(x, a.in[k + u] != NULL, k + u);
            }
        }
    }
    float x[Width];
    Raw result;
    c.total(x, a.n_in);
    for (int j = 0; j < Width; j++)
        ((typename T::raw *)&result)[j] = T::store(x[j]);
    for (int k = 0; k < a.n_out; k++)
        *(Raw *)((typename T::raw *)a.out[k] + i) = result;
}

template <typename T, int Levels>
static __global__ void __launch_bounds__(THREADS) reduce(const arrays a, size_t n, bool packed)
{
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, stride = (size_t)gridDim.x * THREADS;
    size_t n_packs = packed ? n / PACK : 0;
    for (size_t p = first; p < n_packs; p += stride)
        reduce_at<T, PACK, pack<T>, Levels>(a, p * PACK);
    for (size_t i = n_packs * PACK + first; i < n; i += stride)
        reduce_at<T, 1, typename T::raw, Levels>(a, i);
}

template <typename T> static cudaError_t launch(const arrays &a, size_t n, void *stream)
{
    bool packed = true;
    for (int k = 0; k < a.n_in; k++)
        packed = packed && is_packed<T>((const typename T::raw *)a.in[k]);
    for (int k = 0; k < a.n_out; k++)
        packed = packed && is_packed<T>((const typename T::raw *)a.out[k]);
    size_t per_block = (size_t)THREADS * (packed ? PACK : 1), blocks = (n + per_block - 1) / per_block;
    if (!blocks)
        return cudaSuccess;
    unsigned grid = (unsigned)(blocks < INT32_MAX ? blocks : INT32_MAX);
    return a.n_in < 1 << FEW_LEVELS
               ? CUDA_LAUNCH((reduce<T, FEW_LEVELS>), grid, THREADS, 0, stream, a, n, packed)
               : CUDA_LAUNCH((reduce<T, MANY_LEVELS>), grid, THREADS, 0, stream, a, n, packed);
}

extern "C" int cuda_reduce_tree(void *const *out, int n_out, const void *const *in, int n_in, size_t n_elems,
                                enum ddp_dtype dtype, void *stream)
{
    arrays a;
    if (n_in < 1 || n_in > CUDA_REDUCE_MAX || n_out < 1 || n_out > CUDA_REDUCE_MAX)
        return cudaErrorInvalidValue;
    a.n_in = n_in;
    a.n_out = n_out;
    for (int k = 0; k < n_in; k++)
        a.in[k] = in[k];
    for (int k = 0; k < n_out; k++)
        a.out[k] = out[k];
    if (dtype == DDP_F32)
        return launch<type_f32>(a, n_elems, stream);
    if (dtype == DDP_BF16)
        return launch<type_bf16>(a, n_elems, stream);
    return dtype == DDP_F16 ? launch<type_f16>(a, n_elems, stream) : cudaErrorInvalidValue;
}
