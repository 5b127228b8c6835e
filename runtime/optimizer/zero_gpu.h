/* zero_gpu.h - which rank owns which part of the optimizer's state on GPUs, where NCCL moves the data (zero=1;
 * zero_cpu.h is the same for processors). Pure.
 *
 * ncclReduceScatter and ncclAllGather take one share per rank, all of the same size, one after the other; and one rank
 * must own a block of the norm whole. So before anything is allocated, the layout is padded for both: a parameter
 * begins at a multiple of ZERO_GPU_UNIT elements, and a bucket's length is a multiple of n_ranks such units. A bucket
 * then takes one ncclReduceScatter and one ncclAllGather, whatever its parameters and the number of ranks, with no
 * remainder. The padding is zero and stays zero: less than a unit (16 KiB) for each parameter, and less than n_ranks
 * units for each bucket, in values and gradients; that is the price for the moments that are saved.
 *
 * Considered: the usual layout with an ncclReduce for each owner, which is as many calls as ranks; and equal shares
 * that cut blocks of the norm, whose halves would then have to be sent once more. */
#ifndef DDP_RUNTIME_OPTIMIZER_ZERO_GPU_H
#define DDP_RUNTIME_OPTIMIZER_ZERO_GPU_H

#include "kernels/optim.h"
#include "runtime/grads/bucket.h"
#include "runtime/grads/layout.h"
#include "runtime/optimizer/optimizer.h"

#define ZERO_GPU_UNIT NORM_BLOCK /* elements; a checkpoint's block, too */

/* Rank r owns elements [at + r n_each, at + (r + 1) n_each) of the arena. */
struct zero_gpu_bucket {
    size_t at, n_each;
    size_t first, end; /* this rank's slices of the optimizer */
};

struct zero_gpu {
    struct bucket_plan plan;      /* in reverse registration order, so that each bucket is one range of the arena */
    struct zero_gpu_bucket *bucket; /* [plan.n_buckets]; bucket 0 is the arena's end */
};

/* Plans l's buckets by the caps (bytes, as bucket_plan_by_size), changes the offsets of l's parameters accordingly, and
 * adds to o the slices that `rank` owns, bucket by bucket. l holds float32 only; o is open and owns nothing yet. -1
 * when memory runs out. */
int zero_gpu_open(struct zero_gpu *s, struct layout *l, size_t first_cap, size_t cap, int rank, int n_ranks,
                  struct optimizer *o, ddp_error_t *errp);
void zero_gpu_close(struct zero_gpu *s); /* a zeroed struct is allowed */

/* The smallest cap with which a bucket that reaches it is padded by less than an eighth to a multiple of n_ranks
 * units. */
size_t zero_gpu_cap(int n_ranks);

#endif
