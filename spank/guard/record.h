/* record.h - what the guard without one above adds to the record of a run (ddp-record(5), DDP_RECORD or
 * --ddp-record=), so that a program that knows nothing of libddp has one, too: each generation's start, a stop, its
 * failure, its end; and at the end, where the program itself did not come to write that, what all of the time was
 * worth, for the user and in the job's comment. A line of a guard's has "by": "guard"; who reads takes it where the
 * program has not told the same (record/read.h).
 *
 * The file may be slow, so that a child writes, one at a time; what comes meanwhile waits for the next. A child that
 * takes longer than GUARD_RECORD_WRITE_S is killed, and its lines are lost. One thread, no waits: the caller polls
 * guard_record_fd for at most guard_record_wait_ms and calls guard_record_step. */
#ifndef DDP_SPANK_GUARD_RECORD_H
#define DDP_SPANK_GUARD_RECORD_H

#include <stdbool.h>

#include "spank/guard/child.h"
#include "spank/guards/death.h"
#include "spank/guards/guards.h"

#define GUARD_RECORD_WRITE_S 5
#define GUARD_RECORD_NOTES 8 /* that wait at most; later ones are dropped */

enum guard_record_event { GUARD_RECORD_START, GUARD_RECORD_STOP, GUARD_RECORD_FAILURE, GUARD_RECORD_END };

struct guard_note {
    enum guard_record_event event;
    double t; /* seconds since 1970 */
    int restart;
    int size;           /* of a start: of the generation's programs */
    struct death death; /* of a failure */
    const char *how;    /* of an end */
};

struct guard_record {
    const struct guards_facts *f;
    char *path; /* NULL: there is no record */
    int restart;
    struct guard_note note[GUARD_RECORD_NOTES];
    int n_notes; /* that no child has */
    bool has_ended;
    struct guard_child child;
};

/* *f is borrowed. Before the process leaves its folder: a path may be relative to it. */
void guard_record_open(struct guard_record *r, const struct guards_facts *f);

/* What follows is of the generation that comes after so many. */
void guard_record_begin(struct guard_record *r, int restart);

void guard_record_start(struct guard_record *r, int size);
void guard_record_stop(struct guard_record *r);
void guard_record_failure(struct guard_record *r, const struct death *d);

/* Once; how: "done", "stopped" or "failed". The guard is to stay until guard_record_is_busy is false. */
void guard_record_end(struct guard_record *r, const char *how);

/* In a child: the job was requeued, of which the note is one line. Written at once. */
void guard_record_requeue(const struct guard_record *r, const char *note);

int guard_record_fd(const struct guard_record *r);      /* -1: none */
int guard_record_wait_ms(const struct guard_record *r); /* -1: until the descriptor is readable */
void guard_record_step(struct guard_record *r);

/* There is a child: the guard leaves its children alone. */
bool guard_record_is_busy(const struct guard_record *r);

#endif
