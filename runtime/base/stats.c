#include "runtime/base/stats.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const double *x, size_t n, double q)
{
    double place = q * (double)(n - 1);
    size_t i = (size_t)place, j = i + 1 < n ? i + 1 : i;
    return x[i] + (place - (double)i) * (x[j] - x[i]);
}

struct stats stats_of(double *x, size_t n)
{
    qsort(x, n, sizeof *x, compare);
    return (struct stats){.median = at(x, n, 0.5), .q1 = at(x, n, 0.25), .q3 = at(x, n, 0.75),
                          .p99 = at(x, n, 0.99), .min = x[0], .max = x[n - 1]};
}
