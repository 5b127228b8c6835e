/* due.h - rank 0's judgement of when to checkpoint, and whether the job's time is over. Pure: times are seconds on a
 * clock that the caller reads, steps are optimizer steps done.
 *
 * A checkpoint is due
 * - every so many steps, where the user said so: when a multiple of that number was passed since the last one began;
 * - else when Daly's interval (interval.h) has passed since the last one began, from what checkpoints cost so far
 *   and from the mean time between failures; the first one, which shows the cost, after DUE_FIRST_S;
 * - at the last moment before the job's time is over, and then the job also stops. */
#ifndef DDP_RUNTIME_SCHED_DUE_H
#define DDP_RUNTIME_SCHED_DUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/sched/interval.h"

#define DUE_FIRST_S 60.0
#define DUE_ASK_AHEAD_S 20.0 /* before the last moment, the controller is asked whether it still is that */

enum due_what { DUE_NOTHING, DUE_CHECKPOINT, DUE_STOP };

struct due_config {
    int64_t every;       /* steps; 0: only at the last moment; -1: by time */
    double mtbf_s;       /* 0: from the two below (interval_mtbf_s) and the time since due_open */
    double trained_s;    /* before due_open, in earlier runs of this training, */
    int n_failures;      /* and how many of those ended unasked */
    double guess_save_s; /* how long a save takes, as long as there was none */
};

struct due {
    struct due_config cfg;
    struct recent steps, calm, saves; /* all steps; those without a save in flight; saves */
    struct recent costs;              /* of saves, to training */
    double opened_s, step_s;          /* due_open; the end of the last step */
    bool is_saving;
    double began_s, saving_s;         /* the last save; steps since, as long as it is in flight */
    int n_saving;                     /* those steps */
    uint64_t saved_step;              /* of the last save that began, or where the training was resumed */
};

/* After the folder was opened, at `step`. */
void due_open(struct due *d, const struct due_config *cfg, uint64_t step, double now_s);

/* A step has ended: what passed since the last one counts as the step's, validation and all. */
void due_step(struct due *d, double now_s);

/* A save of `step` begins; it is over, committed after took_s in which training stood still for blocked_s, or given up
 * (took_s < 0). */
void due_begun(struct due *d, uint64_t step, double now_s);
void due_over(struct due *d, double took_s, double blocked_s);

/* What is due when `step` steps are done, with the job's end at end_s (INFINITY: none). */
enum due_what due_judge(const struct due *d, uint64_t step, double now_s, double end_s);

/* Is it time to ask whether end_s still holds? asked_s: when that was done last; -INFINITY: never. */
bool due_wants_to_know(const struct due *d, double now_s, double end_s, double asked_s);

/* Between two periodic checkpoints, by time. */
double due_interval_s(const struct due *d, double now_s);

#endif
