/* goodput.c - what the run's time was worth, from its own record: for the program, and in the job's comment. */
#include <errno.h>
#include <math.h>
#include <sys/stat.h>

#include "runtime/base/clock.h"
#include "runtime/foreign.h"
#include "runtime/handle.h"
#include "runtime/record/goodput.h"
#include "runtime/sched/comment.h"
#include "runtime/sched/slurm.h"

#define READ_MAX_BYTES (256l << 20) /* which take some seconds */

static int read_goodput(FILE *f, const char *path, struct goodput *ret, ddp_error_t *errp)
{
    struct record r;
    struct stat st;
    if (fstat(fileno(f), &st) == 0 && st.st_size > READ_MAX_BYTES)
        return error_set(errp, DDP_E_DATA, EFBIG, "%.120s is longer than %ld MiB: \"ddp report\" says the goodput",
                         path, READ_MAX_BYTES >> 20);
    if (record_read_stream(f, path, &r, errp) < 0)
        return -1;
    *ret = goodput_of(&r, NULL, NULL);
    bool has_steps = r.n_intervals > 0;
    record_clear(&r);
    return has_steps ? 0 : error_set(errp, DDP_E_DATA, ENODATA, "no steps");
}

/* A container often has no scontrol, which is nothing to talk about. */
static void comment(ddp_t *d, const struct goodput *g)
{
    char id[SLURM_ID_MAX + 1], text[GOODPUT_TEXT_MAX];
    double patience_s = fmin(COMMENT_PATIENCE_S, d->team.timeout_s / 4);
    ddp_error_t e;
    if (slurm_job_id(id) && comment_set(id, goodput_text(g, GOODPUT_COST, text), deadline_in(patience_s), &e) < 0 &&
        e.code != ENOENT)
        checkpoint_warn(&d->save, "the goodput is not in the job's comment: %s", e.text);
}

void goodput_close(ddp_t *d)
{
    struct goodput g;
    ddp_error_t e;
    FILE *record = events_close(d);
    if (!record)
        return;
    int rc = read_goodput(record, config_text(d->config.record), &g, &e);
    fclose(record);
    if (rc == 0) {
        goodput_text(&g, GOODPUT_ALL, d->events.goodput);
        comment(d, &g);
    } else if (e.code != ENODATA) {
        checkpoint_warn(&d->save, "the goodput is not known: %s", e.text);
    }
}

EXPORT int ddp_goodput(ddp_t *d, const char **ret_line, ddp_error_t *errp)
{
    char is_over = 1;
    if (handle_expect(d, 1u << PHASE_COMMITTED | 1u << PHASE_IDLE | 1u << PHASE_STATE, "ddp_goodput", errp) < 0)
        return -1;
    if (foreign_end_interval(d, errp) < 0)
        return -1;
    goodput_close(d);
    if (comm_bcast(d->team.comm, &is_over, sizeof is_over, 0, errp) < 0) /* nobody leaves before rank 0 is through */
        return team_break(&d->team);
    *ret_line = d->events.goodput[0] ? d->events.goodput : NULL;
    return 0;
}
