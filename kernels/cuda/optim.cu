#include "kernels/cuda/optim.h"

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/table.h"

constexpr int THREADS = 256, PACKS = 2, MAX_RANGES = 48;
constexpr size_t CHUNK = (size_t)THREADS * PACKS * PACK;

typedef table<cuda_adamw_range, MAX_RANGES> ranges;

/* An optimizer: whether it has moments, and the CPU's lines with what it takes out of a step's arguments. */
struct rule_adamw {
    static constexpr bool MOMENTS = true;
    float lr, b1, c1, b2, c2, eps, step, root, scale;

    rule_adamw(const struct adamw_args *a)
        : lr(a->lr), b1(a->beta1), c1(1 - a->beta1), b2(a->beta2), c2(1 - a->beta2), eps(a->eps),
          step(a->lr / a->bias1), root(1 / sqrtf(a->bias2)), scale(a->grad_scale)
    {
    }

    __device__ __forceinline__ void update(float *value, float *m, float *v, float grad, float keep) const
    {
        float g = grad * scale;
        *m = b1 * *m + c1 * g;
        *v = b2 * *v + c2 * g * g;
        *value = *value * keep - step * *m / (sqrtf(*v) * root + eps);
    }
};

struct rule_sgd {
    static constexpr bool MOMENTS = false;
    float lr, scale;

    rule_sgd(const struct adamw_args *a) : lr(a->lr), scale(a->grad_scale) {}

    __device__ __forceinline__ void update(float *value, float *, float *, float grad, float keep) const
    {
        *value = *value * keep - lr * scale * grad;
    }
};

static __device__ __forceinline__ uint16_t copied(const cuda_adamw_range &r, float value)
{
    return r.copy_type == DDP_F16 ? f16_store(value) : bf16_store(value);
}

template <typename Rule>
static __device__ __forceinline__ void update_pack(const cuda_adamw_range &r, size_t i, float keep, const Rule &rule)
{
    pack<type_f32> grad = pack_read<type_f32>(r.grad + i), value = pack_read<type_f32>(r.value + i), m, v;
    if (Rule::MOMENTS) {
        m = pack_read<type_f32>(r.m + i);
        v = pack_read<type_f32>(r.v + i);
    }
    for (int j = 0; j < PACK; j++)
        rule.update(&value.x[j], &m.x[j], &v.x[j], grad.x[j], keep);
    pack_write<type_f32>(r.value + i, value);
    if (Rule::MOMENTS) {
        pack_write<type_f32>(r.m + i, m);
        pack_write<type_f32>(r.v + i, v);
    }
    if (r.copy) {
        pack<type_bf16> rounded;
        for (int j = 0; j < PACK; j++)
            rounded.x[j] = copied(r, value.x[j]);
        pack_write<type_bf16>((uint16_t *)r.copy + i, rounded);
    }
}

template <typename Rule>
static __device__ __forceinline__ void update_one(const cuda_adamw_range &r, size_t i, float keep, const Rule &rule)
{
    float value = r.value[i];
    float *m = Rule::MOMENTS ? r.m + i : NULL, *v = Rule::MOMENTS ? r.v + i : NULL;
    rule.update(&value, m, v, r.grad[i], keep);
    r.value[i] = value;
    if (r.copy)
        ((uint16_t *)r.copy)[i] = copied(r, value);
}

template <typename Rule> static __device__ __forceinline__ bool is_all_packed(const cuda_adamw_range &r)
{
    return is_packed<type_f32>(r.value) && is_packed<type_f32>(r.grad) &&
           is_packed<type_bf16>((const uint16_t *)r.copy) &&
           (!Rule::MOMENTS || (is_packed<type_f32>(r.m) && is_packed<type_f32>(r.v)));
}

template <typename Rule>
static __global__ void __launch_bounds__(THREADS) optimizer(const ranges t, const Rule rule)
{
    int k = table_find(t, blockIdx.x);
    const cuda_adamw_range r = t.range[k];
    size_t at = (size_t)(blockIdx.x - t.first_chunk[k]) * CHUNK, end = r.n - at < CHUNK ? r.n : at + CHUNK;
    float keep = 1 - rule.lr * r.weight_decay;
    if (is_all_packed<Rule>(r)) {
        size_t whole = at + (end - at) / PACK * PACK;
        for (size_t i = at + threadIdx.x * PACK; i < whole; i += (size_t)THREADS * PACK)
            update_pack<Rule>(r, i, keep, rule);
        at = whole;
    }
    for (size_t i = at + threadIdx.x; i < end; i += THREADS)
        update_one<Rule>(r, i, keep, rule);
}

template <typename Rule>
static cudaError_t launch(const cuda_adamw_range *range, size_t n_ranges, const struct adamw_args *a, void *stream)
{
    const Rule rule(a);
    for (size_t i = 0; i < n_ranges; i++)
        if (range[i].copy && range[i].copy_type != DDP_BF16 && range[i].copy_type != DDP_F16)
            return cudaErrorInvalidValue;
    return table_launch<MAX_RANGES>(range, n_ranges, CHUNK, [=](const ranges &t) {
        return CUDA_LAUNCH(optimizer<Rule>, t.first_chunk[t.n], THREADS, 0, stream, t, rule);
    });
}

extern "C" int cuda_adamw(const struct cuda_adamw_range *range, size_t n_ranges, const struct adamw_args *a,
                          void *stream)
{
    return launch<rule_adamw>(range, n_ranges, a, stream);
}

extern "C" int cuda_sgd(const struct cuda_adamw_range *range, size_t n_ranges, const struct adamw_args *a, void *stream)
{
    return launch<rule_sgd>(range, n_ranges, a, stream);
}
