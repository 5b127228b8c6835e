/* ranks.h - runs a function as every rank of a made-up job: forked processes, placed on nodes that are only names. */
#ifndef DDP_T_LIB_RANKS_H
#define DDP_T_LIB_RANKS_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "runtime/comm/comm.h"
#include "t/lib/memboot.h"

enum { RANKS_MAX = 16 };

struct job {
    int size;
    const int *node_of; /* [size] */
    double timeout_s;   /* of the communicator, once it is wired up, for which ranks have 30 s at least; 0: 30 */
    enum comm_progress_mode progress;
    const void *arg;
    void *shared; /* mapped in all ranks, ranks_shared_bytes of zeros */
    struct memboot *boot;
    /* of job_run_comm */
    int (*with_comm)(struct job *j, int rank, comm_t *c);
    const struct world *world; /* within with_comm */
};
enum { ranks_shared_bytes = 1 << 20 };

/* In a rank's function: prints what failed and returns 1 from it. `rank` is in scope. */
#define CHECK(cond, ...)                                                                                               \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            fprintf(stderr, "# rank %d: %s:%d: ", rank, __FILE__, __LINE__);                                           \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, "\n");                                                                                     \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* What a rank does: returns its exit code. */
typedef int rank_f(struct job *j, int rank);

struct world *job_world(const struct job *j, int rank);
comm_t *job_comm(struct job *j, int rank, struct world **ret_w, ddp_error_t *errp);

void job_start(struct job *j, rank_f *f, pid_t *pids);
/* Exit codes, 128 + signal for killed ones; a rank that outlives the deadline is killed and counts as 999. */
void job_wait(const struct job *j, const pid_t *pids, double seconds, int *codes);
void job_end(struct job *j);

/* The three, for jobs in which every rank returns 0; false if one did not. */
bool job_run(struct job *j, rank_f *f);

/* The same with a communicator for each rank, which is destroyed afterwards; j->world is where ranks are. */
typedef int comm_rank_f(struct job *j, int rank, comm_t *c);
bool job_run_comm(struct job *j, comm_rank_f *f);

/* All-to-all in which each rank gives the n bytes at `in` to each, out: size * n. */
int job_alltoall(const struct job *j, comm_t *c, const char *in, size_t n, char *out, ddp_error_t *errp);

#endif
