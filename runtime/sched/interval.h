/* interval.h - when to checkpoint: the interval with which the least time is lost, and the last moment before the job's
 * time is over. Pure; times are in seconds. */
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

/* Mean time between failures after trained_s seconds with n_failures failures, computed as if INTERVAL_PRIOR_S with one
 * failure had come before. So there is a result before the first failure, and in the end observation outweighs the
 * assumption. */
#define INTERVAL_PRIOR_S 86400.0
double interval_mtbf_s(double trained_s, int n_failures);

/* The times of the last saves, or of the last steps. */
#define INTERVAL_RECENT 100
struct recent {
    double s[INTERVAL_RECENT];
    size_t n, next; /* number of times; index for the next one */
};
void recent_add(struct recent *r, double s);
void recent_shorten(struct recent *r, double s); /* the longest, by s; it stays at least 0 */

/* The longest time, and the mean; 0 if there are none. */
double recent_max_s(const struct recent *r);
double recent_mean_s(const struct recent *r);

/* An upper bound for the next time, right in 99 of 100 cases: the 99th percentile by nearest rank, which for fewer than
 * 100 times is the longest. With n < 10 times, which say little about the longest one, (1 + 1/n) times that: twice the
 * only one. 0 if there are none. */
double recent_p99_s(const struct recent *r);

/* The latest time at which a checkpoint may begin, if the job ends at end_s on the same clock: steps take up to step_s
 * (one may just have begun), a save takes save_s. The margin is for the exit of the processes and for Slurm's rounding,
 * which are not measured. */
#define INTERVAL_MARGIN_S 10.0
double interval_last_moment_s(double end_s, double save_s, double step_s);

#endif
