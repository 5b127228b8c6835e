/* data.h - the position in the data: which samples the next micro-step takes. Pure.
 *
 * An epoch is a permutation of the samples; the position is how many of its entries are taken, over all ranks. So it
 * means the same on any number of ranks, and any of them may go on from it.
 *
 * A step takes the next G = batch x micro-steps x replicas entries, or what is left of the epoch, and nothing runs
 * across an epoch's end. Replicas are the ranks, each with `accum` micro-steps a step, or, with shards, V logical
 * shards, of which rank r of R owns rV/R .. (r+1)V/R - 1 and takes one a micro-step, in rising order; then which
 * samples a step has, and which of them lie together in a micro-step, depends on V alone.
 *
 * DATA_LEDGER (ledger.h): every sample of an epoch comes once. A step's L entries lie in C chunks, one a micro-step and
 * rank, one after the other: chunk m R + r for micro-step m of rank r, with shards chunk v for shard v. Chunk c ends,
 * and the next one begins, at entry L (c + 1) / C of the step, rounded down: `batch` each in a full step, and spread
 * evenly in the last one of an epoch, which may be short. That one has as many micro-steps as it would need with full
 * batches, ceil(L / (batch x R)), since passes without samples only cost time; but with shards always V/R, as the tree
 * of sums wants. A chunk may be empty then.
 *
 * DATA_DISTRIBUTED (sampler.h): replica v takes entries g + v, g + v + replicas, ... of a step that begins at g; where
 * the permutation ends, its head is taken again until all replicas have equally many, so an epoch's last samples
 * depend on the number of replicas. Its last micro-step may be shorter, and ends its step. */
#ifndef DDP_RUNTIME_DATA_DATA_H
#define DDP_RUNTIME_DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/data/ledger.h"
#include "runtime/data/sampler.h"

enum data_order { DATA_LEDGER, DATA_DISTRIBUTED };

struct data_config {
    uint64_t n_samples, seed;
    enum data_order order;
    int rank, n_ranks;
    size_t batch; /* samples per replica and micro-step */
    int accum;    /* micro-steps per step; 1 with shards */
    int n_shards; /* 0: none; else a power of two and a multiple of n_ranks, itself a power of two */
};

struct data_position {
    uint64_t epoch;
    uint64_t cursor; /* entries of this epoch that earlier steps took, over all ranks; below n_samples */
    int micro;       /* micro-steps done since */
};

struct data {
    struct data_config cfg;
    struct data_position at;
    struct ledger ledger; /* of at.epoch, */
    sampler_t *sampler;   /* or this; else NULL */
    uint64_t *ids;        /* [batch] samples of the present micro-step, */
    uint64_t *peeked;     /* [batch] and of the next */
};

struct data_batch {
    const uint64_t *ids; /* borrowed until the next data_next or data_peek, as it came from */
    size_t n;            /* at most batch; may be 0 */
    uint64_t epoch;
    int shard;              /* the replica's number */
    int micro;              /* 0, 1, ... in its step */
    bool is_first, is_last; /* micro-step of its step */
};

/* Fills *d, at the first epoch's beginning. Fails, with the cure, when a step takes more samples than there are, and on
 * numbers of shards, ranks and micro-steps that do not go together. */
int data_open(struct data *d, const struct data_config *cfg, ddp_error_t *errp);
void data_close(struct data *d); /* a zeroed struct is allowed */

/* The next micro-step, and the same without taking it. */
struct data_batch data_next(struct data *d);
struct data_batch data_peek(struct data *d);

/* Where the next data_next begins. The same on all ranks after the same number of data_next. */
struct data_position data_position(const struct data *d);

/* Goes on from a position of any number of ranks (micro > 0: of as many, with the same batch and micro-steps).
 * DDP_E_USAGE where there is no such position; *d then stays. */
int data_seek(struct data *d, const struct data_position *at, ddp_error_t *errp);

/* "ledger", "distributed", as the option is called. */
const char *data_order_name(enum data_order order);

/* This rank's shards (1 without shards). */
int data_shards_per_rank(const struct data_config *cfg);

#endif
