/* slurm.h - this job as Slurm's controller knows it, asked and told through scontrol: without libslurm, whose version
 * would have to be the cluster's. */
#ifndef DDP_RUNTIME_SCHED_SLURM_H
#define DDP_RUNTIME_SCHED_SLURM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define SLURM_ID_MAX 63

/* The job that this process is in, as scontrol takes it: "123"; of an array "100_7", since "100" alone would mean all
 * its tasks. False: in none. From the environment. */
bool slurm_job_id(char ret[SLURM_ID_MAX + 1]);

/* Times that it was started anew (SLURM_RESTART_COUNT). */
int slurm_restarts(void);

enum slurm_state {
    SLURM_RUNNING,
    SLURM_TIMED_OUT, /* its time is over; it is being ended */
    SLURM_REQUEUED,  /* it waits to be started again, or will when it has been ended */
    SLURM_ENDING     /* cancelled, failed, or over */
};

struct slurm_job {
    enum slurm_state state;
    bool is_batch;     /* it has a script to run again */
    bool may_requeue;  /* not submitted with --no-requeue */
    int64_t end_s;     /* since 1970; 0: no limit */
    char excluded[1024]; /* nodes that it must not run on, as a host list; "": none */
};

/* From what `scontrol -o show job` prints, with times as seconds; restarts: slurm_restarts(). Pure. DDP_E_DATA. */
int slurm_parse(const char *text, int restarts, struct slurm_job *ret, ddp_error_t *errp);

/* The same, asked of the controller until `deadline`; cancel_fd as command.h has it. Error code ENOENT: there is no
 * scontrol here. */
int slurm_ask(const char *id, uint64_t deadline, int cancel_fd, struct slurm_job *ret, ddp_error_t *errp);

/* Has the controller end the job and start it again. The job's processes get SIGTERM at once, and KillWait seconds (30,
 * unless the site says otherwise) later SIGKILL; the script starts again after about two minutes. */
int slurm_requeue(const char *id, uint64_t deadline, ddp_error_t *errp);

/* The job must not run on these nodes any more: possible from slurm_requeue on, also while it is still being ended. */
int slurm_exclude(const char *id, const char *nodes, uint64_t deadline, ddp_error_t *errp);

#endif
