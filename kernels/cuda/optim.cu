#include "kernels/cuda/optim.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/table.h"

constexpr int THREADS = 256, PACKS = 2, MAX_RANGES = 48;
constexpr size_t CHUNK = (size_t)THREADS * PACKS * PACK;

typedef table<cuda_adamw_range, MAX_RANGES> ranges;

struct factors { /* of kernel_adamw */
    float lr, b1, c1, b2, c2, eps, step, root, scale;
};

/* kernel_adamw's lines. */
static __device__ __forceinline__ void update(float *value, float *m, float *v, float grad, float keep,
                                                  const factors &f)
{
    float g = grad * f.scale;
    *m = f.b1 * *m + f.c1 * g;
    *v = f.b2 * *v + f.c2 * g * g;
    *value = *value * keep - f.step * *m / (sqrtf(*v) * f.root + f.eps);
}

template <typename Grad>
static __device__ __forceinline__ void update_pack(const cuda_adamw_range &r, size_t i, float keep, const factors &f)
{
    pack<Grad> grad = pack_read<Grad>((const typename Grad::raw *)r.grad + i);
    pack<type_f32> value = pack_read<type_f32>(r.value + i), m = pack_read<type_f32>(r.m + i);
    pack<type_f32> v = pack_read<type_f32>(r.v + i);
    for (int j = 0; j < PACK; j++)
        update(&value.x[j], &m.x[j], &v.x[j], Grad::load(grad.x[j]), keep, f);
    pack_write<type_f32>(r.value + i, value);
    pack_write<type_f32>(r.m + i, m);
    pack_write<type_f32>(r.v + i, v);
    if (r.value_bf16) {
        pack<type_bf16> rounded;
        for (int j = 0; j < PACK; j++)
            rounded.x[j] = bf16_store(value.x[j]);
        pack_write<type_bf16>((uint16_t *)r.value_bf16 + i, rounded);
    }
}

template <typename Grad>
static __device__ __forceinline__ void update_one(const cuda_adamw_range &r, size_t i, float keep, const factors &f)
{
    float value = r.value[i];
    update(&value, &r.m[i], &r.v[i], Grad::load(((const typename Grad::raw *)r.grad)[i]), keep, f);
    r.value[i] = value;
    if (r.value_bf16)
        ((uint16_t *)r.value_bf16)[i] = bf16_store(value);
}

template <typename Grad>
static __global__ void __launch_bounds__(THREADS) adamw(const ranges t, factors f, const cuda_step *step)
{
    if (step && step->skipped)
        return;
    if (step)
        f.scale = step->grad_scale;
    int k = table_find(t, blockIdx.x);
    const cuda_adamw_range r = t.range[k];
    size_t at = (size_t)(blockIdx.x - t.first_chunk[k]) * CHUNK, end = r.n - at < CHUNK ? r.n : at + CHUNK;
    float keep = 1 - f.lr * r.weight_decay;
    if (is_packed<type_f32>(r.value) && is_packed<type_f32>(r.m) && is_packed<type_f32>(r.v) &&
        is_packed<Grad>((const typename Grad::raw *)r.grad) && is_packed<type_bf16>((const uint16_t *)r.value_bf16)) {
        size_t whole = at + (end - at) / PACK * PACK;
        for (size_t i = at + threadIdx.x * PACK; i < whole; i += (size_t)THREADS * PACK)
            update_pack<Grad>(r, i, keep, f);
        at = whole;
    }
    for (size_t i = at + threadIdx.x; i < end; i += THREADS)
        update_one<Grad>(r, i, keep, f);
}

template <typename Grad>
static cudaError_t launch(const cuda_adamw_range *range, size_t n_ranges, const factors &f, const cuda_step *step,
                          void *stream)
{
    return table_launch<MAX_RANGES>(range, n_ranges, CHUNK, [=](const ranges &t) {
        return CUDA_LAUNCH(adamw<Grad>, t.first_chunk[t.n], THREADS, 0, stream, t, f, step);
    });
}

extern "C" int cuda_adamw(const struct cuda_adamw_range *range, size_t n_ranges, enum ddp_dtype grad_type,
                          const struct adamw_args *a, const struct cuda_step *step, void *stream)
{
    const factors f = {a->lr,  a->beta1, 1 - a->beta1,      a->beta2,            1 - a->beta2,
                       a->eps, a->lr / a->bias1, 1 / sqrtf(a->bias2), a->grad_scale};
    if (grad_type == DDP_F32)
        return launch<type_f32>(range, n_ranges, f, step, stream);
    if (grad_type == DDP_BF16)
        return launch<type_bf16>(range, n_ranges, f, step, stream);
    return grad_type == DDP_F16 ? launch<type_f16>(range, n_ranges, f, step, stream) : cudaErrorInvalidValue;
}
