/* budget.h - will the memory fit? Linux allocates a page when it is first touched, and kills a process that touches one
 * beyond its control group's limit, or when the machine has none left. So before memory is touched, its size is
 * compared with what is left. */
#ifndef DDP_RUNTIME_BASE_BUDGET_H
#define DDP_RUNTIME_BASE_BUDGET_H

#include <stddef.h>

#include "runtime/base/error.h"

struct budget_part {
    const char *name;
    size_t n_bytes; /* per rank */
};

/* 0: the parts of n_ranks ranks fit into the memory that this process's control groups have left (cgroup.h, which also
 * explains root) and the machine (meminfo.h); no rank may have touched its parts yet. Else -1; the error has the bytes
 * wanted and left, and the largest part. */
int budget_check(const char *root, const struct budget_part *parts, size_t n_parts, int n_ranks, ddp_error_t *errp);

#endif
