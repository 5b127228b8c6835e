#include "runtime/train/model_params.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INIT_STD 0.02f

/* A block's parameters, in registration order; sizes in units of the model's width, 0: a vector of one width. */
static const struct {
    const char *name;
    size_t in, out;
} block_param[BLOCK_PARAMS] = {
    [LN1_W] = {"ln_1.weight", 0, 1},        [LN1_B] = {"ln_1.bias", 0, 1},
    [QKV_W] = {"attn.c_attn.weight", 1, 3}, [QKV_B] = {"attn.c_attn.bias", 0, 3},
    [OUT_W] = {"attn.c_proj.weight", 1, 1}, [OUT_B] = {"attn.c_proj.bias", 0, 1},
    [LN2_W] = {"ln_2.weight", 0, 1},        [LN2_B] = {"ln_2.bias", 0, 1},
    [FC_W] = {"mlp.c_fc.weight", 1, 4},     [FC_B] = {"mlp.c_fc.bias", 0, 4},
    [PROJ_W] = {"mlp.c_proj.weight", 4, 1}, [PROJ_B] = {"mlp.c_proj.bias", 0, 1},
};

static void describe(struct loop_param *p, size_t rows, size_t cols)
{
    p->ndim = rows ? 2 : 1;
    p->shape[0] = rows ? rows : cols;
    p->shape[1] = rows ? cols : 1;
}

int model_params_check(const struct model_config *c, ddp_error_t *errp)
{
    if (c->layers && c->heads && c->width && c->context && c->vocab && c->width % c->heads == 0)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "a model of width %zu cannot have %zu heads: heads must divide the "
                     "width", c->width, c->heads);
}

size_t model_params_count(const struct model_config *c)
{
    return FIRST_BLOCK_PARAM + c->layers * BLOCK_PARAMS + 2;
}

struct loop_param *model_params_create(const struct model_config *c)
{
    size_t n = model_params_count(c);
    struct loop_param *p = calloc(n, sizeof *p);
    if (!p)
        return NULL;
    snprintf(p[WTE].name, sizeof p->name, "wte.weight");
    describe(&p[WTE], c->vocab, c->width);
    snprintf(p[WPE].name, sizeof p->name, "wpe.weight");
    describe(&p[WPE], c->context, c->width);
    for (size_t l = 0; l < c->layers; l++)
        for (int k = 0; k < BLOCK_PARAMS; k++) {
            struct loop_param *b = &p[block_id(l, k)];
            snprintf(b->name, sizeof b->name, "h.%zu.%s", l, block_param[k].name);
            describe(b, block_param[k].in * c->width, block_param[k].out * c->width);
        }
    snprintf(p[n - 2].name, sizeof p->name, "ln_f.weight");
    describe(&p[n - 2], 0, c->width);
    snprintf(p[n - 1].name, sizeof p->name, "ln_f.bias");
    describe(&p[n - 1], 0, c->width);
    return p;
}

/* A block's, in units of the width: vectors and matrices. */
static size_t block_elems(const struct model_config *c, bool matrices_only)
{
    size_t n = 0;
    for (int k = 0; k < BLOCK_PARAMS; k++)
        if (block_param[k].in)
            n += block_param[k].in * block_param[k].out * c->width * c->width;
        else if (!matrices_only)
            n += block_param[k].out * c->width;
    return n;
}

size_t model_params_elems(const struct model_config *c)
{
    return (c->vocab + c->context + 2) * c->width + c->layers * block_elems(c, false);
}

double model_flops_per_token(const struct model_config *c)
{
    double matrices = (double)(c->layers * block_elems(c, true)) + (double)c->vocab * (double)c->width;
    return 6 * matrices + 6 * (double)c->layers * (double)c->context * (double)c->width;
}

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

void model_params_init(const struct model_config *c, const struct loop_param *param, size_t id, uint64_t seed,
                       float *ret)
{
    const struct loop_param *p = &param[id];
    size_t n = p->shape[0] * p->shape[1];
    float residual = INIT_STD / sqrtf(2.0f * (float)c->layers);
    if (p->ndim == 2)
        fill_normal(ret, n, ends_with(p->name, "c_proj.weight") ? residual : INIT_STD, mix(mix(seed) + id));
    else
        fill(ret, n, ends_with(p->name, ".weight") ? 1.0f : 0.0f);
}
