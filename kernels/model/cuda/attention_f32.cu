/* Plain attention in float32, for reference runs: a warp (a block of its own) takes a query, or a key, of a head; the
 * scores of its row lie in shared memory. */
#include "kernels/model/cuda/attention_f32.h"

#include "kernels/model/cuda/lanes.h"

struct plain_args {
    unsigned length, heads, width, head; /* head: its width */
    float scale;
};

/* One head of one sequence: blockIdx.y. */
struct plain_head {
    const float *q, *k, *v; /* rows of 3 * width */
    size_t qkv, out, stats; /* the head's first element in the tensors */
};

__device__ __forceinline__ plain_head plain_head_of(const float *qkv, const plain_args &a)
{
    size_t b = blockIdx.y / a.heads, h = blockIdx.y % a.heads, at = b * a.length * 3 * a.width + h * a.head;
    plain_head p = {qkv + at, qkv + at + a.width, qkv + at + 2 * (size_t)a.width, at,
                    b * a.length * a.width + h * a.head, (size_t)blockIdx.y * a.length};
    return p;
}

__device__ __forceinline__ float dot(const float *x, const float *y, unsigned n)
{
    float sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* out[i] = sum over r of weight[r] x[r][i], r in [begin, end), x's rows `stride` apart; a lane takes every 32nd i. */
__device__ __forceinline__ void weighted_rows(float *out, const float *weight, const float *x, size_t stride,
                                              unsigned begin, unsigned end, unsigned n, float scale)
{
    for (unsigned i = threadIdx.x; i < n; i += WARP) {
        float sum = 0;
        for (unsigned r = begin; r < end; r++)
            sum += weight[r] * x[r * stride + i];
        out[i] = sum * scale;
    }
}

__global__ void __launch_bounds__(WARP) plain_forward(float *out, float *stats, const float *qkv, plain_args a)
{
    CUDA_SHARED(float, p);
    plain_head at = plain_head_of(qkv, a);
    unsigned query = blockIdx.x;
    size_t stride = 3 * (size_t)a.width;
    float max = -INFINITY, sum = 0;
    for (unsigned key = threadIdx.x; key <= query; key += WARP) {
        p[key] = dot(at.q + query * stride, at.k + key * stride, a.head) * a.scale;
        max = fmaxf(max, p[key]);
    }
    max = warp_max(max);
    for (unsigned key = threadIdx.x; key <= query; key += WARP) {
        p[key] = expf(p[key] - max);
        sum += p[key];
    }
    sum = warp_sum(sum); /* all have written */
    __syncwarp(WARP_ALL);
    weighted_rows(out + at.out + (size_t)query * a.width, p, at.v, stride, 0, query + 1, a.head, 1 / sum);
    if (threadIdx.x == 0)
        stats[at.stats + query] = max + logf(sum);
}

struct plain_tensors {
    float *dqkv, *d; /* d: dout . out of each query */
    const float *dout, *out, *qkv, *stats;
};

__device__ __forceinline__ float probability(const plain_tensors &x, const plain_head &at, const plain_args &a,
                                             unsigned query, unsigned key)
{
    size_t stride = 3 * (size_t)a.width;
    return expf(dot(at.q + query * stride, at.k + key * stride, a.head) * a.scale - x.stats[at.stats + query]);
}

__global__ void __launch_bounds__(WARP) plain_dq(plain_tensors x, plain_args a)
{
    CUDA_SHARED(float, ds);
    plain_head at = plain_head_of(x.qkv, a);
    unsigned query = blockIdx.x;
    size_t stride = 3 * (size_t)a.width, row = at.out + (size_t)query * a.width;
    float d = dot(x.dout + row, x.out + row, a.head);
    if (threadIdx.x == 0)
        x.d[at.stats + query] = d;
    for (unsigned key = threadIdx.x; key <= query; key += WARP)
        ds[key] = probability(x, at, a, query, key) * (dot(x.dout + row, at.v + key * stride, a.head) - d);
    __syncwarp(WARP_ALL);
    weighted_rows(x.dqkv + at.qkv + query * stride, ds, at.k, stride, 0, query + 1, a.head, a.scale);
}

/* After plain_dq, which leaves d. */
__global__ void __launch_bounds__(WARP) plain_dkv(plain_tensors x, plain_args a)
{
    CUDA_SHARED(float, p); /* [length] p, [length] ds */
    plain_head at = plain_head_of(x.qkv, a);
    unsigned key = blockIdx.x;
    size_t stride = 3 * (size_t)a.width;
    float *ds = p + a.length, *dk = x.dqkv + at.qkv + a.width + key * stride;
    const float *dout = x.dout + at.out;
    for (unsigned query = key + threadIdx.x; query < a.length; query += WARP) {
        float dp = dot(dout + (size_t)query * a.width, at.v + key * stride, a.head);
        p[query] = probability(x, at, a, query, key);
        ds[query] = p[query] * (dp - x.d[at.stats + query]);
    }
    __syncwarp(WARP_ALL);
    weighted_rows(dk, ds, at.q, stride, key, a.length, a.head, a.scale);
    weighted_rows(dk + a.width, p, dout, a.width, key, a.length, a.head, 1);
}

static bool shape_is_bad(const struct attention_shape *s)
{
    return !s->heads || s->width % s->heads || s->length > CUDA_ATTENTION_F32_LENGTH || s->width > INT32_MAX ||
           s->batch * s->heads > 65535;
}

static plain_args args_of(const struct attention_shape *s)
{
    unsigned head = (unsigned)(s->width / s->heads);
    plain_args a = {(unsigned)s->length, (unsigned)s->heads, (unsigned)s->width, head, 1 / sqrtf((float)head)};
    return a;
}

int attention_forward_f32(float *out, float *stats, const float *qkv, const struct attention_shape *s, void *stream)
{
    if (shape_is_bad(s))
        return cudaErrorInvalidValue;
    if (!cuda_attention_stats_elems(s))
        return 0;
    return (int)CUDA_LAUNCH(plain_forward, dim3((unsigned)s->length, (unsigned)(s->batch * s->heads)), dim3(WARP),
                            s->length * sizeof(float), (cudaStream_t)stream, out, stats, qkv, args_of(s));
}

int attention_backward_f32(float *dqkv, float *work, const float *dout, const float *out, const float *qkv,
                           const float *stats, const struct attention_shape *s, void *stream)
{
    if (shape_is_bad(s))
        return cudaErrorInvalidValue;
    if (!cuda_attention_stats_elems(s))
        return 0;
    dim3 grid((unsigned)s->length, (unsigned)(s->batch * s->heads));
    plain_tensors x = {dqkv, work, dout, out, qkv, stats};
    plain_args a = args_of(s);
    int rc = (int)CUDA_LAUNCH(plain_dq, grid, dim3(WARP), s->length * sizeof(float), (cudaStream_t)stream, x, a);
    if (!rc)
        rc = (int)CUDA_LAUNCH(plain_dkv, grid, dim3(WARP), 2 * s->length * sizeof(float), (cudaStream_t)stream, x, a);
    return rc;
}
