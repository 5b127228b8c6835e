#include "runtime/base/budget.h"

#include <errno.h>

#include "runtime/base/cgroup.h"

int budget_check(const char *root, const struct budget_part *parts, size_t n_parts, int n_ranks, ddp_error_t *errp)
{
    unsigned long long wanted = 0, left = cgroup_memory_left(root), limit = cgroup_memory_limit(root);
    const struct budget_part *most = parts;
    for (size_t i = 0; i < n_parts; i++) {
        wanted += (unsigned long long)parts[i].n_bytes * (unsigned)n_ranks;
        most = parts[i].n_bytes > most->n_bytes ? &parts[i] : most;
    }
    if (wanted <= left)
        return 0;
    return error_set(errp, DDP_E_SYSTEM, ENOMEM,
                     "%d ranks on this node want %llu bytes of memory (%s: %zu each), but their control group allows "
                     "%llu and has %llu left: ask for more (--mem) or start fewer ranks per node",
                     n_ranks, wanted, most->name, most->n_bytes, limit, left);
}
