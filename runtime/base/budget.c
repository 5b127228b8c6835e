#include "runtime/base/budget.h"

#include <errno.h>
#include <stdio.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/meminfo.h"
#include "runtime/base/num.h"

int budget_check(const char *root, const struct budget_part *parts, size_t n_parts, int n_ranks, ddp_error_t *errp)
{
    unsigned long long wanted = 0, allowed = cgroup_memory_left(root), there = meminfo_left(root);
    const struct budget_part *most = parts;
    char why[160];
    for (size_t i = 0; i < n_parts; i++) {
        wanted += (unsigned long long)parts[i].n_bytes * (unsigned)n_ranks;
        most = parts[i].n_bytes > most->n_bytes ? &parts[i] : most;
    }
    if (wanted <= allowed && wanted <= there)
        return 0;
    if (wanted > allowed)
        snprintf(why, sizeof why, "their control group allows %llu and has %llu left: ask for more (--mem)",
                 (unsigned long long)cgroup_memory_limit(root), allowed);
    else
        snprintf(why, sizeof why, "it has %llu left: take one with more", there);
    return error_set(errp, DDP_E_SYSTEM, ENOMEM,
                     "%d rank%s on this node want%s %llu bytes of memory (%s: %zu each), but %s or start fewer ranks "
                     "per node", n_ranks, PLURAL(n_ranks), n_ranks == 1 ? "s" : "", wanted, most->name,
                     most->n_bytes, why);
}
