/* slurm.h - asks Slurm's controller about this job, and sends it requests, through scontrol. libslurm is not used: its
 * version would have to be the cluster's. */
#ifndef DDP_RUNTIME_SCHED_SLURM_H
#define DDP_RUNTIME_SCHED_SLURM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define SLURM_ID_MAX 63

/* The id of the job that this process is in, as scontrol takes it: "123", or "100_7" in an array, since "100" would
 * mean all tasks of the array. False: the process is in no job. From the environment. */
bool slurm_job_id(char ret[SLURM_ID_MAX + 1]);

/* How often the job was restarted (SLURM_RESTART_COUNT). */
int slurm_restarts(void);

enum slurm_state {
    SLURM_RUNNING,
    SLURM_TIMED_OUT, /* the job's time is over, and Slurm is ending it */
    SLURM_REQUEUED,  /* the job waits to be started again, or will wait once it has ended */
    SLURM_ENDING     /* cancelled, failed, or over */
};

struct slurm_job {
    enum slurm_state state;
    bool is_batch;     /* the job has a script to run again */
    bool may_requeue;  /* the job was not submitted with --no-requeue */
    int64_t end_s;     /* end of its time, since 1970; 0: no limit */
    int64_t suspended_s; /* how long it was suspended in all, until it last went on */
    char excluded[1024]; /* nodes on which the job must not run, as a host list; "": none */
};

/* Parses the output of `scontrol -o show job`, with times as seconds; restarts: slurm_restarts(). Pure. DDP_E_DATA. */
int slurm_parse(const char *text, int restarts, struct slurm_job *ret, ddp_error_t *errp);

/* Asks the controller for the same, until `deadline`; cancel_fd as in command.h. Error code ENOENT: there is no
 * scontrol. */
int slurm_ask(const char *id, uint64_t deadline, int cancel_fd, struct slurm_job *ret, ddp_error_t *errp);

/* Has the controller end the job and start it again. The job's processes get SIGTERM at once, and KillWait seconds (30,
 * unless the site says otherwise) later SIGKILL; the script starts again after about two minutes. */
int slurm_requeue(const char *id, uint64_t deadline, ddp_error_t *errp);

/* Has the controller end the step (JOB.STEP), and its srun stop waiting KillWait + 2 seconds later. Error code ENOENT:
 * there is no scancel. */
int slurm_cancel(const char *step, uint64_t deadline, ddp_error_t *errp);

/* Excludes these nodes from the job's next run: possible after slurm_requeue, also while Slurm is still ending the
 * job. */
int slurm_exclude(const char *id, const char *nodes, uint64_t deadline, ddp_error_t *errp);

#endif
