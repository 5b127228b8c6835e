/* Per element the inputs are pushed, in their order, onto a counter: level l holds the sum of a whole subtree of 2^l
 * inputs, and two of one level make one of the next. The rest, of unequal levels, is added from the last one back: that
 * is T. What every thread does depends on the number of inputs alone. Of minima and maxima, which no order changes, the
 * present one is enough. */
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

template <typename T, int Width, int Levels> struct counter {
    typename T::acc level[Levels][Width];
    bool here[Levels]; /* false: all of the subtree is absent */

    __device__ __forceinline__ void push(typename T::acc x[Width], bool is_here, int k)
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
    __device__ __forceinline__ void add(int l, typename T::acc x[Width], bool *is_here)
    {
        for (int j = 0; j < Width; j++)
            x[j] = !here[l] ? x[j] : !*is_here ? level[l][j] : level[l][j] + x[j];
        *is_here = *is_here || here[l];
    }

    /* Of n >= 1 inputs. */
    __device__ __forceinline__ void total(typename T::acc x[Width], int n)
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

/* The least, or the greatest; the first of equals, and a NaN that has come stays. */
template <typename T, int Width, bool Least> struct extreme {
    typename T::acc best[Width];
    bool here = false;

    __device__ __forceinline__ void push(typename T::acc x[Width], bool is_here, int)
    {
        for (int j = 0; j < Width; j++) {
            if (is_here && (!here || x[j] != x[j] || (Least ? x[j] < best[j] : x[j] > best[j])))
                best[j] = x[j];
        }
        here = here || is_here;
    }

    __device__ __forceinline__ void total(typename T::acc x[Width], int)
    {
        for (int j = 0; j < Width; j++)
            x[j] = best[j];
    }
};

template <int Levels> struct sums {
    template <typename T, int Width> using of = counter<T, Width, Levels>;
};
template <bool Least> struct extremes {
    template <typename T, int Width> using of = extreme<T, Width, Least>;
};

/* Elements [i, i + Width) of all arrays; Raw is what is read at once. */
template <typename T, int Width, typename Raw, typename What>
static __device__ __forceinline__ void reduce_at(const arrays &a, size_t i)
{
    typename What::template of<T, Width> c;
    for (int k = 0; k < a.n_in; k += AHEAD) {
        Raw ahead[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) /* some loads under way at a time */
            if (k + u < a.n_in && a.in[k + u])
                ahead[u] = *(const Raw *)((const typename T::raw *)a.in[k + u] + i);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            typename T::acc x[Width] = {};
            if (k + u < a.n_in) {
                if (a.in[k + u])
                    for (int j = 0; j < Width; j++)
                        x[j] = T::load(((const typename T::raw *)&ahead[u])[j]);
                c.push(x, a.in[k + u] != NULL, k + u);
            }
        }
    }
    typename T::acc x[Width];
    Raw result;
    c.total(x, a.n_in);
    for (int j = 0; j < Width; j++)
        ((typename T::raw *)&result)[j] = T::store(x[j]);
    for (int k = 0; k < a.n_out; k++)
        *(Raw *)((typename T::raw *)a.out[k] + i) = result;
}

template <typename T, typename What>
static __global__ void __launch_bounds__(THREADS) reduce(const arrays a, size_t n, bool packed)
{
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, stride = (size_t)gridDim.x * THREADS;
    size_t n_packs = packed ? n / PACK : 0;
    for (size_t p = first; p < n_packs; p += stride)
        reduce_at<T, PACK, pack<T>, What>(a, p * PACK);
    for (size_t i = n_packs * PACK + first; i < n; i += stride)
        reduce_at<T, 1, typename T::raw, What>(a, i);
}

template <typename T, typename What> static cudaError_t launch(const arrays &a, size_t n, void *stream)
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
    return CUDA_LAUNCH((reduce<T, What>), grid, THREADS, 0, stream, a, n, packed);
}

/* Sum: the type that is added, Order: that is compared. */
template <typename Sum, typename Order>
static cudaError_t launch_op(const arrays &a, size_t n, enum ddp_op op, void *stream)
{
    switch (op) {
    case DDP_SUM:
        return a.n_in < 1 << FEW_LEVELS ? launch<Sum, sums<FEW_LEVELS>>(a, n, stream)
                                        : launch<Sum, sums<MANY_LEVELS>>(a, n, stream);
    case DDP_MIN:
        return launch<Order, extremes<true>>(a, n, stream);
    case DDP_MAX:
        return launch<Order, extremes<false>>(a, n, stream);
    }
    return cudaErrorInvalidValue;
}

extern "C" int cuda_reduce_tree(void *const *out, int n_out, const void *const *in, int n_in, size_t n_elems,
                                enum ddp_dtype dtype, enum ddp_op op, void *stream)
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
    switch (dtype) {
    case DDP_F32:
        return launch_op<type_f32, type_f32>(a, n_elems, op, stream);
    case DDP_F64:
        return launch_op<type_f64, type_f64>(a, n_elems, op, stream);
    case DDP_BF16:
        return launch_op<type_bf16, type_bf16>(a, n_elems, op, stream);
    case DDP_F16:
        return launch_op<type_f16, type_f16>(a, n_elems, op, stream);
    case DDP_I32:
        return launch_op<type_u32, type_i32>(a, n_elems, op, stream);
    case DDP_I64:
        return launch_op<type_u64, type_i64>(a, n_elems, op, stream);
    }
    return cudaErrorInvalidValue;
}
