/* text.c - a run on a terminal, or runs side by side. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/base/num.h"
#include "runtime/cli/report/report.h"

#define BAR 40   /* columns of the longest bar */
#define MARKS 80 /* of the time line */

static const char mark[GOODPUT_CLASSES] = {'=', 'x', 'r', 'c', 'd', '-', 's', '.'};

/* A share of BAR columns, in eighths where they can be shown. */
static void put_bar(FILE *f, double share, bool is_wide)
{
    int eighths = isnan(share) ? 0 : (int)floor(share * BAR * 8 + 0.5);
    for (int i = 0; is_wide && i < eighths / 8; i++)
        fputs("\342\226\210", f);
    if (is_wide && eighths % 8) /* U+258F, an eighth, to U+2589, seven */
        fprintf(f, "\342\226%c", 0x90 - eighths % 8);
    for (int i = 0; !is_wide && i < (eighths + 4) / 8; i++)
        fputc('#', f);
    fputc('\n', f);
}

/* ---- one run ---- */

static void put_head(FILE *f, const struct report_run *r)
{
    const struct record_start *s = r->start;
    fprintf(f, "%s", *s->program ? s->program : r->name);
    if (*s->job)
        fprintf(f, ", job %s", s->job);
    fprintf(f, ": %s", r->how);
    if (s->n_nodes && s->n_nodes <= 8) {
        fprintf(f, "; on");
        for (int i = 0; i < s->n_nodes; i++)
            fprintf(f, " %s", s->node[i]);
    } else if (s->n_nodes) {
        fprintf(f, "; on %s to %s", s->node[0], s->node[s->n_nodes - 1]);
    }
    if (*s->version)
        fprintf(f, "; slurm-ddp %s", s->version);
    fprintf(f, "\n\n");
}

static void put_facts(FILE *f, const struct report_run *r)
{
    char text[REPORT_TEXT_MAX];
    for (int i = 2; i < REPORT_FACTS - 1; i++) /* the head has the first two, the goodput stands apart */
        if (*report_fact(r, i, text, sizeof text))
            fprintf(f, "  %-22s%s\n", report_fact_label[i], text);
}

static bool has_parts(const struct report_run *r)
{
    return r->wall_s > 0 && r->n_steps > 0;
}

static void put_parts(FILE *f, const struct report_run *r, bool is_wide)
{
    char took[32], share[32];
    if (!has_parts(r))
        return;
    fprintf(f, "\nwhere a step's time goes\n");
    for (int p = 0; p < RECORD_PARTS; p++) {
        if (!(r->parts_told >> p & 1))
            continue;
        fprintf(f, "  %-18s %12s %8s  ", record_part_name(p),
                duration_text(r->part_s[p] / (double)r->n_steps, took, sizeof took),
                report_percent(r->part_s[p] / r->wall_s, share, sizeof share));
        put_bar(f, fmin(r->part_s[p] / r->wall_s, 1), is_wide);
    }
}

static void put_goodput(FILE *f, const struct report_run *r, bool is_wide)
{
    const struct goodput *g = &r->goodput;
    char line[GOODPUT_TEXT_MAX], took[32], share[32];
    double all = g->to_t - g->from_t;
    fprintf(f, "\n%s: useful time, over all but the queue\n", goodput_text(g, 0, line));
    for (int c = 0; c < GOODPUT_CLASSES; c++) {
        if (!(g->class_s[c] > 0))
            continue;
        fprintf(f, "%c %-18s %12s %8s  ", mark[c], goodput_name[c], duration_text(g->class_s[c], took, sizeof took),
                report_percent(g->class_s[c] / all, share, sizeof share));
        put_bar(f, g->class_s[c] / all, is_wide);
    }
    fprintf(f, "  %-18s %12s\n", "sum", duration_text(all, took, sizeof took));
}

/* ---- the time line ---- */

static void put_line(FILE *f, const struct report_run *r, const struct report_event *event, size_t n)
{
    double from_t = r->goodput.from_t, span_s = r->goodput.to_t - from_t;
    char row[MARKS + 1] = "", below[MARKS + 1], from[32], to[32];
    enum goodput_class place[MARKS];
    if (!report_places(r, MARKS, place))
        return;
    memset(below, ' ', MARKS);
    below[MARKS] = 0;
    for (int i = 0; i < MARKS; i++)
        row[i] = mark[place[i]];
    for (size_t i = 0; i < n; i++)
        if (strstr("failure requeue stop", event[i].kind))
            below[report_place(r, MARKS, event[i].t)] = (char)(event[i].kind[0] - 'a' + 'A');
    size_t end = strlen(below);
    while (end > 0 && below[end - 1] == ' ')
        below[--end] = 0;
    fprintf(f, "\ntime line, %s to %s\n  %s\n", report_clock(from_t, span_s, from, sizeof from),
            report_clock(r->goodput.to_t, span_s, to, sizeof to), row);
    if (end)
        fprintf(f, "  %s\n  F: failure, R: requeue, S: stop\n", below);
}

static void put_events(FILE *f, const struct report_run *r, const struct report_event *event, size_t n, size_t left_out)
{
    char when[32], step[32] = "";
    double span_s = r->goodput.to_t - r->goodput.from_t;
    bool has_steps = r->record.has_steps;
    fprintf(f, "\n  %-14s %10s  %s\n", "when", has_steps ? "step" : "", "what");
    for (size_t i = 0; i < n; i++) {
        if (left_out && i == REPORT_EVENTS_MAX / 2)
            fprintf(f, "  ... %zu more\n", left_out);
        if (has_steps)
            snprintf(step, sizeof step, "%" PRIu64, event[i].step);
        fprintf(f, "  %-14s %10s  %-10s  %s\n", report_clock(event[i].t, span_s, when, sizeof when), step,
                event[i].kind, event[i].text);
    }
    if (r->record.n_cut)
        fprintf(f, "  %zu line%s had been cut\n", r->record.n_cut, PLURAL(r->record.n_cut));
}

void report_text(FILE *f, const struct report_run *r, bool is_wide)
{
    struct report_event event[REPORT_EVENTS_MAX];
    size_t left_out, n = report_events(r, event, &left_out);
    put_head(f, r);
    put_facts(f, r);
    put_parts(f, r, is_wide);
    put_goodput(f, r, is_wide);
    put_line(f, r, event, n);
    put_events(f, r, event, n, left_out);
}

/* ---- runs side by side ---- */

#define LABEL 21
#define COLUMN_LEAST 12

struct table {
    FILE *f;
    int n, width[REPORT_RUNS_MAX];
};

/* Columns of a plain text. */
static int columns(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void put_cell(const struct table *t, int i, const char *text)
{
    fprintf(t->f, "  %s%*s", text, i + 1 < t->n ? t->width[i] - columns(text) : 0, "");
}

static void measure(struct table *t, const struct report_run *runs)
{
    char text[REPORT_TEXT_MAX];
    for (int i = 0; i < t->n; i++) {
        t->width[i] = COLUMN_LEAST;
        for (int k = -1; k < REPORT_FACTS; k++) {
            int n = columns(k < 0 ? runs[i].name : report_fact(&runs[i], k, text, sizeof text));
            t->width[i] = n > t->width[i] ? n : t->width[i];
        }
    }
}

/* A row of each run's text; nothing where none has one. */
static void put_row(const struct table *t, const char *label, const char (*text)[REPORT_TEXT_MAX])
{
    bool is_there = false;
    for (int i = 0; i < t->n; i++)
        is_there |= *text[i] != 0;
    if (!is_there)
        return;
    fprintf(t->f, "%-*s", LABEL, label);
    for (int i = 0; i < t->n; i++)
        put_cell(t, i, *text[i] ? text[i] : "-");
    fputc('\n', t->f);
}

void report_columns(FILE *f, const struct report_run *runs, int n)
{
    struct table t = {.f = f, .n = n};
    char text[REPORT_RUNS_MAX][REPORT_TEXT_MAX], took[32], share[32];
    bool any_parts = false;
    measure(&t, runs);
    for (int i = 0; i < n; i++)
        snprintf(text[i], sizeof text[i], "%s", runs[i].name);
    put_row(&t, "", text);
    for (int k = 0; k < REPORT_FACTS; k++) {
        for (int i = 0; i < n; i++)
            report_fact(&runs[i], k, text[i], sizeof text[i]);
        put_row(&t, report_fact_label[k], text);
    }
    for (int i = 0; i < n; i++)
        any_parts |= has_parts(&runs[i]);
    if (any_parts)
        fprintf(f, "\nwhere a step's time goes\n");
    for (int p = 0; p < RECORD_PARTS; p++) {
        for (int i = 0; i < n; i++)
            if (has_parts(&runs[i]) && runs[i].parts_told >> p & 1)
                snprintf(text[i], sizeof text[i], "%6s %s",
                         report_percent(runs[i].part_s[p] / runs[i].wall_s, share, sizeof share),
                         duration_text(runs[i].part_s[p] / (double)runs[i].n_steps, took, sizeof took));
            else
                *text[i] = 0;
        put_row(&t, record_part_name(p), text);
    }
    fprintf(f, "\nwhat the time was worth\n");
    for (int c = 0; c < GOODPUT_CLASSES; c++) {
        for (int i = 0; i < n; i++) {
            double all = runs[i].goodput.to_t - runs[i].goodput.from_t, s = runs[i].goodput.class_s[c];
            *text[i] = 0;
            if (s > 0)
                snprintf(text[i], sizeof text[i], "%6s %s", report_percent(s / all, share, sizeof share),
                         duration_text(s, took, sizeof took));
        }
        put_row(&t, goodput_name[c], text);
    }
}
