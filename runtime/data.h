/* data.h - the position in the data: which samples the next micro-step takes. Pure.
 *
 * An epoch gives every rank the same number of entries (sampler.h); its last micro-step may be shorter than the others,
 * and ends its step even when fewer than `accum` micro-steps were taken. Nothing runs across an epoch's end. */
#ifndef DDP_RUNTIME_DATA_H
#define DDP_RUNTIME_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/sampler.h"

struct data {
    sampler_t *sampler;
    uint64_t *ids;   /* [batch] samples of the present micro-step */
    size_t batch;
    int accum;
    uint64_t epoch;
    uint64_t cursor; /* entries of this epoch already handed out, per rank */
    int micro;       /* micro-steps done in the present step */
};

struct data_batch {
    const uint64_t *ids; /* borrowed until the next data_next */
    size_t n;
    uint64_t epoch;
    bool is_first, is_last; /* micro-step of its step */
};

/* Fills *d. Fails when batch * accum * size exceeds n_samples. */
int data_open(struct data *d, const struct sampler_config *cfg, size_t batch, int accum, ddp_error_t *errp);
void data_close(struct data *d); /* a zeroed struct is allowed */
struct data_batch data_next(struct data *d);

#endif
