/* ncclprobe.h - what the two files of ncclprobe share. */
#ifndef DDP_T_NCCLPROBE_H
#define DDP_T_NCCLPROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/comm/comm.h"
#include "runtime/nccl/nccl.h"

struct plan {
    double timeout_s;
    int n_ops, die_start, die_op, abort_op, leave_op, late, per_root;
    const char *log;
    bool share, again, ids_only;
};

struct probe {
    const struct plan *plan;
    struct world *w;
    comm_t *c;
    nccl_t *n[2];
    uint32_t ids;   /* a sum of their bytes */
    uint64_t since; /* when the step that may fail began */
};

/* Every operation, compared with what must come out. Meets the plan's trouble. */
int probe_operations(struct probe *x, nccl_t *n, ddp_error_t *errp);

/* nccl_device.sum of the probe. */
int probe_sum(void *ctx, void *out, const void *const *in, int n_in, size_t n_elems, enum ddp_dtype t, void *stream,
              ddp_error_t *errp);

#endif
