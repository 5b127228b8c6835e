/* data.h - the position in the data: which samples the next micro-step takes. Pure.
 *
 * An epoch is a permutation of the samples; the position is how many of its entries have been taken, over all ranks. So
 * a position means the same on any number of ranks, and training can continue from it on any number of ranks.
 *
 * A step takes the next G = batch x micro-steps x replicas entries, or what is left of the epoch; no step crosses an
 * epoch's end. Without shards the replicas are the ranks, each with `accum` micro-steps a step. With shards the
 * replicas are V logical shards: rank r of R owns shards rV/R .. (r+1)V/R - 1 and takes one of them in each micro-step,
 * in rising order; which samples a step has, and which of them are together in a micro-step, then depends on V alone.
 *
 * DATA_LEDGER (ledger.h): every sample comes once in an epoch. A step's L entries are cut into C consecutive chunks,
 * one for each micro-step of each rank: chunk m R + r is micro-step m of rank r; with shards, chunk v is shard v. Chunk
 * c ends before entry L (c + 1) / C of the step, rounded down. So a chunk has `batch` entries in a full step, and the
 * entries are spread evenly in an epoch's last step, which may be short. The short step has only as many micro-steps as
 * it needs with full batches, ceil(L / (batch x R)), since passes without samples only cost time; with shards it always
 * has V/R, which the tree of sums needs, and a chunk may be empty.
 *
 * DATA_DISTRIBUTED (sampler.h): replica v takes entries g + v, g + v + replicas, ... of a step that begins at g. After
 * the permutation's end its first entries are taken again until all replicas have the same number, so an epoch's last
 * samples depend on the number of replicas. An epoch's last micro-step may be shorter, and ends its step. */
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
    const uint64_t *ids; /* borrowed until the next call of the function that returned it, data_next or data_peek */
    size_t n;            /* at most batch; may be 0 */
    uint64_t epoch;
    int shard;              /* the replica's number */
    int micro;              /* 0, 1, ... in its step */
    bool is_first, is_last; /* micro-step of its step */
};

/* Opens *d at the beginning of the first epoch. -1 with an error that names the cure if a step takes more samples than
 * there are, or if the numbers of shards, ranks and micro-steps do not fit together. */
int data_open(struct data *d, const struct data_config *cfg, ddp_error_t *errp);
void data_close(struct data *d); /* a zeroed struct is allowed */

/* The next micro-step, and the same without taking it. */
struct data_batch data_next(struct data *d);
struct data_batch data_peek(struct data *d);

/* Where the next data_next begins. The same on all ranks after the same number of data_next. */
struct data_position data_position(const struct data *d);

/* Continues from a position, which may come from any number of ranks (with micro > 0: from the same number of ranks,
 * with the same batch and micro-steps). -1 with DDP_E_USAGE if there is no such position; *d is then unchanged. */
int data_seek(struct data *d, const struct data_position *at, ddp_error_t *errp);

/* "ledger", "distributed", as the option is called. */
const char *data_order_name(enum data_order order);

/* This rank's shards (1 without shards). */
int data_shards_per_rank(const struct data_config *cfg);

#endif
