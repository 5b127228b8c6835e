/* read.h - the record of a run, ddp-record(5), read: what the job wrote down, line by line, across restarts and
 * requeues. Knows lines and members, no clock and no job; what follows from them is in goodput.h. */
#ifndef DDP_RECORD_READ_H
#define DDP_RECORD_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/record/line.h"

/* Records come from outside. A line within these limits takes at most 200 MiB while it is parsed; what is kept of one
 * takes at most some hundred bytes, its texts and lists among them, and the table of ranks 64 MiB. */
#define RECORD_LINES_MAX (1u << 20) /* that are kept; at 50 steps a line, 50 million steps */
#define RECORD_RANKS_MAX 16384
#define RECORD_TEXT_MAX 240         /* bytes of a text; what is longer is cut */
#define RECORD_COLUMNS 256          /* even */

/* Below: a real number that the record lacks, or that is null there, is NAN; a text "", a rank -1, a count 0. Times are
 * seconds since 1970, durations seconds. Texts are valid UTF-8, and what could steer a terminal in them is "?". */

struct record_start { /* the programs were started; the first of its line's generation */
    double alloc_t, began_t;
    char *job, *program, *version, *device;
    int restart, requeue, n_ranks, n_nodes;
    char **node;   /* [n_nodes] */
    int *node_of;  /* [n_ranks], into node; NULL: not told */
};

struct record_train { /* before the first step */
    uint64_t steps, batch, accumulation, global_batch, parameters;
    char *item;
    double flops_per_item, peak_flops, end_t;
};

struct record_interval {
    uint64_t n_steps, items, skipped;
    double wall_s, loss, lr, grad_norm, hidden_s, baseline_s, efficiency, barrier_s;
    double part_s[RECORD_PARTS]; /* 0 where it is not told */
    unsigned parts_told;         /* 1 << part */
    double memory_bytes;         /* of the rank with most */
    double compute_s;            /* of the median rank; of an even number the lower one */
    double slowest_s;            /* of the slowest rank */
    int slowest;                 /* -1: not told */
};

struct record_other { /* every other event; members that it does not have are NAN, "" or -1 */
    char *text; /* resume: from; checkpoint: path; stop: signal; requeue: note; failure: text; end: how; slow: of */
    char *node; /* slow, failure */
    int rank;
    double took_s, loss, bytes, stood_still_s, copied_s, written_s, factor;
};

struct record_line {
    enum record_event event;
    size_t at;        /* index into the record's array of this event: start, train, interval or other */
    double t;
    uint64_t step;    /* where the event has none: the run's, as of that line */
    bool has_step;    /* the event has one */
    bool is_begin;    /* of its generation's steps: resume, or the first train before any interval */
    bool is_guards;   /* a guard wrote it, who stays beside the program: the program has not told the same */
    uint64_t kept_to; /* steps beyond this one, if done up to this line, were done again later; UINT64_MAX: none */
};

/* What each rank did, since a step of Slurm's began that guards or a requeue may have started again. Cells add up the
 * seconds of computing in as many intervals as fit into RECORD_COLUMNS. */
struct record_ranks {
    int n;                 /* of the start that had most */
    int n_now;             /* of the last interval */
    double *compute_s;     /* [n_now], of all intervals since there were so many */
    double *exposed_s;     /* [n_now], likewise */
    double *memory_bytes;  /* [n], the most */
    int n_columns;
    size_t per_column;     /* intervals in each, but for the last */
    size_t n_in_last;
    struct record_column { uint64_t first, last; } column[RECORD_COLUMNS]; /* its steps: first to last */
    float *cell;           /* [RECORD_COLUMNS][n] */
};

struct record {
    struct record_line *line;
    struct record_start *start;
    struct record_train *train;
    struct record_interval *interval;
    struct record_other *other;
    size_t n_lines, n_starts, n_trains, n_intervals, n_others;
    bool has_steps; /* some line tells one */
    uint64_t step; /* that the run is at, by its last line that says one; a checkpoint's is only that of its state */
    size_t n_cut; /* lines that a kill had cut */
    size_t n_earlier; /* runs in the file before this one */
    struct record_ranks ranks;
    size_t last_begin;            /* the line of the last start */
    unsigned told, told_by_guard; /* of its generation: 1 << event */
};

/* Reads the last run of a record: what one job did, over restarts by guards, requeues, and steps that went on from a
 * checkpoint. Another job's start begins another run, as does that of a step of the same job that did not go on.
 * A guard writes what it knows of any program, beside what a program of libddp's writes itself. So its start counts
 * where the program has none of its own in that generation; of several stops, requeues and ends of a generation the
 * first does; a failure that both tell has the guard's cause and the program's step. What a guard writes of another
 * generation than the last one that began does not count. Lines of unknown events and unknown members are skipped; so
 * is a last line without its end, and lines in a row that were cut, where a start follows the last one, or is on it.
 * Returns 0, and the caller calls record_clear; or -1, with nothing to clear: the file cannot be read (DDP_E_SYSTEM),
 * or is not a record, or of a later version, or exceeds a limit above (DDP_E_DATA); the error names the file and the
 * line. */
int record_read(const char *path, struct record *ret, ddp_error_t *errp);
int record_read_stream(FILE *f, const char *name, struct record *ret, ddp_error_t *errp);

/* Frees what it holds. Takes a zeroed one, too. */
void record_clear(struct record *r);

/* Names the rank as "rank 3 (n1)", by the start that is the last with that rank. Returns buf. */
const char *record_rank_name(const struct record *r, int rank, char *buf, size_t size);

#endif
