/* stats.h - median, quartiles and the 99th percentile of measurements. Pure. */
#ifndef DDP_BASE_STATS_H
#define DDP_BASE_STATS_H

#include <stddef.h>

struct stats {
    double median, q1, q3, p99, min, max;
};

/* Of x[0..n), n >= 1, which it sorts; all by linear interpolation. */
struct stats stats_of(double *x, size_t n);

#endif
