/* due.h - rank 0's decision when to checkpoint, and whether the job's time is over. Pure: times are seconds on a clock
 * that the caller reads, steps are optimizer steps done.
 *
 * A checkpoint is due
 * - if the user has set a number of steps: when a multiple of it was passed since the last checkpoint began;
 * - else when Daly's interval (interval.h) has passed since the last checkpoint began; it is computed from what
 *   checkpoints have cost so far and the mean time between failures. The first one, which shows the cost, is due after
 *   DUE_FIRST_S;
 * - at the last moment before the job's time is over; then the job also stops. */
#ifndef DDP_RUNTIME_SCHED_DUE_H
#define DDP_RUNTIME_SCHED_DUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/sched/interval.h"

#define DUE_FIRST_S 60.0
#define DUE_ASK_AHEAD_S 20.0 /* how long before the last moment the controller is asked whether the end has moved */

enum due_what { DUE_NOTHING, DUE_CHECKPOINT, DUE_STOP };

struct due_config {
    int64_t every;       /* steps; 0: only at the last moment; -1: by time */
    double mtbf_s;       /* 0: computed from the next two (interval_mtbf_s) and the time since due_open */
    double trained_s;    /* time in earlier runs of this training, before due_open */
    int n_failures;      /* how many of those runs ended by a failure */
    double guess_save_s; /* how long a save takes, until the first one was measured */
};

struct due {
    struct due_config cfg;
    struct recent steps, calm, saves; /* times of all steps; of steps without a save in flight; of saves */
    struct recent costs;              /* what saves cost training */
    double opened_s, step_s;          /* when due_open was called; when the last step ended */
    double suspended_s;               /* see due_suspended */
    bool is_saving;
    double began_s;                   /* when the last save began */
    double saving_s;                  /* time in steps since then, while it is in flight, */
    int n_saving;                     /* and the number of these steps */
    uint64_t saved_step;              /* of the last save that began, or at which training was resumed */
};

/* Called when the folder was opened, at `step`. */
void due_open(struct due *d, const struct due_config *cfg, uint64_t step, double now_s);

/* Called when a step has ended. The time since the last call counts as the step's, validation included. */
void due_step(struct due *d, double now_s);

/* Called with how long the job has been suspended in all, as far as is known. What is new of it is taken from the step
 * that is under way, or else from the longest of the last ones, if one took that long. */
void due_suspended(struct due *d, double total_s, double now_s);

/* Called when a save of `step` begins; and when it has ended: committed after took_s, of which training waited for
 * blocked_s, or given up (took_s < 0). */
void due_begun(struct due *d, uint64_t step, double now_s);
void due_over(struct due *d, double took_s, double blocked_s);

/* What is due after `step` steps if the job ends at end_s (INFINITY: never). */
enum due_what due_judge(const struct due *d, uint64_t step, double now_s, double end_s);

/* True if it is time to ask the controller whether end_s has changed: ahead of the last moment, and at it once more
 * where that is longer ago than steps explain, as after a suspension, which moves the end. asked_s: when it was asked
 * last; -INFINITY: never. */
bool due_wants_to_know(const struct due *d, double now_s, double end_s, double asked_s);

/* The time between two periodic checkpoints, where no number of steps is set. */
double due_interval_s(const struct due *d, double now_s);

#endif
