/* events.h - what a run's record (runtime/record) has of libddp, on rank 0 with the option record: start, resume,
 * interval, checkpoint, slow, stop, requeue, failure and end; and the same numbers for Prometheus (textfile.h).
 * Elsewhere these functions do nothing. A record that cannot be written is a warning, once, and never ends training. */
#ifndef DDP_RUNTIME_EVENTS_H
#define DDP_RUNTIME_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/ddp.h"
#include "runtime/record/goodput.h"
#include "runtime/record/write.h"
#include "runtime/textfile.h"

struct events {
    struct recorder file;
    struct textfile textfile;
    uint64_t n_committed; /* checkpoints that the record has */
    int slow_rank;        /* that it has named last; -1: none */
    bool has_stopped, has_requeued, has_failed;
    struct ddp_step last; /* and, since the last interval: */
    uint64_t n_taken, n_skipped;
    double loss_sum, items;
    char goodput[GOODPUT_TEXT_MAX]; /* "": not known (yet) */
};

void events_open(ddp_t *d); /* at the end of ddp_commit and ddp_state_open: opens the record, start */
void events_begun(ddp_t *d); /* of another framework, whose resume found nothing */
void events_resumed(ddp_t *d, double took_s);

/* A step and its items, of all ranks; is_interval: the ranks have gathered (pace.h). */
void events_step(ddp_t *d, const struct ddp_step *s, double items, bool is_interval);
void events_interval(ddp_t *d); /* the ranks have gathered what they took, behind a step */

void events_stop(ddp_t *d, const struct ddp_step *s); /* where it says stop; events_step does it, too */
void events_saved(ddp_t *d); /* between steps: checkpoints that were committed, and a requeue */
void events_failed(ddp_t *d, const char *why);

/* What is in no interval yet, a failure, end. Where nothing failed, and the record is whole, it, to read; the caller
 * closes it. Else NULL. */
FILE *events_close(ddp_t *d);
/* goodput.c: the same, and then the goodput by the whole record, which Slurm's job gets into its comment, too. */
void goodput_close(ddp_t *d);

#endif
