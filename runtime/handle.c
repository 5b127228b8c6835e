/* handle.c - what every call of ddp.h asks of its handle: that it comes in time. */
#include <errno.h>

#include "runtime/handle.h"

int handle_expect_rank(const ddp_t *d, const char *call, ddp_error_t *errp)
{
    if (!comm_is_parents(d->team.comm))
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: in a forked child: the handle is its parent's, which "
                     "alone can use it", d->team.me.rank, call);
}

int handle_expect(const ddp_t *d, unsigned phases, const char *call, ddp_error_t *errp)
{
    static const char *const why[] = {
        [PHASE_OPEN] = "call ddp_commit first",
        [PHASE_COMMITTED] = "call ddp_data_open first (parameters and data are set up once, in that order)",
        [PHASE_IDLE] = "call ddp_batch_next first",
        [PHASE_MICRO] = "a micro-step is open: call ddp_backward_end first",
        [PHASE_SUMMED] = "gradients are summed: call ddp_step first",
        [PHASE_STATE] = "parameters and steps are another framework's, since ddp_state_open: only its calls go on",
    };
    if (handle_expect_rank(d, call, errp) < 0)
        return -1;
    if (d->team.is_broken)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: an earlier call failed on this handle: only "
                         "ddp_abort and ddp_finalize may follow", d->team.me.rank, call);
    if (phases & 1u << d->phase)
        return 0;
    if (phases == 1u << PHASE_OPEN)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: comes too late: parameters, options and hooks are "
                         "declared before ddp_commit, which comes once", d->team.me.rank, call);
    if (phases == 1u << PHASE_COMMITTED && d->phase > PHASE_COMMITTED && d->phase != PHASE_STATE)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: comes too late: the data are opened once, after "
                         "ddp_commit", d->team.me.rank, call);
    if (phases == 1u << PHASE_STATE)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: call ddp_state_open first, in place of ddp_commit",
                         d->team.me.rank, call);
    return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: %s: %s", d->team.me.rank, call, why[d->phase]);
}
