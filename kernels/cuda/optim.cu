#include "kernels/cuda/optim.h"

#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/table.h"

constexpr int THREADS = 256, PACKS = 2, MAX_RANGES = 48;
constexpr size_t CHUNK = (size_t)THREADS * PACKS * PACK;

typedef table<cuda_optim_range, MAX_RANGES> ranges;

/* An optimizer: how many moments it has, and the CPU's lines with what it takes out of a step's arguments. */
struct rule_adamw {
    static constexpr int MOMENTS = 2;
    float lr, b1, c1, b2, c2, eps, step, root, scale;

    rule_adamw(const struct optim_args *a)
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
    static constexpr int MOMENTS = 0;
    float lr, scale;

    rule_sgd(const struct optim_args *a) : lr(a->lr), scale(a->grad_scale) {}

    __device__ __forceinline__ void update(float *value, float *, float *, float grad, float keep) const
    {
        *value = *value * keep - lr * scale * grad;
    }
};

static __device__ __forceinline__ uint16_t copied(const cuda_optim_range &r, float value)
{
    return r.copy_type == DDP_F16 ? f16_store(value) : bf16_store(value);
}

template <typename Rule>
static __device__ __forceinline__ void update_pack(const cuda_optim_range &r, size_t i, float keep, const Rule &rule)
{
    pack<type_f32> grad = pack_read<type_f32>(r.grad + i), value = pack_read<type_f32>(r.value + i), m, v;
    if (Rule::MOMENTS > 0)
        m = pack_read<type_f32>(r.moment[0] + i);
    if (Rule::MOMENTS > 1)
        v = pack_read<type_f32>(r.moment[1] + i);
    for (int j = 0; j < PACK; j++)
        rule.update(&value.x[j], &m.x[j], &v.x[j], grad.x[j], keep);
    pack_write<type_f32>(r.value + i, value);
    if (Rule::MOMENTS > 0)
        pack_write<type_f32>(r.moment[0] + i, m);
    if (Rule::MOMENTS > 1)
        pack_write<type_f32>(r.moment[1] + i, v);
    if (r.copy) {
        pack<type_bf16> rounded;
        for (int j = 0; j < PACK; j++)
            rounded.x[j] = copied(r, value.x[j]);
        pack_write<type_bf16>((uint16_t *)r.copy + i, rounded);
    }
}

template <typename Rule>
static __device__ __forceinline__ void update_one(const cuda_optim_range &r, size_t i, float keep, const Rule &rule)
{
    float value = r.value[i];
    float *m = Rule::MOMENTS > 0 ? r.moment[0] + i : NULL, *v = Rule::MOMENTS > 1 ? r.moment[1] + i : NULL;
    rule.update(&value, m, v, r.grad[i], keep);
    r.value[i] = value;
    if (r.copy)
        ((uint16_t *)r.copy)[i] = copied(r, value);
}

template <typename Rule> static __device__ __forceinline__ bool is_all_packed(const cuda_optim_range &r)
{
    return is_packed<type_f32>(r.value) && is_packed<type_f32>(r.grad) &&
           is_packed<type_bf16>((const uint16_t *)r.copy) &&
           (Rule::MOMENTS < 1 || is_packed<type_f32>(r.moment[0])) &&
           (Rule::MOMENTS < 2 || is_packed<type_f32>(r.moment[1]));
}

template <typename Rule>
static __global__ void __launch_bounds__(THREADS) optimizer(const ranges t, const Rule rule)
{
    int k = table_find(t, blockIdx.x);
    const cuda_optim_range r = t.range[k];
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
static int launch_of(const cuda_optim_range *range, size_t n_ranges, const struct optim_args *a, void *stream)
{
    const Rule rule(a);
    for (size_t i = 0; i < n_ranges; i++)
        if (range[i].copy && range[i].copy_type != DDP_BF16 && range[i].copy_type != DDP_F16)
            return cudaErrorInvalidValue;
    return table_launch<MAX_RANGES>(range, n_ranges, CHUNK, [=](const ranges &t) {
        return CUDA_LAUNCH(optimizer<Rule>, t.first_chunk[t.n], THREADS, 0, stream, t, rule);
    });
}

static const struct {
    const char *name;
    cuda_optim_f *launch;
} rules[] = {{"adamw", launch_of<rule_adamw>}, {"sgd", launch_of<rule_sgd>}};

extern "C" cuda_optim_f *cuda_optim_find(const char *rule)
{
    for (const auto &r : rules)
        if (!strcmp(r.name, rule))
            return r.launch;
    return NULL;
}
