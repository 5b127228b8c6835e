#include "runtime/distrust.h"

#include "runtime/handle.h"

#define NO_STEP UINT64_MAX /* the ranks could not say up to which they agreed: nothing is set aside */

static int end_training(ddp_t *d, uint64_t agreed, ddp_error_t *errp)
{
    ddp_error_t why = *errp;
    int n = checkpoint_distrust(&d->save, agreed);
    if (!d->team.is_broken)
        comm_barrier(d->team.comm, NULL);
    if (n != 0)
        error_set(errp, why.domain, why.code, "%.200s; later checkpoints%s", why.text,
                  n > 0 ? ": suspect-step-*" : " cannot be set aside");
    return team_break(&d->team);
}

int distrust_step(ddp_t *d, const double *tail, ddp_error_t *errp)
{
    uint64_t agreed = NO_STEP;
    if (verify_check(&d->verify, &d->state, &d->team, tail, &agreed, errp) == 0)
        return 0;
    return end_training(d, agreed, errp);
}

int distrust_all(ddp_t *d, ddp_error_t *errp)
{
    uint64_t agreed = NO_STEP;
    if (verify_all(&d->verify, &d->state, &d->team, &agreed, errp) == 0)
        return 0;
    return end_training(d, agreed, errp);
}
