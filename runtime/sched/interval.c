#include "runtime/sched/interval.h"

#include <math.h>

#define SMALL_SAMPLE 10

double interval_young_s(double cost_s, double mtbf_s)
{
    return sqrt(2 * cost_s * mtbf_s);
}

double interval_daly_s(double cost_s, double mtbf_s)
{
    double x = cost_s / (2 * mtbf_s);
    if (x >= 1)
        return mtbf_s;
    return interval_young_s(cost_s, mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - cost_s;
}

double interval_mtbf_s(double trained_s, int n_failures)
{
    return (INTERVAL_PRIOR_S + trained_s) / (1 + n_failures);
}

void recent_add(struct recent *r, double s)
{
    r->s[r->next] = s;
    r->next = (r->next + 1) % INTERVAL_RECENT;
    r->n += r->n < INTERVAL_RECENT;
}

void recent_shorten(struct recent *r, double s)
{
    size_t longest = 0;
    for (size_t i = 1; i < r->n; i++)
        if (r->s[i] > r->s[longest])
            longest = i;
    r->s[longest] = fmax(0, r->s[longest] - s);
}

double recent_max_s(const struct recent *r)
{
    double max = 0;
    for (size_t i = 0; i < r->n; i++)
        max = fmax(max, r->s[i]);
    return max;
}

double recent_mean_s(const struct recent *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->n; i++)
        sum += r->s[i];
    return r->n ? sum / (double)r->n : 0;
}

/* With at most 100 samples the nearest rank, ceil(0.99 n), is n or, of exactly 100, the last but one. */
double recent_p99_s(const struct recent *r)
{
    double max = recent_max_s(r), second = 0;
    size_t n_max = 0;
    for (size_t i = 0; i < r->n; i++) {
        n_max += r->s[i] >= max;
        if (r->s[i] < max)
            second = fmax(second, r->s[i]);
    }
    if (r->n < SMALL_SAMPLE)
        return r->n ? max * (1 + 1 / (double)r->n) : 0;
    return r->n == INTERVAL_RECENT && n_max == 1 ? second : max;
}

double interval_last_moment_s(double end_s, double save_s, double step_s)
{
    return end_s - (save_s + step_s + INTERVAL_MARGIN_S);
}
