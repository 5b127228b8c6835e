/* checkpoint_retry.c - the last checkpoint of a run where no space is left for it: its result is there still, and
 * somebody may make room. */
#include <errno.h>
#include <math.h>
#include <poll.h>

#include "runtime/base/clock.h"
#include "runtime/base/duration.h"
#include "runtime/base/num.h"
#include "runtime/ckpt/folder.h"
#include "runtime/save/save.h"

#define LONGEST_S 30.0 /* between two tries, */
#define LOOK_S 1.0     /* in which the ranks look for a reason to end so often */

static bool lacks_space(const ddp_error_t *e)
{
    return e->domain == DDP_E_SYSTEM && (e->code == ENOSPC || e->code == EDQUOT);
}

void checkpoint_note_full(struct save *save, const char *dir, const ddp_error_t *why)
{
    struct checkpoint_full *f = &save->checkpoint.full;
    uint64_t step = save->state->optimizer.n_steps;
    if (!lacks_space(why))
        return;
    if (f->n_tries == 0 || f->step != step)
        *f = (struct checkpoint_full){.step = step, .until = deadline_in(save->team->timeout_s)};
    f->why = *why;
    folder_brief(dir, f->dir);
}

void checkpoint_unbreak(struct save *save)
{
    struct checkpoint_full *f = &save->checkpoint.full;
    if (f->has_broken)
        save->team->is_broken = false;
    f->has_broken = false;
}

/* It replaces what has been told already: that there is no space. */
static void warn(struct save *save)
{
    struct checkpoint *c = &save->checkpoint;
    char text[32];
    c->status.warning[0] = 0;
    checkpoint_warn(save, "no space is left in %s for the checkpoint of step %llu, the last, which is tried again for "
                    "%s (DDP_TIMEOUT), unless the job ends before: free some there, or end the job (scancel)",
                    c->full.dir, (unsigned long long)c->full.step,
                    duration_text(save->team->timeout_s, text, sizeof text));
}

static void give_up(struct save *save, const char *why)
{
    struct checkpoint_full *f = &save->checkpoint.full;
    f->why.code = 0;
    if (!f->n_tries)
        return; /* that there is no space is told */
    save->checkpoint.status.warning[0] = 0;
    checkpoint_warn(save, "tried again %d time%s%s: %s", f->n_tries, PLURAL(f->n_tries), why, f->why.text);
}

/* Of the ranks' wishes to stop: the job's time is nearly over, or somebody wants this run, which is done, to end. */
static const char *why_ended(struct save *save, const double *sum)
{
    if (sum[STOP_DEADLINE] > 0)
        return ", until the job's end";
    return !save->checkpoint.is_stopping && stop_agreed(&save->stop, sum) >= 0 ? ", until a signal" : NULL;
}

/* Until the next try. 1: it is time; 0: there is none, *ret_why says why. Collective. */
static int wait_for_next(struct save *save, const char **ret_why, ddp_error_t *errp)
{
    enum { LATE = STOP_N, GO, N };
    const struct checkpoint_full *f = &save->checkpoint.full;
    bool is_first = save->team->me.rank == 0, is_late = deadline_left_ns(f->until) == 0;
    uint64_t at = deadline_in(fmin(ldexp(1, f->n_tries), LONGEST_S));
    for (double sum[N];; poll(NULL, 0, (int)(1000 * fmin(LOOK_S, save->team->timeout_s / 4)))) {
        scheduler_fill_stop(save, sum);
        sum[LATE] = is_first && is_late;
        sum[GO] = is_first && (deadline_left_ns(at) == 0 || deadline_left_ns(f->until) == 0);
        if (comm_allreduce(save->team->comm, sum, N, DDP_F64, DDP_SUM, errp) < 0)
            return team_break(save->team);
        *ret_why = sum[LATE] > 0 ? "" : why_ended(save, sum);
        if (*ret_why)
            return 0;
        if (sum[GO] > 0)
            return 1;
    }
}

int checkpoint_retry(struct save *save, ddp_error_t *errp)
{
    struct checkpoint_full *f = &save->checkpoint.full;
    const char *why;
    if (!f->why.code || f->step != save->state->optimizer.n_steps)
        return 0;
    int rc = wait_for_next(save, &why, errp);
    if (rc == 0)
        give_up(save, why);
    if (rc == 1 && f->n_tries++ == 0)
        warn(save);
    return rc;
}
