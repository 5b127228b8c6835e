/* How a rank waits for NCCL, and how it stops to.
 *
 * NCCL does not say which rank it waits for. So at the deadline every rank that waits says so to the watch, and a rank
 * that does not is the late one; where all of them wait nothing moves, and the error says that (WATCH_STUCK). */
#include <config.h> /* sched_yield, clock_nanosleep */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/base/call.h"
#include "runtime/base/clock.h"
#include "runtime/nccl/impl.h"

enum { YIELDS = 200, NAP_US = 20, NAP_MAX_US = 100 };
#define ABORT_S 10.0 /* for ncclCommAbort, which joins NCCL's threads */

/* Short waits are for a thread of NCCL's to put work on a stream, long ones for steps to end: a nap too long leaves the
 * GPU without work until the host asks again. */
static void pause_a_little(nccl_t *n, unsigned *turn)
{
    comm_progress(n->comm); /* the host communicator's works go on meanwhile */
    if (++*turn < YIELDS) {
        sched_yield();
        return;
    }
    unsigned us = NAP_US * (1 + (*turn - YIELDS) / 16);
    struct timespec t = {.tv_nsec = 1000l * (us < NAP_MAX_US ? us : NAP_MAX_US)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static double grace_s(const nccl_t *n)
{
    return n->cfg.timeout_s < 4 ? n->cfg.timeout_s / 4 : 1;
}

static int first_left(const nccl_t *n)
{
    for (int r = 0; r < n->world->size; r++)
        if (watch_has_left(n->watch, r))
            return r;
    return -1;
}

/* A rank that has left had ended its own part before, so what it owes is on its way; but not for long. */
static void look_for_left(nccl_t *n, uint64_t *deadline, enum watch_what what)
{
    int rank = first_left(n);
    if (rank < 0)
        return;
    if (*deadline == 0)
        *deadline = deadline_in(grace_s(n));
    else if (deadline_left_ns(*deadline) == 0)
        watch_raise(n->watch, WATCH_LEFT, rank, n->world->rank, what);
}

/* 1: over; 0: not yet; -1: failed, *ret_code NCCL's reason or 0. */
static int look(nccl_t *n, nccl_done_f *done, void *ctx, int *ret_code, ddp_error_t *errp)
{
    int code = n->lib->state(n->handle);
    *ret_code = 0;
    if (code == NCCL_IN_PROGRESS)
        return 0;
    if (code == NCCL_OK)
        return done ? done(ctx, errp) : 1;
    *ret_code = code;
    return -1;
}

int nccl_await(nccl_t *n, enum watch_what what, nccl_done_f *done, void *ctx, ddp_error_t *errp)
{
    uint64_t deadline = deadline_in(n->cfg.timeout_s), left_deadline = 0;
    unsigned turn = 0;
    int code, rc;
    while ((rc = look(n, done, ctx, &code, errp)) == 0) {
        if (watch_is_broken(n->watch))
            return nccl_break(n, 0, what, errp);
        if (turn >= YIELDS) {
            look_for_left(n, &left_deadline, what);
            watch_waits_for(n->watch, WATCH_ANYONE);
            if (deadline_left_ns(deadline) == 0)
                watch_is_late(n->watch, WATCH_ANYONE, deadline, n->cfg.timeout_s, what); /* its cause ends the loop */
        }
        pause_a_little(n, &turn);
    }
    watch_waits_for(n->watch, -1);
    return rc < 0 ? nccl_break(n, code, what, errp) : 0;
}

/* A rank's death shows in NCCL's errors too, sometimes before the watch has heard of it. */
static void wait_for_cause(nccl_t *n)
{
    uint64_t until = deadline_in(grace_s(n));
    unsigned turn = 0;
    while (n->world->size > 1 && !watch_is_broken(n->watch) && deadline_left_ns(until) > 0)
        pause_a_little(n, &turn);
}

int nccl_break(nccl_t *n, int code, enum watch_what what, ddp_error_t *errp)
{
    ddp_error_t why = {0};
    if (code != 0) {
        nccl_error(n, code, what, &why);
        if (code != NCCL_INVALID_ARGUMENT && code != NCCL_INVALID_USAGE)
            wait_for_cause(n);
    }
    watch_waits_for(n->watch, -1);
    if (watch_is_broken(n->watch)) {
        watch_error(n->watch, errp);
    } else {
        comm_abort(n->comm, code != 0 ? why.text : errp ? errp->text : "its device failed");
        if (code != 0) {
            char who[96];
            error_set(errp, why.domain, why.code, "%s: %s", world_rank_name(n->world, n->world->rank, who, sizeof who),
                      why.text);
        }
    }
    n->life = NCCL_BROKEN;
    nccl_drop(n);
    return -1;
}

/* ---- calls that may wait inside ---- */

struct request {
    struct nccl_device device;
    int (*call)(void *comm);
    void *comm;
    int code;
};

static void make(void *state)
{
    struct request *r = state;
    if (r->device.enter) /* first in a thread of ours */
        r->device.enter(r->device.ctx);
    r->code = r->call(r->comm);
}

static void drop_nothing(void *state)
{
    (void)state;
}

int nccl_call(nccl_t *n, int (*call)(void *comm))
{
    double s = n->cfg.timeout_s < ABORT_S ? n->cfg.timeout_s : ABORT_S;
    struct request *r = malloc(sizeof *r);
    int rc = -1, code = -1;
    if (r) {
        *r = (struct request){.device = n->cfg.device, .call = call, .comm = n->handle, .code = -1};
        rc = call_within(make, drop_nothing, r, deadline_in(s), NULL);
    }
    if (rc != 1) {
        code = rc == 0 ? r->code : -1;
        free(r);
    }
    n->is_stuck = n->is_stuck || rc != 0;
    return code;
}

void nccl_drop(nccl_t *n)
{
    if (n->handle && !n->is_stuck)
        nccl_call(n, n->lib->abort);
    n->handle = NULL;
}
