/* pattern.h - data whose all-reduce is known exactly: small integers that differ between ranks and repeat with a
 * prime period, so that a shifted, missing or doubled piece shows. Pure. */
#ifndef DDP_RUNTIME_BENCH_PATTERN_H
#define DDP_RUNTIME_BENCH_PATTERN_H

#include <stddef.h>

#include "runtime/base/dtype.h"

#define PATTERN_PERIOD 251

struct pattern {
    size_t elem_bytes;
    unsigned char in[PATTERN_PERIOD * 8], want[PATTERN_PERIOD * 8];
};

/* Computes what `rank` of `size` puts in, and what every rank must get. */
void pattern_init(struct pattern *p, int rank, int size, enum ddp_dtype dtype, enum ddp_op op);

void pattern_fill(const struct pattern *p, void *data, size_t n_elems);

/* The number of elements in data[0..n_elems) that are wrong. */
size_t pattern_count_wrong(const struct pattern *p, const void *data, size_t n_elems);

#endif
