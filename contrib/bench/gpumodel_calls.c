/* gpumodel_calls.c - the calls of a step, and their times by events. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/bench/gpumodel.h"
#include "contrib/bench/gpureport.h"
#include "runtime/base/clock.h"

#define WAIT_S 60
#define STREAMS_MAX 8
#define ENTRIES_MAX 256
#define POINTS_MAX 65536

struct entry {
    struct call call;
    double *ms; /* [n], room for `room` */
    size_t n, room;
    bool is_left_out;
    char why[400]; /* it failed; "" */
    size_t count;  /* in a pass */
    struct stats stats;
    double limit_ms;
};

/* A call of this pass. */
struct point {
    struct entry *entry;
    device_event_t *from, *to;
};

static struct {
    enum calls_mode mode;
    device_t *device;
    void *program;
    struct {
        void *native;
        device_stream_t *stream;
    } stream[STREAMS_MAX];
    int n_streams;
    struct entry entry[ENTRIES_MAX];
    size_t n_entries;
    struct point point[POINTS_MAX]; /* [n_points] are this pass's, [n_events] have events */
    size_t n_points, n_events;
    const struct entry *broken;
} all;

void calls_set(enum calls_mode mode)
{
    all.mode = mode;
}

static bool is_watched(void)
{
    return all.mode == CALLS_TRIAL || all.mode == CALLS_TIMED;
}

void calls_open(device_t *device)
{
    all.device = device;
}

void calls_program(void *stream)
{
    all.program = stream;
}

void calls_close(void)
{
    for (size_t i = 0; i < all.n_events; i++) {
        device_event_destroy(all.point[i].from);
        device_event_destroy(all.point[i].to);
    }
    for (int i = 0; i < all.n_streams; i++)
        device_stream_destroy(all.stream[i].stream);
    for (size_t i = 0; i < all.n_entries; i++)
        free(all.entry[i].ms);
    memset(&all, 0, sizeof all);
}

/* Of this name, made where there is none; the last one takes what has no room. */
static struct entry *entry_of(const char *what)
{
    for (size_t i = 0; i < all.n_entries; i++)
        if (!strcmp(all.entry[i].call.what, what))
            return &all.entry[i];
    if (all.n_entries == ENTRIES_MAX)
        return &all.entry[ENTRIES_MAX - 1];
    struct entry *e = &all.entry[all.n_entries++];
    snprintf(e->call.what, sizeof e->call.what, "%s", what);
    return e;
}

void calls_leave_out(const char *what, const char *why)
{
    struct entry *e = entry_of(what);
    e->is_left_out = true;
    snprintf(e->why, sizeof e->why, "%s", why);
}

static void fail(struct entry *e, const char *why)
{
    if (!e->why[0])
        snprintf(e->why, sizeof e->why, "%s", why);
    if (device_is_broken(all.device) && !all.broken)
        all.broken = e;
}

const char *calls_broken(const char **ret_why)
{
    *ret_why = all.broken ? all.broken->why : NULL;
    return all.broken ? all.broken->call.what : NULL;
}

static device_stream_t *stream_of(void *native, ddp_error_t *errp)
{
    for (int i = 0; i < all.n_streams; i++)
        if (all.stream[i].native == native)
            return all.stream[i].stream;
    device_stream_t *s = NULL;
    if (all.n_streams < STREAMS_MAX)
        s = device_stream_borrow(all.device, native, errp);
    else
        error_set(errp, DDP_E_SYSTEM, ENOSPC, "a step has more than %d streams", STREAMS_MAX);
    if (!s)
        return NULL;
    all.stream[all.n_streams].native = native;
    all.stream[all.n_streams].stream = s;
    all.n_streams++;
    return s;
}

/* The pass's next, with events. */
static struct point *next_point(struct entry *e, ddp_error_t *errp)
{
    struct point *p = &all.point[all.n_points];
    if (all.n_points == POINTS_MAX) {
        error_set(errp, DDP_E_SYSTEM, ENOSPC, "a step has more than %d calls: take fewer --layers", POINTS_MAX);
        return NULL;
    }
    if (all.n_points == all.n_events) {
        device_event_t *from = device_event_create(all.device, true, errp);
        device_event_t *to = from ? device_event_create(all.device, true, errp) : NULL;
        if (!to) {
            device_event_destroy(from);
            return NULL;
        }
        *p = (struct point){.from = from, .to = to};
        all.n_events++;
    }
    p->entry = e;
    all.n_points++;
    return p;
}

bool calls_begin(const struct call *c)
{
    ddp_error_t why;
    if (all.mode == CALLS_BEFORE)
        return true;
    struct entry *e = entry_of(c->what);
    if (e->is_left_out || all.broken || !is_watched())
        return !e->is_left_out && !all.broken;
    device_stream_t *s = stream_of(c->stream, &why);
    struct point *p = s ? next_point(e, &why) : NULL;
    if (!p || device_event_record(p->from, s, &why) < 0) {
        all.n_points -= p != NULL;
        fail(e, why.text);
        return false;
    }
    e->call = *c;
    return true;
}

/* Behind the call: its second event, which the trial waits for; if the call has broken the GPU, that shows here. */
static int finish(const struct call *c, const struct point *p, ddp_error_t *errp)
{
    device_stream_t *s = stream_of(c->stream, errp);
    if (device_event_record(p->to, s, errp) < 0)
        return -1;
    return all.mode == CALLS_TRIAL ? device_event_wait(p->to, deadline_in(WAIT_S), NULL, NULL, errp) : 0;
}

int calls_end(const struct call *c, int code, const ddp_error_t *why)
{
    ddp_error_t of_call = {0}, behind = {0};
    if (!is_watched())
        return code;
    struct point *p = &all.point[all.n_points - 1];
    memcpy(p->entry->call.algorithm, c->algorithm, sizeof c->algorithm);
    if (code && !why)
        device_result(all.device, code, c->what, &of_call);
    bool failed = finish(c, p, &behind) < 0 || code;
    if (failed)
        fail(p->entry, !code ? behind.text : why ? why->text : of_call.text);
    if (failed || all.mode == CALLS_TRIAL)
        all.n_points--;
    return 0;
}

static int add(struct entry *e, double ms, ddp_error_t *errp)
{
    if (e->n == e->room) {
        size_t room = e->room ? 2 * e->room : 64;
        double *more = realloc(e->ms, room * sizeof *more);
        if (!more)
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu times", room);
        e->ms = more;
        e->room = room;
    }
    e->ms[e->n++] = ms;
    return 0;
}

int calls_collect(ddp_error_t *errp)
{
    uint64_t deadline = deadline_in(WAIT_S);
    for (size_t i = 0; i < all.n_points; i++) {
        const struct point *p = &all.point[i];
        double ms;
        if (device_event_wait(p->to, deadline, NULL, NULL, errp) < 0 ||
            device_event_ms(p->from, p->to, &ms, errp) < 0 || add(p->entry, ms, errp) < 0)
            return -1;
    }
    all.n_points = 0;
    return 0;
}

/* ---- the table ---- */

static double per_step(const struct entry *e, double ms)
{
    return (double)e->count * ms;
}

static bool is_beside(const struct entry *e)
{
    return e->call.stream != all.program;
}

static double lost_ms(const struct entry *e)
{
    return is_beside(e) ? 0 : per_step(e, e->stats.median - e->limit_ms);
}

static int by_lost(const void *a, const void *b)
{
    double x = lost_ms(*(struct entry *const *)a), y = lost_ms(*(struct entry *const *)b);
    return (x < y) - (x > y);
}

static void report_one(const struct entry *e, double all_ms)
{
    const struct call *c = &e->call;
    double s = e->stats.median * 1e-3;
    double share = all_ms > 0 && !is_beside(e) ? per_step(e, e->stats.median) / all_ms : 0;
    double gbps = s > 0 ? c->bytes / s * 1e-9 : 0, tflops = s > 0 ? c->flops / s * 1e-12 : 0;
    char note[300], members[500], rate[40];
    if (c->flops > 0)
        snprintf(rate, sizeof rate, "%.4g TFLOP/s", tflops);
    else
        snprintf(rate, sizeof rate, "%.4g GB/s", gbps);
    if (is_beside(e))
        snprintf(note, sizeof note, "x%zu, beside the step: it waits for room on the GPU, too", e->count);
    else
        snprintf(note, sizeof note, "x%zu = %.4g ms, %.1f%%, loses %.3g ms, %s%s%s", e->count,
                 per_step(e, e->stats.median), 100 * share, lost_ms(e), rate, c->algorithm[0] ? ", " : "",
                 c->algorithm);
    snprintf(members, sizeof members,
             ", \"count\": %zu, \"step_ms\": %.9g, \"share\": %.9g, \"lost_ms\": %.9g, \"bytes\": %.12g, "
             "\"flops\": %.12g, \"GB/s\": %.9g, \"TFLOP/s\": %.9g, \"beside\": %s, \"algorithm\": \"%s\"",
             e->count, per_step(e, e->stats.median), share, lost_ms(e), c->bytes, c->flops, gbps, tflops,
             is_beside(e) ? "true" : "false", c->algorithm);
    report_entry(&(struct report_entry){.what = c->what, .unit = "ms", .stats = e->stats, .limit = e->limit_ms,
                                        .ratio = e->stats.median > 0 ? e->limit_ms / e->stats.median : 0,
                                        .ratio_of = "of its limit", .note = note, .members = members});
}

/* The sums over a step, of what is not beside it. Returns its milliseconds. */
static double report_sum(struct entry *const *e, size_t n)
{
    struct stats s = {0};
    double limit = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_beside(e[i]))
            continue;
        s.median += per_step(e[i], e[i]->stats.median);
        s.q1 += per_step(e[i], e[i]->stats.q1);
        s.q3 += per_step(e[i], e[i]->stats.q3);
        limit += per_step(e[i], e[i]->limit_ms);
    }
    if (n > 0)
        report_entry(&(struct report_entry){.what = "all of them, in a step", .unit = "ms", .stats = s, .limit = limit,
                                            .ratio = s.median > 0 ? limit / s.median : 0, .ratio_of = "of its limit"});
    return s.median;
}

int calls_report(double bytes_per_s, double peak_flops, size_t n_passes)
{
    struct entry *timed[ENTRIES_MAX];
    size_t n = 0;
    int n_failed = 0;
    for (struct entry *e = all.entry; e < all.entry + all.n_entries; e++) {
        if (e->why[0] || e->n == 0)
            continue;
        double by_bytes = bytes_per_s > 0 ? e->call.bytes / bytes_per_s : 0;
        double by_flops = peak_flops > 0 ? e->call.flops / peak_flops : 0;
        e->limit_ms = 1e3 * (by_bytes > by_flops ? by_bytes : by_flops);
        e->stats = stats_of(e->ms, e->n);
        e->count = (e->n + n_passes - 1) / n_passes;
        timed[n++] = e;
    }
    qsort(timed, n, sizeof *timed, by_lost);
    double all_ms = report_sum(timed, n);
    for (size_t i = 0; i < n; i++)
        report_one(timed[i], all_ms);
    for (struct entry *e = all.entry; e < all.entry + all.n_entries; e++)
        if (e->why[0]) {
            report_failed(e->call.what, e->why);
            n_failed++;
        }
    return n_failed;
}
