/* interval.h - when to checkpoint: the interval that loses the least time, and the last moment before the job's time is
 * over. Pure; times are in seconds. */
#ifndef DDP_RUNTIME_SCHED_INTERVAL_H
#define DDP_RUNTIME_SCHED_INTERVAL_H

#include <stddef.h>

/* The time between two checkpoints that costs least, where one costs cost_s of training and failures come mtbf_s apart
 * on average, both > 0.
 * Young, "A First Order Approximation to the Optimum Checkpoint Interval", CACM 17(9), 1974: sqrt(2 cost mtbf).
 * Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006, eq. 37:
 *     sqrt(2 cost mtbf) (1 + sqrt(cost / (2 mtbf)) / 3 + cost / (2 mtbf) / 9) - cost    for cost < 2 mtbf,
 *     mtbf                                                                               otherwise. */
double interval_young_s(double cost_s, double mtbf_s);
double interval_daly_s(double cost_s, double mtbf_s);

/* Mean time between failures after trained_s seconds with n_failures failures, as if INTERVAL_PRIOR_S with one failure
 * had come before: so there is an answer before the first failure, and what was observed outweighs it in the end. */
#define INTERVAL_PRIOR_S 86400.0
double interval_mtbf_s(double trained_s, int n_failures);

/* How long saves, or steps, took lately. */
#define INTERVAL_RECENT 100
struct recent {
    double s[INTERVAL_RECENT];
    size_t n, next; /* how many there are; where the next one goes */
};
void recent_add(struct recent *r, double s);

/* The longest, and the mean; 0: there are none. */
double recent_max_s(const struct recent *r);
double recent_mean_s(const struct recent *r);

/* An upper bound that the next one keeps to in 99 of 100 cases: the 99th percentile by nearest rank, which for up to
 * 100 of them is the longest; of n < 10 samples, which hardly show how long one can take, (1 + 1/n) times that: twice
 * the only one. 0: there are none. */
double recent_p99_s(const struct recent *r);

/* A checkpoint must have begun by then, on any clock on which the job ends at end_s: steps take up to step_s (one may
 * just have begun), a save save_s. The margin is for what nobody measures: leaving, and Slurm's own rounding. */
#define INTERVAL_MARGIN_S 10.0
double interval_last_moment_s(double end_s, double save_s, double step_s);

#endif
