/* barenccl.h - NCCL as a program that knows nothing of libddp would use it: a blocking communicator, opened at run
 * time, for all-reduces of float32 beside ours. One at a time. Functions that return int give 0, or -1 with *errp
 * filled. */
#ifndef DDP_CONTRIB_BENCH_BARENCCL_H
#define DDP_CONTRIB_BENCH_BARENCCL_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

struct bare_id {
    char bytes[128];
};

int bare_open(ddp_error_t *errp); /* libnccl.so.2 */
int bare_make_id(struct bare_id *ret, ddp_error_t *errp);

/* Collective; with the device current. */
int bare_init(int size, int rank, const struct bare_id *id, ddp_error_t *errp);

/* data[0..n), device memory, in place, on a cudaStream_t. */
int bare_allreduce(float *data, size_t n, void *stream, ddp_error_t *errp);

/* Is the work of all operations done? Only a double of NCCL can say; with NCCL itself it is the stream that says it. */
bool bare_is_over(void);

void bare_close(void);

#endif
