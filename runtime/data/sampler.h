/* sampler.h - the order in which PyTorch's DistributedSampler(shuffle=True) deals out an epoch's samples. Pure.
 * Of R replicas, replica r takes entries r, r + R, ... of a permutation; after its end the first entries are taken
 * again, until all replicas have the same number.
 *
 * Source of the order: torch.randperm on the CPU draws from MT19937 (Matsumoto and Nishimura, ACM TOMACS 8(1), 1998)
 * seeded with the low 32 bits of seed + epoch, and shuffles forward: for i in [0, n-1): swap(i, i + draw % (n - i)).
 * Checked against vectors in t/data, recorded from PyTorch 1.13.0. From UINT32_MAX / 20 samples on newer versions of
 * PyTorch draw 64 bits and shuffle otherwise (seen in 2.15, not in 1.13): there is no one order, and larger sets are
 * refused. */
#ifndef DDP_RUNTIME_DATA_SAMPLER_H
#define DDP_RUNTIME_DATA_SAMPLER_H

#include <stdint.h>

#define SAMPLER_MAX (UINT32_MAX / 20 - 1) /* samples */

typedef struct sampler sampler_t;

struct sampler_config {
    uint64_t n_samples; /* 1..SAMPLER_MAX */
    uint64_t seed;
};

/* The caller destroys. NULL when memory runs out or the configuration is not valid. */
sampler_t *sampler_create(const struct sampler_config *cfg);
void sampler_destroy(sampler_t *s); /* NULL is allowed */

/* Makes the permutation of `epoch`; no-op when it is the present one. Needed before sampler_get. */
void sampler_set_epoch(sampler_t *s, uint64_t epoch);

/* Entry i of the present epoch; from n_samples on the first ones again. */
uint64_t sampler_get(const sampler_t *s, uint64_t i);

#endif
