/* data.h - the position in the data: which samples the next micro-step takes. Pure.
 *
 * The samples of a step belong to replicas (sampler.h), each with a number of its own. Without shards the replicas are
 * the ranks: micro-step after micro-step a rank goes on through its entries, `accum` of them a step. With shards the
 * replicas are V logical shards, of which rank r of R owns rV/R .. (r+1)V/R - 1: a step has V/R micro-steps per rank,
 * one a shard, in rising order, and every shard takes the same entries of its own. So which samples a step has, and
 * which of them lie together in a micro-step, depends on V alone.
 *
 * An epoch gives every replica the same number of entries, the first ones again where samples run out. Its last
 * micro-step (with shards: all of its last step) may be shorter than the others, and ends its step even when fewer than
 * `accum` micro-steps were taken. Nothing runs across an epoch's end, and nothing is left over. */
#ifndef DDP_RUNTIME_DATA_H
#define DDP_RUNTIME_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/sampler.h"

struct data_config {
    uint64_t n_samples, seed;
    int rank, n_ranks;
    size_t batch; /* samples per replica and micro-step */
    int accum;    /* micro-steps per step; 1 with shards */
    int n_shards; /* 0: none; else a power of two and a multiple of n_ranks, itself a power of two */
};

struct data {
    struct data_config cfg;
    sampler_t *sampler;
    uint64_t *ids;   /* [batch] samples of the present micro-step */
    uint64_t epoch;
    uint64_t cursor; /* entries of this epoch already handed out, per replica */
    int micro;       /* micro-steps done in the present step */
};

struct data_batch {
    const uint64_t *ids; /* borrowed until the next data_next */
    size_t n;
    uint64_t epoch;
    int shard;               /* the replica's number */
    int micro;               /* 0, 1, ... in its step */
    bool is_first, is_last;  /* micro-step of its step */
};

/* Fills *d. Fails, with the cure, when a step takes more samples than there are, and on numbers of shards, ranks and
 * micro-steps that do not go together. */
int data_open(struct data *d, const struct data_config *cfg, ddp_error_t *errp);
void data_close(struct data *d); /* a zeroed struct is allowed */
struct data_batch data_next(struct data *d);

/* Replicas, and this rank's shards (1 without shards). */
int data_n_replicas(const struct data_config *cfg);
int data_shards_per_rank(const struct data_config *cfg);

#endif
