/* handle.c - what every call of ddp.h asks of its handle: the phase, and that all ranks are set up alike. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/handle.h"

int handle_expect(const ddp_t *d, unsigned phases, const char *call, ddp_error_t *errp)
{
    static const char *const why[] = {
        [PHASE_OPEN] = "call ddp_commit first",
        [PHASE_COMMITTED] = "call ddp_data_open first (parameters and data are set up once, in that order)",
        [PHASE_IDLE] = "call ddp_batch_next first",
        [PHASE_MICRO] = "a micro-step is open: call ddp_backward_end first",
        [PHASE_SUMMED] = "gradients are summed: call ddp_step first",
    };
    if (d->team.is_broken)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: an earlier call failed on this handle: only "
                         "ddp_abort and ddp_finalize may follow", d->team.me.rank, call);
    if (phases & 1u << d->phase)
        return 0;
    if (phases == 1u << PHASE_OPEN)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: comes too late: parameters, options and hooks are "
                         "declared before ddp_commit, which comes once", d->team.me.rank, call);
    return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: %s", d->team.me.rank, call, why[d->phase]);
}

int handle_compare(ddp_t *d, ddp_error_t *errp)
{
    char optimizer[512];
    char *settings = config_shared_text(&d->config, d->hook.encode ? dtype_name(d->hook.wire) : "none");
    char *layout = layout_text(&d->layout);
    int rc = settings && layout ? 0 : team_no_memory(&d->team, "the layout", errp);
    optimizer_text(&d->optimizer, optimizer, sizeof optimizer);
    if (rc == 0 && (team_same(&d->team, settings, config_explain, errp) < 0 ||
                    team_same(&d->team, layout, layout_explain, errp) < 0 ||
                    team_same(&d->team, optimizer, config_explain, errp) < 0))
        rc = -1;
    free(settings);
    free(layout);
    return rc;
}
