/* budget.h - will it fit? Pages come into being when they are touched, and beyond a control group's limit the kernel
 * kills whoever touches one; so what is about to be touched is compared with what is left, before. */
#ifndef DDP_RUNTIME_BASE_BUDGET_H
#define DDP_RUNTIME_BASE_BUDGET_H

#include <stddef.h>

#include "runtime/base/error.h"

struct budget_part {
    const char *name;
    size_t n_bytes; /* per rank */
};

/* 0: the parts of n_ranks ranks fit into what this process's control groups have left (runtime/base/cgroup.h, also for
 * root; no rank may have touched its parts yet). Else -1, with the bytes wanted and allowed, and the greatest part. */
int budget_check(const char *root, const struct budget_part *parts, size_t n_parts, int n_ranks, ddp_error_t *errp);

#endif
