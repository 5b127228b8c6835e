/* axes.c - what a chart's picture has about it. */
#include <math.h>

#include "runtime/cli/report/chart.h"

#define TICKS_MAX 12

double chart_x(const struct chart *c, uint64_t step)
{
    return c->most > c->least ? CHART_WIDTH * (double)(step - c->least) / (double)(c->most - c->least) : 0;
}

double chart_share(const struct chart *c, double v)
{
    double share = c->is_log ? log(v / c->low) / log(c->high / c->low) : (v - c->low) / (c->high - c->low);
    return 1 - share;
}

bool chart_is_drawn(const struct chart *c, double v)
{
    return fabs(v) < 1e30 && (!c->is_log || v > 0);
}

void chart_open(FILE *f)
{
    fprintf(f, "<svg viewBox=\"0 0 %.0f %.0f\" preserveAspectRatio=\"none\" role=\"img\"><title>", CHART_WIDTH,
            CHART_HEIGHT);
}

/* ---- axes ---- */

const char *chart_label(double v, char buf[32])
{
    return fabs(v) >= 1000 ? report_si(v, "", buf, 32) : report_number(fabs(v) < 1e-12 ? 0 : v, buf, 32);
}

/* Values with a line: round ones; in a logarithmic chart 1, 2 and 5 times a power of ten, or powers alone. */
static int ticks(const struct chart *c, double ret[TICKS_MAX])
{
    int n = 0;
    double decades = log10(c->high / c->low), step = report_tick(c->high - c->low, 5);
    if (!c->is_log) {
        for (double v = ceil(c->low / step - 1e-9) * step; v <= c->high && n < TICKS_MAX; v += step)
            ret[n++] = v;
        return n;
    }
    for (double power = floor(log10(c->low)); power <= log10(c->high); power += decades > 3 ? ceil(decades / 6) : 1)
        for (int k = 0; k < (decades > 3 ? 1 : 3); k++) {
            double v = pow(10, power) * (double[]){1, 2, 5}[k];
            if (v >= c->low && v <= c->high && n < TICKS_MAX)
                ret[n++] = v;
        }
    return n;
}

void chart_put_y(const struct chart *c)
{
    char text[32];
    double at[TICKS_MAX];
    fputs("<div class=\"y\" aria-hidden=\"true\">", c->f);
    for (int i = 0, n = ticks(c, at); i < n; i++)
        fprintf(c->f, "<span style=\"top:%.1f%%\">%s</span>", 100 * chart_share(c, at[i]), chart_label(at[i], text));
    fputs("</div>", c->f);
}

void report_steps(FILE *f, uint64_t least, uint64_t most)
{
    char text[32];
    double span = (double)(most - least), tick = fmax(report_tick(span, 6), 1);
    fputs("<div class=\"x\" aria-hidden=\"true\">", f);
    for (double v = ceil((double)least / tick) * tick, n = 0; v <= (double)most && n < TICKS_MAX; v += tick, n++) {
        snprintf(text, sizeof text, "%.0f", v);
        fprintf(f, "<span style=\"left:%.1f%%\">%s</span>", 100 * (v - (double)least) / span,
                v < 99999.5 ? text : report_si(v, "", text, sizeof text));
    }
    fputs("</div>", f);
}

void chart_put_grid(const struct chart *c)
{
    double at[TICKS_MAX];
    fputs("<path class=\"grid\" d=\"", c->f);
    for (int i = 0, n = ticks(c, at); i < n; i++)
        fprintf(c->f, "M0 %.1fH%.0f", CHART_HEIGHT * chart_share(c, at[i]), CHART_WIDTH);
    fputs("\"/>", c->f);
}

/* ---- events ---- */

void report_lane_put(struct report_lane *l, const struct report_event *e, double share, int run)
{
    if (!l->is_open || share - l->at > 0.02 || share < l->at) {
        report_lane_end(l);
        fprintf(l->f, "<b class=\"%s\" style=\"left:%.1f%%", e->kind, 100 * share);
        if (run >= 0)
            fprintf(l->f, ";color:var(--r%d)", run);
        fputs("\">", l->f);
        l->is_open = true;
        l->at = share;
    }
    fputc(e->kind[0] - 'a' + 'A', l->f);
}

void report_lane_end(struct report_lane *l)
{
    if (l->is_open)
        fputs("</b>", l->f);
    l->is_open = false;
}

/* Each as a line across the picture, or as a letter above it. Where there are several runs, in the run's colour. */
void chart_put_marks(const struct chart *c, bool is_lane)
{
    struct report_event event[REPORT_EVENTS_MAX];
    for (int i = 0; i < c->n; i++) {
        size_t left_out, n = report_events(&c->runs[i], event, &left_out);
        struct report_lane lane = {.f = c->f};
        for (size_t k = 0; k < n; k++) {
            if (!report_is_marked(&event[k]) || event[k].step < c->least || event[k].step > c->most)
                continue;
            double x = chart_x(c, event[k].step);
            if (is_lane)
                report_lane_put(&lane, &event[k], x / CHART_WIDTH, c->n > 1 ? i : -1);
            else if (c->n > 1)
                fprintf(c->f, "<path class=\"mark\" style=\"stroke:var(--r%d)\" d=\"M%.1f 0V%.0f\"/>", i, x,
                        CHART_HEIGHT);
            else
                fprintf(c->f, "<path class=\"mark %s\" d=\"M%.1f 0V%.0f\"/>", event[k].kind, x, CHART_HEIGHT);
        }
        report_lane_end(&lane);
    }
}

void chart_put_lane(const struct chart *c)
{
    size_t n = 0;
    for (int i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->runs[i].record.n_lines; k++) {
            enum record_event e = c->runs[i].record.line[k].event;
            n += e == RECORD_FAILURE || e == RECORD_STOP || e == RECORD_REQUEUE;
        }
    if (n == 0)
        return;
    fputs("<div class=\"lane\" aria-hidden=\"true\">", c->f);
    chart_put_marks(c, true);
    fputs("</div>", c->f);
}
