/* report.h - between the files of `ddp report`: a run's record, summed up, and what is said of it as text or a page. */
#ifndef DDP_RUNTIME_CLI_REPORT_REPORT_H
#define DDP_RUNTIME_CLI_REPORT_REPORT_H

#include <stdio.h>

#include "runtime/base/duration.h"
#include "runtime/record/goodput.h"

#define REPORT_RUNS_MAX 8 /* that are told apart on a page */
#define REPORT_TEXT_MAX 128

struct report_run {
    char path[REPORT_TEXT_MAX], name[REPORT_TEXT_MAX]; /* plain; name: without folder and .jsonl */
    struct record record;
    struct goodput goodput;
    const struct record_start *start;  /* the last one */
    const struct record_train *train;  /* the last one; NULL: none */
    const char *how;                   /* "done", "stopped", "failed", "running" */
    uint64_t n_steps, n_skipped;       /* steps that were done, those that were done again twice */
    uint64_t least_step, most_step;    /* of the intervals, where they begin and end; least > most: there are none */
    double wall_s, part_s[RECORD_PARTS], items; /* of all intervals */
    unsigned parts_told;                        /* in any of them: 1 << part */
    double hidden_s;                            /* likewise; NAN: not known */
    double first_loss, last_loss, best_validation;         /* NAN: none */
    uint64_t best_step;
    double efficiency, baseline_s; /* means; NAN: not known */
    double flops, mfu;             /* a second, of all ranks; of their peak; NAN: not known */
    double barrier_p50_s, barrier_p99_s; /* of the intervals'; NAN: not known */
    double memory_bytes;           /* of the rank with most; NAN: not known */
    int slowest;                   /* rank; -1: not known */
    double slowest_factor;         /* its computing, over the median rank's */
    size_t n_restarts, n_requeues, n_failures, n_checkpoints;
};

/* 0, and the caller calls report_run_clear; or -1 as record_read. */
int report_run_read(const char *path, struct report_run *ret, ddp_error_t *errp);
void report_run_clear(struct report_run *r);

/* ---- facts: a line of text each, alike for every run ---- */

#define REPORT_FACTS 24
extern const char *const report_fact_label[REPORT_FACTS];
/* "" where it is not known. Returns buf. */
const char *report_fact(const struct report_run *r, int fact, char *buf, size_t size);

/* ---- events, for people ---- */

#define REPORT_EVENTS_MAX 64

struct report_event {
    const char *kind; /* "start", "failure", ... */
    double t;
    uint64_t step;
    char text[2 * REPORT_TEXT_MAX];
};

/* Starts, failures, stops, requeues, ends, and of slow ranks the first time of each; checkpoints are one event, the
 * last. In order. Returns how many; *ret_left_out: how many more there are, in the middle. */
size_t report_events(const struct report_run *r, struct report_event ret[REPORT_EVENTS_MAX], size_t *ret_left_out);

/* ---- its time, in n places of equal length ---- */

/* What each place was spent on most. False: memory is short. */
bool report_places(const struct report_run *r, int n, enum goodput_class *ret);
int report_place(const struct report_run *r, int n, double t); /* 0 to n - 1 */

/* ---- the run as text, or runs side by side; is_wide: blocks of UTF-8 may be printed ---- */

void report_text(FILE *f, const struct report_run *r, bool is_wide);
void report_columns(FILE *f, const struct report_run *runs, int n);

/* ---- runs as a page ---- */

void report_page(FILE *f, const struct report_run *runs, int n);
extern const char report_style[];
/* Text as HTML's, in which nothing is markup. */
void report_escape(FILE *f, const char *text);
/* What stands on the axis of steps, and what on that of time. */
void report_charts(FILE *f, const struct report_run *runs, int n);
/* A row of letters above a picture: F, S and R, those of one place together. */
struct report_lane {
    FILE *f;
    double at; /* of the last one */
    bool is_open;
};
bool report_is_marked(const struct report_event *e); /* it has a letter */
/* share: its place, 0 to 1; run: whose colour it has, -1: its own. */
void report_lane_put(struct report_lane *l, const struct report_event *e, double share, int run);
void report_lane_end(struct report_lane *l);
/* The axis of steps, below a picture. */
void report_steps(FILE *f, uint64_t least, uint64_t most);
void report_heat(FILE *f, const struct report_run *r, uint64_t least, uint64_t most);
void report_strips(FILE *f, const struct report_run *runs, int n);

/* ---- numbers and times for people; each returns buf ---- */

const char *report_si(double x, const char *unit, char *buf, size_t size); /* "81.2 k tokens/s", "4.19 TFLOP/s" */
const char *report_percent(double share, char *buf, size_t size);         /* "41.2 %" */
const char *report_number(double x, char *buf, size_t size);              /* four digits, as short as that goes */
const char *report_date(double t, char *buf, size_t size);                /* "2026-11-23 08:00:00", local */
const char *report_clock(double t, double span_s, char *buf, size_t size); /* the same, as short as the span allows */
double report_tick(double span, int n); /* 1, 2 or 5 times a power of ten, so that at most n fit into span */

#endif
