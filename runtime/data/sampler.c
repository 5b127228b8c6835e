#include "runtime/data/sampler.h"

#include <stdbool.h>
#include <stdlib.h>

struct sampler {
    struct sampler_config cfg;
    uint64_t *order; /* [n_samples] permutation of `epoch` */
    uint64_t epoch;
    bool has_epoch;
};

struct mt19937 {
    uint32_t state[624];
    int next;
};

static void mt19937_seed(struct mt19937 *g, uint32_t seed)
{
    g->state[0] = seed;
    for (uint32_t i = 1; i < 624; i++)
        g->state[i] = 1812433253u * (g->state[i - 1] ^ (g->state[i - 1] >> 30)) + i;
    g->next = 624;
}

static void refill(struct mt19937 *g)
{
    uint32_t *s = g->state;
    for (int i = 0; i < 624; i++) {
        uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % 624] & 0x7fffffffu);
        s[i] = s[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    g->next = 0;
}

static uint32_t mt19937_next(struct mt19937 *g)
{
    if (g->next == 624)
        refill(g);
    uint32_t y = g->state[g->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

sampler_t *sampler_create(const struct sampler_config *cfg)
{
    if (cfg->n_samples < 1 || cfg->n_samples > SAMPLER_MAX)
        return NULL;
    sampler_t *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->cfg = *cfg;
    s->order = malloc(cfg->n_samples * sizeof *s->order);
    if (!s->order) {
        free(s);
        return NULL;
    }
    return s;
}

void sampler_destroy(sampler_t *s)
{
    if (!s)
        return;
    free(s->order);
    free(s);
}

void sampler_set_epoch(sampler_t *s, uint64_t epoch)
{
    if (s->has_epoch && s->epoch == epoch)
        return;
    uint64_t n = s->cfg.n_samples;
    struct mt19937 g;
    mt19937_seed(&g, (uint32_t)(s->cfg.seed + epoch));
    for (uint64_t i = 0; i < n; i++)
        s->order[i] = i;
    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t j = i + mt19937_next(&g) % (n - i), kept = s->order[i];
        s->order[i] = s->order[j];
        s->order[j] = kept;
    }
    s->epoch = epoch;
    s->has_epoch = true;
}

uint64_t sampler_get(const sampler_t *s, uint64_t i)
{
    return s->order[i % s->cfg.n_samples];
}
