/* textfile.h - the run's present numbers for Prometheus (runtime/record/prometheus.h), on rank 0 with the option
 * prometheus: written at the start, after intervals (pace.h), at most once a second, and at the end, after which the
 * file stays. Without textfile_open the other functions write nothing. A file that cannot be written is a warning,
 * once, is tried again after the next interval, and never ends training. doc/user.md has a table of the metrics. */
#ifndef DDP_RUNTIME_TEXTFILE_H
#define DDP_RUNTIME_TEXTFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/ddp.h"
#include "runtime/record/prometheus.h"

/* What is written; NAN: not known. */
struct textfile_values {
    double up, has_failed;
    double began_t, now_t; /* seconds since 1970 */
    double n_ranks, n_nodes, n_restarts, n_requeues;
    double n_steps_done;   /* since training began; since this process did: */
    double n_taken, n_skipped, items, n_checkpoints, part_s[DDP_PARTS], hidden_s;
    double loss, lr, grad_norm, step_s, efficiency, barrier_s, memory_bytes; /* of the last interval */
    double slow_factor;
    double ckpt_step, ckpt_bytes, ckpt_t; /* of the last checkpoint */
};

struct textfile {
    struct prometheus file;
    struct textfile_values v;
    char slow_labels[192]; /* of slow_factor */
    uint64_t saved_ns;     /* clock_ns, when an interval was written; 0: none was */
    bool was_told;         /* that it cannot be written */
};

void textfile_open(ddp_t *d, const char *path, double began_t); /* when this process began, in seconds since 1970 */

/* The interval that pace.last is, whose steps were n_taken and n_skipped; `last` is the last of them. loss: mean of
 * those taken; items: of all ranks. is_ours: else the steps are another framework's, of which these are not known. */
struct textfile_interval {
    const struct ddp_step *last;
    uint64_t n_taken, n_skipped;
    double loss, items;
    bool is_ours;
};
void textfile_interval(ddp_t *d, const struct textfile_interval *i);

void textfile_checkpoint(ddp_t *d); /* one was committed */
void textfile_close(ddp_t *d, bool has_failed);

#endif
