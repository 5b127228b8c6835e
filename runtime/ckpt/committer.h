/* committer.h - commits while training goes on: a thread on rank 0 makes the manifest, commits, and removes old
 * checkpoints; or it removes what is left of a save that has failed.
 *
 *   IDLE -> BUSY -> DONE | FAILED -> IDLE */
#ifndef DDP_RUNTIME_CKPT_COMMITTER_H
#define DDP_RUNTIME_CKPT_COMMITTER_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/manifest.h"
#include "runtime/ckpt/savedir.h"

enum committer_state { COMMITTER_IDLE, COMMITTER_BUSY, COMMITTER_DONE, COMMITTER_FAILED };

struct commit_job {
    const struct files *files;
    const uint64_t *checksum; /* [n_tensors] */
    struct manifest_state state;
    int (*enter)(const void *ctx, struct savedir *ret, ddp_error_t *errp); /* opens the folder of checkpoints */
    const void *ctx;
    const char *token;
    const struct folder_steps *seen; /* the checkpoints there, broken ones too, that the job has found or made */
    struct folder_steps *passed; /* what the job's resume found broken there: removed, and taken off; NULL: none */
    bool is_unread;             /* some of that could not be read: it is set aside instead */
    int keep;
    bool is_failed; /* not every rank has written its part: it is removed (checksum, seen to keep: not used) */
    bool is_clean;  /* the job has taken the folder over (commit_clean) */
};

struct committer {
    _Atomic enum committer_state state;
    struct commit_job job; /* its pointers are borrowed until the state is IDLE */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_committed; /* what is left to do is to remove old ones: */
    atomic_ulong n_removed;   /* files and folders, over all jobs */
    ddp_error_t error;     /* FAILED: why; DONE: what could not be removed (code 0: nothing); of a save that has failed,
                            * DONE: that the folder is another job's by now, if it is, which may be why */
    double took_s;
};

/* IDLE -> BUSY. A zeroed struct is IDLE. */
void committer_start(struct committer *c, const struct commit_job *job);
enum committer_state committer_state(const struct committer *c); /* cheap */

/* Waits until it is not BUSY, or until `deadline`: then has_thread is set still. */
void committer_wait(struct committer *c, uint64_t deadline);

/* Waits until it is not BUSY; then -> IDLE. */
void committer_reset(struct committer *c);

#endif
