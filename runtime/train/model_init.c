#include "runtime/train/model_impl.h"

#include <math.h>
#include <string.h>

#define INIT_STD 0.02f

/* A counter-based generator: the mixing step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over a number that no two
 * draws share. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* Normal numbers in pairs from two uniform ones (Box and Muller, 1958). */
static void fill_normal(float *x, size_t n, float std, uint64_t key)
{
    for (size_t i = 0; i < n; i += 2) {
        uint64_t bits = mix(key ^ mix(i));
        float u = ((float)(bits >> 40) + 0.5f) * 0x1p-24f, angle = (float)(bits & 0xffffff) * 0x1p-24f * 6.28318531f;
        float radius = std * sqrtf(-2.0f * logf(u));
        x[i] = radius * cosf(angle);
        if (i + 1 < n)
            x[i + 1] = radius * sinf(angle);
    }
}

static void fill(float *x, size_t n, float with)
{
    for (size_t i = 0; i < n; i++)
        x[i] = with;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

void model_init(model_t *m, uint64_t seed)
{
    float residual = INIT_STD / sqrtf(2.0f * (float)m->c.layers);
    for (size_t id = 0; id < m->n_params; id++) {
        const char *name = m->param[id].name;
        size_t n = m->tensor[id].n_elems;
        if (m->param[id].ndim == 2)
            fill_normal(value(m, id), n, ends_with(name, "c_proj.weight") ? residual : INIT_STD,
                        mix(mix(seed) + id));
        else
            fill(value(m, id), n, ends_with(name, ".weight") ? 1.0f : 0.0f);
    }
}
