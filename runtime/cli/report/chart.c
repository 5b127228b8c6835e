/* chart.c - lines over the steps of runs. */
#include <inttypes.h>
#include <math.h>

#include "runtime/cli/report/chart.h"

#define POINTS 500       /* places along the axis: more would not be told apart */
#define POINTS_MAX 6000  /* of one line, which many restarts begin anew */

static double loss_of(const struct record_interval *v)
{
    return v->loss;
}

static double lr_of(const struct record_interval *v)
{
    return v->lr;
}

static double rate_of(const struct record_interval *v)
{
    return v->wall_s > 0 && v->items ? (double)v->items / v->wall_s : NAN;
}

static double efficiency_of(const struct record_interval *v)
{
    return 100 * v->efficiency;
}

/* ---- values ---- */

static void widen(struct chart *c, double v)
{
    if (!chart_is_drawn(c, v))
        return;
    c->low = fmin(c->low, v);
    c->high = fmax(c->high, v);
}

/* The values' range, a little wider; from 0 where from_zero. false: there are none. */
static bool measure(struct chart *c, bool from_zero, bool may_be_log)
{
    c->is_log = false;
    c->low = INFINITY;
    c->high = -INFINITY;
    for (int i = 0; i < c->n; i++) {
        const struct record *r = &c->runs[i].record;
        for (size_t k = 0; k < r->n_intervals; k++)
            widen(c, c->value(&r->interval[k]));
        for (size_t k = 0; c->has_validation && k < r->n_others; k++)
            widen(c, r->other[k].loss);
    }
    if (!(c->low <= c->high))
        return false;
    c->is_log = may_be_log && c->low > 0 && c->high / c->low >= 4 && isfinite(c->high / c->low);
    double room = c->high > c->low ? (c->high - c->low) * 0.05 : fmax(fabs(c->high) * 0.05, 1e-9);
    c->low = from_zero ? 0 : c->is_log ? c->low / 1.08 : c->low - room;
    c->high = c->is_log ? c->high * 1.08 : c->high + room;
    return true;
}

/* ---- lines ---- */

#define FEW 4 /* values of a place that are drawn one by one; of more, their mean, and a band from least to most */

struct pen {
    const struct chart *c;
    bool is_band; /* draws the bands alone */
    int place; /* along the axis; -1: the pen is up */
    bool is_down;
    size_t n;
    size_t n_here; /* values in this place */
    double sum_y;
    struct point { double x, y; } first, low, high, last;
};

static void put_point(struct pen *p, struct point at)
{
    fprintf(p->c->f, "%c%.1f %.1f", p->is_down ? 'L' : 'M', at.x, at.y);
    p->is_down = true;
    p->n++;
}

/* The first value of a place, the extremes in their order, and the last. */
static void put_few(struct pen *p)
{
    struct point a = p->low.x <= p->high.x ? p->low : p->high, b = p->low.x <= p->high.x ? p->high : p->low;
    put_point(p, p->first);
    if (a.x > p->first.x && a.x < p->last.x)
        put_point(p, a);
    if (b.x > a.x && b.x > p->first.x && b.x < p->last.x)
        put_point(p, b);
    if (p->last.x > p->first.x)
        put_point(p, p->last);
}

static void flush(struct pen *p)
{
    double width = CHART_WIDTH / POINTS;
    if (p->place >= 0 && p->is_band && p->n_here > FEW)
        fprintf(p->c->f, "M%.1f %.1fh%.1fV%.1fh-%.1fz", p->place * width, p->low.y, width, p->high.y, width);
    else if (p->place >= 0 && !p->is_band && p->n_here > FEW)
        put_point(p, (struct point){(p->place + 0.5) * width, p->sum_y / (double)p->n_here});
    else if (p->place >= 0 && !p->is_band)
        put_few(p);
    p->place = -1;
}

static void draw_to(struct pen *p, double x, double y)
{
    struct point at = {x, y};
    int place = (int)fmin(x * POINTS / CHART_WIDTH, POINTS - 1);
    if (p->n >= POINTS_MAX)
        return;
    if (place != p->place) {
        flush(p);
        p->place = place;
        p->first = p->low = p->high = at;
        p->n_here = 0;
        p->sum_y = 0;
    }
    p->n_here++;
    p->sum_y += y;
    p->low = y < p->low.y ? at : p->low;
    p->high = y > p->high.y ? at : p->high;
    p->last = at;
}

static void lift(struct pen *p)
{
    flush(p);
    p->is_down = false;
}

static void put_look(FILE *f, int i, bool is_kept)
{
    static const char *const dash[REPORT_RUNS_MAX] = {"none", "7 3", "2 2.5", "9 3 2 3", "12 4", "4 2", "1 4",
                                                      "9 3 2 3 2 3"};
    if (is_kept)
        fprintf(f, "class=\"run\" style=\"stroke:var(--r%d);stroke-dasharray:%s\"", i, dash[i]);
    else
        fprintf(f, "class=\"again\" style=\"stroke:var(--r%d)\"", i);
}

/* Those of a run's intervals that were kept, or those that were done again. */
static void draw(const struct chart *c, int i, bool is_kept, bool is_band)
{
    const struct record *r = &c->runs[i].record;
    struct pen p = {.c = c, .is_band = is_band, .place = -1};
    uint64_t before = 0;
    for (size_t k = 0; k < r->n_lines; k++) {
        const struct record_line *l = &r->line[k];
        if (l->event != RECORD_INTERVAL)
            continue;
        double v = c->value(&r->interval[l->at]);
        bool is_shown = chart_is_drawn(c, v) && (l->step <= l->kept_to) == is_kept;
        if (!is_shown || l->step < before)
            lift(&p);
        if (is_shown)
            draw_to(&p, chart_x(c, l->step), CHART_HEIGHT * chart_share(c, v));
        before = l->step;
    }
    lift(&p);
}

static void put_line(const struct chart *c, int i)
{
    fprintf(c->f, "<path class=\"band\" style=\"fill:var(--r%d)\" d=\"", i);
    draw(c, i, true, true);
    fputs("\"/>", c->f);
    for (int is_kept = 0; is_kept < 2; is_kept++) {
        fputs("<path ", c->f);
        put_look(c->f, i, is_kept);
        fputs(" d=\"", c->f);
        draw(c, i, is_kept, false);
        fputs("\"/>", c->f);
    }
}

static void put_validation(const struct chart *c, int i)
{
    const struct record *r = &c->runs[i].record;
    int place = -1;
    fprintf(c->f, "<path class=\"dots\" style=\"stroke:var(--r%d)\" d=\"", i);
    for (size_t k = 0; k < r->n_lines; k++) {
        const struct record_line *l = &r->line[k];
        if (l->event != RECORD_VALIDATION || !chart_is_drawn(c, r->other[l->at].loss) || l->step < c->least ||
            l->step > c->most)
            continue;
        double x = chart_x(c, l->step);
        if ((int)(x / 5) != place) /* one in five thousandths of the width */
            fprintf(c->f, "M%.1f %.1fh0", x, CHART_HEIGHT * chart_share(c, r->other[l->at].loss));
        place = (int)(x / 5);
    }
    fputs("\"/>", c->f);
}

static bool has_bands(const struct chart *c)
{
    bool has = false;
    for (int i = 0; i < c->n; i++)
        has |= c->runs[i].record.n_intervals > POINTS * FEW;
    return has;
}

static void put_legend(const struct chart *c)
{
    if (c->n == 1 && !c->has_validation)
        return;
    fputs("<ul class=\"legend\">", c->f);
    for (int i = 0; c->n > 1 && i < c->n; i++) {
        fputs("<li><svg viewBox=\"0 0 36 10\" aria-hidden=\"true\"><path ", c->f);
        put_look(c->f, i, true);
        fputs(" d=\"M0 5H36\"/></svg>", c->f);
        report_escape(c->f, c->runs[i].name);
        fputs("</li>", c->f);
    }
    fputs(c->has_validation ? "<li>line: training, dots: validation; dotted: done again after a failure</li></ul>"
                            : "</ul>", c->f);
}

static void put_chart(struct chart *c, const char *title, const char *unit, bool from_zero, bool may_be_log)
{
    char low[32], high[32];
    if (!measure(c, from_zero, may_be_log))
        return;
    fprintf(c->f, "<figure><figcaption><h2>%s</h2><span class=\"soft small\">", title);
    report_escape(c->f, unit);
    fprintf(c->f, "%s%s</span>", c->is_log ? ", logarithmic" : "",
            has_bands(c) ? "; the mean of many intervals, in a band from least to most" : "");
    put_legend(c);
    fputs("</figcaption><div class=\"plot\">", c->f);
    chart_put_lane(c);
    chart_put_y(c);
    chart_open(c->f);
    fprintf(c->f, "%s over steps %" PRIu64 " to %" PRIu64 ", between %s and %s</title>", title, c->least, c->most,
            chart_label(c->low, low), chart_label(c->high, high));
    chart_put_grid(c);
    chart_put_marks(c, false);
    for (int i = 0; i < c->n; i++) {
        put_line(c, i);
        if (c->has_validation)
            put_validation(c, i);
    }
    fputs("</svg>", c->f);
    report_steps(c->f, c->least, c->most);
    fputs("</div></figure>\n", c->f);
}

/* ---- all of them ---- */

static const char *items_unit(const struct report_run *runs, int n, char *buf, size_t size)
{
    for (int i = 0; i < n; i++)
        if (runs[i].train && *runs[i].train->item) {
            snprintf(buf, size, "%.60ss a second, all ranks", runs[i].train->item);
            return buf;
        }
    return "items a second, all ranks";
}

void report_charts(FILE *f, const struct report_run *runs, int n)
{
    struct chart c = {.f = f, .runs = runs, .n = n, .least = UINT64_MAX};
    char unit[96];
    for (int i = 0; i < n; i++) {
        c.least = runs[i].least_step < c.least ? runs[i].least_step : c.least;
        c.most = runs[i].most_step > c.most ? runs[i].most_step : c.most;
    }
    if (c.least >= c.most)
        return;
    c.value = loss_of;
    c.has_validation = true;
    put_chart(&c, "Loss", "by step", false, true);
    c.has_validation = false;
    c.value = lr_of;
    put_chart(&c, "Learning rate", "by step", true, false);
    c.value = rate_of;
    put_chart(&c, "Throughput", items_unit(runs, n, unit, sizeof unit), true, false);
    for (int i = 0; i < n; i++)
        chart_put_stacks(&c, i);
    c.value = efficiency_of;
    put_chart(&c, "Scaling efficiency", "percent: a step's computing, over its time", true, false);
    for (int i = 0; i < n; i++)
        report_heat(f, &runs[i], c.least, c.most);
}
