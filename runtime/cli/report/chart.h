/* chart.h - between the files that draw charts over steps. A picture is stretched to the page's width; its
 * labels are text beside it, of the page's own size. */
#ifndef DDP_RUNTIME_CLI_REPORT_CHART_H
#define DDP_RUNTIME_CLI_REPORT_CHART_H

#include "runtime/cli/report/report.h"

#define CHART_WIDTH 1000.0 /* of the picture's own units */
#define CHART_HEIGHT 200.0

typedef double (*chart_value_f)(const struct record_interval *v); /* NAN: it has none */

struct chart {
    FILE *f;
    const struct report_run *runs;
    int n;
    uint64_t least, most; /* steps */
    chart_value_f value;
    bool has_validation;
    double low, high; /* values */
    bool is_log;
};

double chart_x(const struct chart *c, uint64_t step); /* of the width's units */
double chart_share(const struct chart *c, double v);  /* of the height, from its top */
bool chart_is_drawn(const struct chart *c, double v);  /* false: it is none, or beyond any scale */
const char *chart_label(double v, char buf[32]);

void chart_open(FILE *f); /* up to the title */
void chart_put_y(const struct chart *c);
void chart_put_grid(const struct chart *c);
/* Events, each as a line across the picture, or as a letter; of several runs in the run's colour. The lane: the letters
 * above the picture, where there are any. */
void chart_put_marks(const struct chart *c, bool is_lane);
void chart_put_lane(const struct chart *c);

/* The chart of one of the runs, over the steps of all. */
void chart_put_stacks(const struct chart *all, int which);

#endif
