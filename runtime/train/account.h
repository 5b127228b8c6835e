/* account.h - what a run is told to have done: its global batch at the start, at the end where a step's time went and
 * how near to so many single ranks it came, and what the record (ddp_record) has of this program. */
#ifndef DDP_RUNTIME_TRAIN_ACCOUNT_H
#define DDP_RUNTIME_TRAIN_ACCOUNT_H

#include "runtime/ddp.h"
#include "runtime/train/job.h"

/* The event "train". peak_flops: FLOP/s that one rank's device can do; 0: not known. */
int account_begin(ddp_t *d, const struct job *j, double peak_flops, ddp_error_t *errp);

/* "global batch: 8 samples x 2 micro-steps x 4 ranks = 64 samples, 4096 tokens", to stdout. */
void account_say_batch(const ddp_t *d, const struct job *j);

/* Three lines to stdout, where they are known:
 *   a step's 12.3 ms: data 0.1%, forward 29.7%, backward 55.0%, exposed communication 8.2% (hidden 11.3%), ...
 *   a barrier takes 4.2 us, 99% of them at most 31 us (sampled)
 *   efficiency 92.3%, 3.69 times one rank: a step computes 10.9 ms where nothing travels beside it (passes whose
 *   buckets waited for backward's end) */
void account_say(const ddp_t *d, const struct job *j, const struct ddp_device *device);

#endif
