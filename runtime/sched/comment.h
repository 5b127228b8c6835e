/* comment.h - the comment of this process' job, which `squeue -o %k`, `scontrol show job` and, with the site's
 * AccountingStoreFlags=job_comment, `sacct -o Comment` show.
 *
 * The user may have set one himself (--comment), and a script of his may read it. So it stays, and ours follows it:
 * "USER'S | ddp: OURS", or "ddp: OURS". */
#ifndef DDP_RUNTIME_SCHED_COMMENT_H
#define DDP_RUNTIME_SCHED_COMMENT_H

#include <stdint.h>

#include "runtime/base/error.h"

#define COMMENT_MAX 1024 /* bytes, as Slurm has it of those that are submitted */
#define COMMENT_PATIENCE_S 10.0

/* The comment `before` ("", or "(null)" as Slurm's commands say it: none) with `ours`, in place of what it has of ours.
 * 0, or -1: that would be longer than COMMENT_MAX - 1. Pure. */
int comment_join(const char *before, const char *ours, char ret[COMMENT_MAX], ddp_error_t *errp);

/* The comment of the job (or its part) id in what `squeue -o "%i <ddp<%k>ddp>"` has written, warnings and other parts
 * among it. DDP_E_DATA: it is not there whole. Pure. */
int comment_find(const char *text, const char *id, char ret[COMMENT_MAX], ddp_error_t *errp);

/* Puts ours, one line, into the comment of the job with that id (slurm_job_id), of a heterogeneous one into that of
 * this process' component. Code ENOENT: there is no squeue or scontrol here, as in many containers. */
int comment_set(const char *id, const char *ours, uint64_t deadline, ddp_error_t *errp);

#endif
