#include "runtime/events.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/num.h"
#include "runtime/handle.h"
#include "runtime/record/line.h"
#include "runtime/record/program.h"

/* The line that was begun. */
static void end(ddp_t *d)
{
    ddp_error_t e;
    if (recorder_end(&d->events.file, &e) < 0)
        checkpoint_warn(&d->save, "%s", e.text);
}

/* ---- start ---- */

/* When this process began, in seconds since 1970: its 22nd number in /proc, clock ticks since the machine's start. */
static double process_began(void)
{
    char text[1024];
    unsigned long long ticks;
    FILE *f = fopen("/proc/self/stat", "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    char *p = strrchr(text, ')'); /* the program's name, 2nd, may have spaces */
    for (int i = 2; p && i < 22; i++)
        p = strchr(p + 1, ' ');
    struct timespec up;
    if (!p || sscanf(p, " %llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &up) < 0)
        return 0;
    double up_s = (double)up.tv_sec + (double)up.tv_nsec / 1e9;
    return recorder_now() - up_s + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static void put_ranks(struct recorder *r, const struct world *w)
{
    const char **node = calloc((size_t)w->n_nodes, sizeof *node);
    for (int k = 0; node && k < w->n_nodes; k++)
        node[k] = w->host[w->node_ranks[w->node_first[k]]];
    recorder_count(r, "ranks", (uint64_t)w->size);
    if (node)
        recorder_texts(r, "nodes", node, (size_t)w->n_nodes);
    recorder_counts(r, "node_of", w->node_of, (size_t)w->size);
    free(node);
}

static void start(ddp_t *d)
{
    struct recorder *r = &d->events.file;
    char program[PROGRAM_NAME_MAX + 1];
    program_own_name(program);
    recorder_begin(r, "start");
    recorder_count(r, "v", RECORD_VERSION);
    recorder_job(r);
    recorder_text(r, "program", program);
    recorder_text(r, "version", DDP_VERSION);
    recorder_count(r, "restart", (uint64_t)num_variable("DDP_RESTART", INT32_MAX));
    put_ranks(r, d->team.map);
    recorder_text(r, "device", d->device ? "cuda" : "cpu");
    recorder_time(r, "began_t", process_began());
    end(d);
}

void events_open(ddp_t *d)
{
    ddp_error_t e;
    const char *path = config_text(d->config.record);
    d->events = (struct events){.slow_rank = -1};
    if (d->team.me.rank != 0)
        return;
    if (config_text(d->config.prometheus))
        textfile_open(d, config_text(d->config.prometheus), process_began());
    if (!path)
        return;
    if (recorder_open(&d->events.file, path, &e) == 0)
        start(d);
    else
        checkpoint_warn(&d->save, "%s", e.text);
}

void events_begun(ddp_t *d)
{
    struct recorder *r = &d->events.file;
    recorder_begin(r, "train");
    recorder_count(r, "step", d->state.optimizer.n_steps);
    end(d);
}

void events_resumed(ddp_t *d, double took_s)
{
    const struct ddp_checkpoint_status *s = &d->save.checkpoint.status;
    struct recorder *r = &d->events.file;
    recorder_begin(r, "resume");
    recorder_count(r, "step", d->state.optimizer.n_steps);
    recorder_text(r, "from", s->path);
    recorder_number(r, "took_s", took_s);
    end(d);
}

/* ---- steps ---- */

/* A number of each rank's. */
static void put_each(ddp_t *d, const char *name, double (*f)(const struct pace_own *))
{
    size_t n = (size_t)d->team.me.size;
    double *x = d->pace.all ? malloc(n * sizeof *x) : NULL;
    for (size_t r = 0; x && r < n; r++)
        x[r] = f(&d->pace.all[r]);
    if (x)
        recorder_numbers(&d->events.file, name, x, n);
    free(x);
}

#define COMPUTED (1u << DDP_PART_DATA | 1u << DDP_PART_FORWARD | 1u << DDP_PART_BACKWARD)
static double compute_of(const struct pace_own *o)
{
    return o->part_s[DDP_PART_DATA] + o->part_s[DDP_PART_FORWARD] + o->part_s[DDP_PART_BACKWARD];
}

static double exposed_of(const struct pace_own *o)
{
    return o->part_s[DDP_PART_EXPOSED];
}

static double memory_of(const struct pace_own *o)
{
    return o->memory_bytes;
}

static double rate_of(const struct pace_own *o)
{
    return o->send_bps;
}

/* What the ranks have gathered. */
static void put_pace(ddp_t *d, bool has_steps)
{
    struct recorder *r = &d->events.file;
    const struct pace_interval *i = &d->pace.last;
    recorder_enter(r, "parts");
    for (int k = 0; k < DDP_PARTS; k++)
        recorder_number(r, record_part_name(k), d->parts.untold >> k & 1 ? NAN : i->part_s[k]);
    recorder_leave(r);
    recorder_number(r, "hidden_s", d->device || !has_steps ? NAN : i->hidden_s);
    if ((d->parts.untold & COMPUTED) == COMPUTED)
        recorder_text(r, "compute_s", NULL);
    else
        put_each(d, "compute_s", compute_of);
    put_each(d, "exposed_s", exposed_of);
    recorder_number(r, "baseline_s", i->baseline_s);
    recorder_number(r, "efficiency", i->efficiency);
    recorder_number(r, "barrier_s", i->barrier_s);
    put_each(d, "memory_bytes", memory_of);
    put_each(d, "send_bps", rate_of);
}

static bool is_asked_for(const struct events *v)
{
    return v->file.is_open || v->textfile.file.is_open;
}

static void interval(ddp_t *d)
{
    struct events *v = &d->events;
    struct recorder *r = &v->file;
    bool has_steps = d->phase != PHASE_STATE; /* else another framework's */
    double loss = has_steps ? v->loss_sum / (double)v->n_taken : NAN;
    recorder_begin(r, "interval");
    recorder_count(r, "step", v->last.step);
    recorder_count(r, "steps", v->n_taken);
    recorder_number(r, "wall_s", d->pace.last.wall_s);
    recorder_number(r, "loss", loss);
    recorder_number(r, "lr", has_steps ? v->last.lr : NAN);
    recorder_number(r, "grad_norm", has_steps ? v->last.grad_norm : NAN);
    recorder_number(r, "items", has_steps ? v->items : NAN);
    recorder_count(r, "skipped", v->n_skipped);
    put_pace(d, has_steps);
    end(d);
    textfile_interval(d, &(struct textfile_interval){.last = &v->last, .n_taken = v->n_taken, .loss = loss,
                                                     .n_skipped = v->n_skipped, .items = v->items,
                                                     .is_ours = has_steps});
    v->n_taken = v->n_skipped = 0;
    v->loss_sum = v->items = 0;
}

static void slow(ddp_t *d)
{
    struct recorder *r = &d->events.file;
    if (!d->pace.last.is_slow || d->pace.slow_rank == d->events.slow_rank)
        return;
    d->events.slow_rank = d->pace.slow_rank;
    recorder_begin(r, "slow");
    recorder_count(r, "step", d->events.last.step);
    recorder_count(r, "rank", (uint64_t)d->pace.slow_rank);
    recorder_text(r, "node", d->team.map->host[d->pace.slow_rank]);
    recorder_text(r, "of", d->pace.last.is_link ? "link" : "computing");
    recorder_number(r, "factor", d->pace.slow_factor);
    end(d);
}

void events_interval(ddp_t *d)
{
    if (!is_asked_for(&d->events))
        return;
    interval(d);
    slow(d);
}

void events_stop(ddp_t *d, const struct ddp_step *s)
{
    struct recorder *r = &d->events.file;
    if (!s->stop || d->events.has_stopped)
        return;
    d->events.has_stopped = true;
    recorder_begin(r, "stop");
    recorder_count(r, "step", s->step);
    recorder_text(r, "signal", stop_signal_name(s->stop_signal));
    end(d);
}

void events_step(ddp_t *d, const struct ddp_step *s, double items, bool is_interval)
{
    struct events *v = &d->events;
    if (!is_asked_for(v))
        return;
    v->last = *s;
    v->n_taken += !s->skipped;
    v->n_skipped += s->skipped && items > 0; /* else no rank had a gradient */
    v->loss_sum += s->skipped ? 0 : s->loss;
    v->items += items;
    if (is_interval)
        events_interval(d);
    events_stop(d, s);
    events_saved(d);
}

/* The last checkpoint of s, if the record does not have it. */
static void saved(ddp_t *d, const struct ddp_checkpoint_status *s)
{
    struct recorder *r = &d->events.file;
    if (s->n_committed > d->events.n_committed) {
        recorder_begin(r, "checkpoint");
        recorder_count(r, "step", s->last_step);
        recorder_text(r, "path", s->path);
        recorder_count(r, "bytes", s->bytes);
        recorder_number(r, "stood_still_s", s->blocked_s);
        recorder_number(r, "copied_s", s->copy_s);
        recorder_number(r, "written_s", s->write_s);
        end(d);
        textfile_checkpoint(d);
        d->events.n_committed = s->n_committed;
    }
}

void events_saved(ddp_t *d)
{
    const struct scheduler *w = &d->save.scheduler;
    struct events *v = &d->events;
    struct recorder *r = &v->file;
    saved(d, &d->save.checkpoint.before); /* one call may end a save, and then begin and end another */
    saved(d, &d->save.checkpoint.status);
    if (!w->is_requeued || v->has_requeued)
        return;
    v->has_requeued = true;
    recorder_begin(r, "requeue");
    recorder_text(r, "note", w->note);
    end(d);
}

/* ---- the end ---- */

void events_failed(ddp_t *d, const char *why)
{
    struct recorder *r = &d->events.file;
    int rank = -1;
    if (d->events.has_failed)
        return;
    d->events.has_failed = true;
    bool is_known = sscanf(why, "rank %d", &rank) == 1 && rank >= 0 && rank < d->team.me.size;
    recorder_begin(r, "failure");
    recorder_count(r, "step", d->state.optimizer.n_steps);
    recorder_text(r, "text", why);
    recorder_number(r, "rank", is_known ? rank : NAN);
    recorder_text(r, "node", is_known ? d->team.map->host[rank] : NULL);
    end(d);
}

/* Steps since the last interval, of which this rank knows its own numbers alone. */
static void last_interval(ddp_t *d)
{
    int n = d->team.me.size;
    struct pace_own *all = malloc((size_t)n * sizeof *all);
    if (!all)
        return;
    for (int r = 0; r < n; r++)
        for (size_t k = 0; k < PACE_OWN_N; k++)
            ((double *)&all[r])[k] = NAN;
    all[0] = pace_own(&d->pace, &d->parts, (double)d->state.reducer.hidden_ns / 1e9, NAN);
    pace_take(&d->pace, &d->team, all, false);
    interval(d);
}

FILE *events_close(ddp_t *d)
{
    struct events *v = &d->events;
    ddp_error_t why;
    if (!is_asked_for(v))
        return NULL;
    events_saved(d);
    if (v->n_taken + v->n_skipped > 0)
        last_interval(d);
    if (d->team.is_broken)
        events_failed(d, comm_why(d->team.comm, &why) ? why.text : "a call of libddp failed on rank 0");
    recorder_begin(&v->file, "end");
    recorder_count(&v->file, "step", d->state.optimizer.n_steps);
    recorder_text(&v->file, "how", d->team.is_broken ? "failed" : v->has_stopped ? "stopped" : "done");
    end(d);
    FILE *whole = d->team.is_broken ? NULL : recorder_close_to_read(&v->file);
    recorder_close(&v->file);
    textfile_close(d, v->has_failed);
    return whole;
}

/* ---- what only the program knows ---- */

EXPORT int ddp_record(ddp_t *d, const char *event, const char *members, ddp_error_t *errp)
{
    struct recorder *r = &d->events.file;
    if (handle_expect_rank(d, "ddp_record", errp) < 0)
        return -1;
    if (d->phase == PHASE_OPEN)
        return error_set(errp, DDP_E_USAGE, EINVAL, "rank %d: ddp_record: call ddp_commit or ddp_state_open first",
                         d->team.me.rank);
    if (!recorder_is_name(event))
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_record: an event's name is letters of a-z, digits and _, at "
                         "most 31");
    if (recorder_is_own(event))
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_record: %s is an event of libddp's own: choose another name",
                         event);
    recorder_begin(r, event);
    if (recorder_members(r, members, errp) < 0)
        return -1;
    end(d);
    return 0;
}
