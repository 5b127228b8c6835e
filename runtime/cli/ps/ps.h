/* ps.h - the ranks that run on a node, as `ddp ps` shows them. */
#ifndef DDP_RUNTIME_CLI_PS_PS_H
#define DDP_RUNTIME_CLI_PS_PS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "runtime/base/error.h"
#include "runtime/base/flight.h"
#include "runtime/stack/answer.h"

#define PS_STEP_MAX 32
#define PS_COMMAND_MAX 64

struct ps_rank {
    char step[PS_STEP_MAX]; /* "JOB.STEP"; "run-XXXX" under `ddp run` */
    char node[64];
    int rank;
    long pid;      /* of the rank's program */
    char state;    /* as in proc(5): R, S, D, T, Z */
    double cpu;    /* cores in use */
    double mib;    /* resident */
    int restarts;  /* of the step, in this allocation */
    bool has_flight;
    struct flight_view flight; /* what libddp does in it */
    /* The call, without libddp also the function, that it waits in; "": none, or not known; or PS_LACKS. */
    char waits[ANSWER_BYTES];
    char command[PS_COMMAND_MAX];
};

#define PS_LACKS "?" /* waits: its node has no ddp-waits */

struct ps_list {
    struct ps_rank *rank; /* [n]; the caller frees */
    size_t n;
};

/* This user's ranks on this node, in no order; step: of that one, or "JOB" of that job, or NULL. Takes a moment, in
 * which CPU use is measured. 0, or -1 with errno: no memory, or no /proc. */
int ps_here(const char *step, struct ps_list *ret);

/* This user's ranks of a running job or its step, "JOB[_TASK|+COMPONENT][.STEP]", on each of its nodes, which srun
 * asks with this program's `ps --lines`. *ret_whole: every node has answered; of one that has not, standard error has
 * a line. 0, or -1: nobody has answered, or squeue knows no such task. Takes variables of Slurm's out of the
 * environment. */
int ps_ask(const char *step, struct ps_list *ret, bool *ret_whole, ddp_error_t *errp);

#define PS_PROCESSES_MAX 16 /* of a rank, that are asked about */

/* The call of callname.h that n processes of a rank wait in, or, with_function, the C library's function that the first
 * of them does; "": it waits in none, or that cannot be known; PS_LACKS. */
void ps_find_call(const long *pid, size_t n, bool with_function, char ret[ANSWER_BYTES]);

/* Where ddp-waits is looked for last. */
const char *ps_helper(void);

/* One rank as a line, and back. false: this is no such line. */
void ps_write(FILE *f, const struct ps_rank *r);
bool ps_read(const char *line, struct ps_rank *ret);

/* A table, sorted by step and rank, and below it, of each step in which ranks wait for others, who has not entered
 * which collective; and on which node, the first one, ddp-waits is missing: `helper` is its path. */
void ps_show(FILE *f, struct ps_list *l, const char *helper);

#endif
