/* write.h - adds lines to the record of a run: a file of JSON lines, one object an event, over all restarts and
 * requeues of one job.
 *
 * A line is {"event": NAME, "t": seconds since 1970, ...}. All durations are in seconds, and their names end in _s. A
 * number that is not finite is null. A line goes out in one write(2) to a file that is only ever added to, so that a
 * process that is killed leaves at most its last line in pieces; who reads ignores a last line without an end, and
 * events and members that he does not know. ddp-record(5) has the events. */
#ifndef DDP_RECORD_WRITE_H
#define DDP_RECORD_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/error.h"

struct recorder {
    bool is_open; /* else every call is allowed, and writes nothing */
    int fd;
    char path[256]; /* for errors */
    FILE *line;     /* between recorder_begin and recorder_end; NULL: no memory */
    char *text;     /* [n_bytes] what it holds */
    size_t n_bytes;
};

/* Opens path to add to it, and makes it where it is not there (mode 0666 less the umask). Refused, since a stranger
 * could have put it there: a symbolic link, what is no regular file, a file with two names or of another user's. A last
 * line without an end gets one. */
int recorder_open(struct recorder *r, const char *path, ddp_error_t *errp);

/* A line: recorder_begin, any of the members, recorder_end, which writes it. -1: it could not be written (whole); the
 * file is closed then, and what comes later goes nowhere. */
void recorder_begin(struct recorder *r, const char *event);
void recorder_begin_at(struct recorder *r, const char *event, double seconds_since_1970);
int recorder_end(struct recorder *r, ddp_error_t *errp);

void recorder_number(struct recorder *r, const char *name, double x);
void recorder_time(struct recorder *r, const char *name, double seconds_since_1970); /* to the millisecond; 0: null */
void recorder_count(struct recorder *r, const char *name, uint64_t n);
/* NULL: null; what is not plain becomes "?". */
void recorder_text(struct recorder *r, const char *name, const char *text);
void recorder_numbers(struct recorder *r, const char *name, const double *x, size_t n);
void recorder_counts(struct recorder *r, const char *name, const int *x, size_t n);
void recorder_texts(struct recorder *r, const char *name, const char *const *text, size_t n);

/* An object within the line: members until recorder_leave. */
void recorder_enter(struct recorder *r, const char *name);
void recorder_leave(struct recorder *r);

/* The members of a start that Slurm's variables tell: job, requeue, alloc_t. */
void recorder_job(struct recorder *r);

/* Members as JSON has them, "\"step\": 1, \"loss\": 2.5"; NULL or "": none. -1: they are no JSON, more than one line or
 * a million bytes, a name comes twice, or is event or t: nothing is added. */
int recorder_members(struct recorder *r, const char *members, ddp_error_t *errp);

/* A name that an event can have: letters of a-z, digits and _, at most 31. */
bool recorder_is_name(const char *event);

/* An event that libddp writes: a program's would mean something else. */
bool recorder_is_own(const char *event);

void recorder_close(struct recorder *r); /* a zeroed struct is allowed */

/* The same, and the file to read from its beginning, whatever folder the program has changed to; the caller closes it.
 * NULL: r was not open (any more). */
FILE *recorder_close_to_read(struct recorder *r);

double recorder_now(void); /* seconds since 1970 */

#endif
