/* places.c - a run's time in places of equal length, and what each was spent on. */
#include <math.h>
#include <stdlib.h>

#include "runtime/cli/report/report.h"

struct places {
    double from_t, span_s;
    int n;
    double (*class_s)[GOODPUT_CLASSES]; /* [n] */
};

static int place_of(const struct places *p, double t)
{
    double share = p->span_s > 0 ? (t - p->from_t) / p->span_s : 0;
    return (int)fmin(fmax(share, 0) * p->n, p->n - 1);
}

static void add_piece(void *arg, enum goodput_class c, double from_t, double to_t)
{
    struct places *p = arg;
    for (int i = place_of(p, from_t), last = place_of(p, to_t); i <= last; i++) {
        double begin = p->from_t + p->span_s * i / p->n, end = p->from_t + p->span_s * (i + 1) / p->n;
        p->class_s[i][c] += fmax(fmin(to_t, end) - fmax(from_t, begin), 0);
    }
}

static struct places places_of(const struct report_run *r, int n)
{
    return (struct places){.from_t = r->goodput.from_t, .span_s = r->goodput.to_t - r->goodput.from_t, .n = n};
}

int report_place(const struct report_run *r, int n, double t)
{
    struct places p = places_of(r, n);
    return place_of(&p, t);
}

bool report_places(const struct report_run *r, int n, enum goodput_class *ret)
{
    struct places p = places_of(r, n);
    p.class_s = calloc((size_t)n, sizeof *p.class_s);
    if (!p.class_s)
        return false;
    goodput_of(&r->record, add_piece, &p);
    for (int i = 0; i < n; i++) {
        ret[i] = GOODPUT_USEFUL;
        for (int c = 1; c < GOODPUT_CLASSES; c++)
            ret[i] = p.class_s[i][c] > p.class_s[i][ret[i]] ? (enum goodput_class)c : ret[i];
    }
    free(p.class_s);
    return true;
}
