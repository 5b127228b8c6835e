/* namespace.h - how Slurm names a step for its PMIx: PMIX_NAMESPACE is NAMESPACE_SLURM "JOB.STEP". mpirun's begin
 * otherwise. */
#ifndef DDP_BASE_NAMESPACE_H
#define DDP_BASE_NAMESPACE_H

#include <stdbool.h>

#include "runtime/base/begins.h"

#define NAMESPACE_SLURM "slurm.pmix."

static inline bool namespace_is_slurms(const char *name)
{
    return begins(name, NAMESPACE_SLURM);
}

#endif
