/* stack.c - where the time of steps goes, over the steps. */
#include <math.h>

#include "runtime/cli/report/chart.h"

#define STACKS 160

struct stacks {
    int n;
    double steps[STACKS], part_s[STACKS][RECORD_PARTS];
};

/* An interval's parts into the stacks that its steps lie in. */
static void stack(struct stacks *s, const struct chart *c, const struct record_line *l, const struct record_interval *v)
{
    double from = chart_x(c, v->n_steps < l->step ? l->step - v->n_steps : 0) / CHART_WIDTH * s->n;
    double to = chart_x(c, l->step) / CHART_WIDTH * s->n;
    for (int i = (int)from; to > from && i < s->n && i < to; i++) { /* of no steps: in no stack */
        double part = (fmin(to, i + 1) - fmax(from, i)) / (to - from);
        s->steps[i] += part * (double)v->n_steps;
        for (int p = 0; p < RECORD_PARTS; p++)
            s->part_s[i][p] += part * v->part_s[p];
    }
}

/* The seconds of a step in a stack, up to and with part `last`. */
static double height(const struct stacks *s, int i, int last)
{
    double sum = 0;
    for (int p = 0; p <= last; p++)
        sum += s->steps[i] > 0 ? s->part_s[i][p] / s->steps[i] : 0;
    return sum;
}

static void put_part(const struct chart *c, const struct stacks *s, int part)
{
    double width = CHART_WIDTH / s->n;
    fprintf(c->f, "<path style=\"fill:var(--%s)\" d=\"", record_part_name(part));
    for (int i = 0; i < s->n; i++) {
        double top = CHART_HEIGHT * chart_share(c, height(s, i, part));
        double bottom = CHART_HEIGHT * chart_share(c, height(s, i, part - 1));
        if (bottom - top > 0.02)
            fprintf(c->f, "M%.1f %.1fh%.1fv%.1fh%.1fz", i * width, top, width + 0.2, bottom - top, -width - 0.2);
    }
    fputs("\"/>", c->f);
}

static void put_parts_legend(FILE *f, const struct report_run *r)
{
    char took[32], share[32];
    fputs("<ul class=\"legend\">", f);
    for (int p = 0; p < RECORD_PARTS; p++)
        if (r->parts_told >> p & 1)
            fprintf(f, "<li><i style=\"background:var(--%s)\"></i>%s %s, %s</li>", record_part_name(p),
                    record_part_name(p), report_percent(r->part_s[p] / r->wall_s, share, sizeof share),
                    duration_text(r->part_s[p] / (double)r->n_steps, took, sizeof took));
    fputs("</ul>", f);
}

void chart_put_stacks(const struct chart *all, int which)
{
    const struct report_run *r = &all->runs[which];
    struct chart c = *all;
    struct stacks s = {.n = r->record.n_intervals < STACKS ? (int)r->record.n_intervals : STACKS};
    if (!(r->wall_s > 0) || r->n_steps == 0)
        return;
    c.runs = r;
    c.n = 1;
    for (size_t k = 0; k < r->record.n_lines; k++)
        if (r->record.line[k].event == RECORD_INTERVAL)
            stack(&s, &c, &r->record.line[k], &r->record.interval[r->record.line[k].at]);
    c.high = 0;
    for (int i = 0; i < s.n; i++)
        c.high = fmax(c.high, height(&s, i, RECORD_PARTS - 1));
    c.low = 0;
    c.high = c.high > 0 ? c.high * 1.05 : 1;
    fputs("<figure><figcaption><h2>Where a step's time goes", c.f);
    if (all->n > 1) {
        fputs(": ", c.f);
        report_escape(c.f, r->name);
    }
    fputs("</h2><span class=\"soft small\">seconds of a step, mean over the ranks</span>", c.f);
    put_parts_legend(c.f, r);
    fputs("</figcaption><div class=\"plot\">", c.f);
    chart_put_lane(&c);
    chart_put_y(&c);
    chart_open(c.f);
    fputs("The parts of a step's time over the steps; their means are in the list above</title>", c.f);
    chart_put_grid(&c);
    for (int p = 0; p < RECORD_PARTS; p++)
        put_part(&c, &s, p);
    chart_put_marks(&c, false);
    fputs("</svg>", c.f);
    report_steps(c.f, c.least, c.most);
    fputs("</div></figure>\n", c.f);
}
