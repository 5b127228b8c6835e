/* read_impl.h - between the files of the reader. */
#ifndef DDP_RECORD_READ_IMPL_H
#define DDP_RECORD_READ_IMPL_H

#include <errno.h>
#include <jansson.h>

#include "runtime/record/read.h"

#define RECORD_NO_JSON EILSEQ

/* One line, text[0..n) without its newline, appended to r. 0; 1: an unknown event, nothing was appended; -1: no memory,
 * or DDP_E_DATA, with code RECORD_NO_JSON where the line is not JSON at all; r is as it was. */
int record_add_line(struct record *r, const char *text, size_t n, ddp_error_t *errp);

/* The first lines go, and what only they have, but for the table of ranks. */
void record_drop(struct record *r, size_t n_lines);

/* Of the same job, or of none. */
bool record_is_same_job(const struct record_start *a, const struct record_start *b);
/* Whether b, a later start than a, is of the same step, which guards have started again, or of the same job, which
 * Slurm has requeued. Without a job: no. */
bool record_is_same_step(const struct record_start *a, const struct record_start *b);

/* MEMBER_TEXT: a char * that whoever holds the struct frees; REAL and SECONDS: double; COUNT: uint64_t; INT: int. */
enum record_type { MEMBER_REAL, MEMBER_SECONDS, MEMBER_COUNT, MEMBER_INT, MEMBER_TEXT };
struct record_member {
    const char *name; /* NULL ends a table */
    enum record_type type;
    size_t offset;
    bool is_needed;
};

/* Stores a value that is there. false: it is of the wrong kind, out of range, or there is no memory. */
bool record_store(const json_t *v, enum record_type type, void *at);
/* The line's members of table m into the struct at `to`; those that it lacks become NAN, "", -1 or 0. 0, or -1. */
int record_members(const json_t *line, const char *event, const struct record_member *m, void *to, ddp_error_t *errp);
/* "a line EVENT WHY MEMBER"; returns -1. */
int record_bad(ddp_error_t *errp, const char *event, const char *member, const char *why);

/* An interval's numbers of n ranks (compute_s, exposed_s, memory_bytes; each NULL: not told) into the table of ranks.
 * Steps: the last of the interval, and how many. 0, or -1: no memory. */
int record_ranks_add(struct record_ranks *ranks, int n, const double *compute_s, const double *exposed_s,
                     const double *memory_bytes, uint64_t step, uint64_t n_steps);
/* Room for n ranks. 0, or -1: no memory, nothing changed. */
int record_ranks_grow(struct record_ranks *ranks, int n);
void record_ranks_clear(struct record_ranks *ranks);

#endif
