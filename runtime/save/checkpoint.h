/* checkpoint.h - a checkpoint's way through a job.
 *
 *   IDLE -> SAVING      every rank copies and writes its part (ckpt/writer.h)
 *        -> COMMITTING  all have written: the sums are added up, rank 0 commits (ckpt/committer.h)
 *        -> IDLE        committed; or, from either, given up
 *
 * Ranks move by sums over all ranks alone: the tail of the gradients' reduction (reducer.h), or, where training waits,
 * the same numbers summed for that. These are the same on all ranks, so ranks are always in the same state, and no
 * thread but the caller's ever makes a collective call. A rank that cannot write says so in the tail; a save is given
 * up only when no rank writes any more. */
#ifndef DDP_RUNTIME_SAVE_CHECKPOINT_H
#define DDP_RUNTIME_SAVE_CHECKPOINT_H

#include <stdbool.h>

#include "kernels/optim.h"
#include "runtime/ckpt/commit.h"
#include "runtime/ckpt/committer.h"
#include "runtime/ckpt/files.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/manifest.h"
#include "runtime/ckpt/savedir.h"
#include "runtime/ckpt/writer.h"
#include "runtime/ddp.h"
#include "runtime/save/readback.h"
#include "runtime/save/split.h"

enum checkpoint_phase { CHECKPOINT_IDLE, CHECKPOINT_SAVING, CHECKPOINT_COMMITTING };

enum { CHECKPOINT_VALUES, CHECKPOINT_MOMENTS, CHECKPOINT_ARENAS = CHECKPOINT_MOMENTS + OPTIM_MOMENTS };

/* What is written and read, and by whom; made once. */
struct checkpoint_plan {
    bool is_made;
    bool has_window; /* the last tensors are those of cut.h */
    struct files files;
    struct share_arena arena[CHECKPOINT_ARENAS]; /* those that every rank holds whole, n_arenas of them */
    size_t *offset[CHECKPOINT_ARENAS];
    int n_arenas;
    struct share share; /* this rank's part */
};

struct checkpoint {
    enum checkpoint_phase phase;
    struct checkpoint_plan plan;
    struct files_small *attached; /* [n_attached] by the program */
    int n_attached;
    ckpt_writer_t *writer;        /* from the first folder that is opened on */
    struct readback readback;     /* on a GPU: the writer's source */
    uint64_t *sum;                /* [n_tensors] of the save that is being committed */
    struct committer committer;   /* rank 0's */
    char *dir;                    /* where saves go; NULL: not open */
    struct savedir_known known;   /* of it, on this node */
    char token[2 * COMMIT_TOKEN_BYTES + 1];
    char *resumed_dir;            /* that ddp_resume was given; or NULL */
    struct manifest_state state;  /* of the present save; the part that does not change from the start */
    struct ddp_checkpoint_status status;
    uint64_t warned_ns;           /* when the step of the last warning began; 0: before the first */
    ddp_error_t start_error;      /* why this rank's part could not even begin */
    double trained_s;             /* in steps, with earlier runs */
    bool has_last;                /* status.last_step is in dir, */
    int last_micro;               /* and so are so many micro-steps of the step after it, on as many ranks as here */
    bool is_clean;                /* rank 0: dir is this job's, and holds nothing of those that were killed */
    bool has_state;               /* checkpoint_state_begin was called */
    bool is_postponed;            /* one was due while it could not be begun */
    bool is_stopping, was_due;    /* of the last step: it set `stop`, `checkpoint` */
};

/* This rank's part of a tail: in ddp_backward_end, and where ddp_join makes an empty pass. */
void checkpoint_fill_tail(const ddp_t *d, double *tail);

/* Before parameters or optimizer state change: nothing is being copied any more. */
void checkpoint_wait_copied(ddp_t *d);

/* In ddp_step, with the summed tail: moves on, and sets s->checkpoint. -1: a checkpoint that is required failed, or a
 * collective. Collective. */
int checkpoint_after_step(ddp_t *d, const double *tail, struct ddp_step *s, ddp_error_t *errp);

/* The same after a step that was cut (cut.h): the job stops. */
void checkpoint_after_cut(ddp_t *d);

/* The save in flight, to its end. Collective. */
int checkpoint_settle(ddp_t *d, ddp_error_t *errp);

void checkpoint_close(ddp_t *d);

/* ---- checkpoint_plan.c ---- */

/* Makes the plan, if it is not made. Not collective. */
int checkpoint_plan(ddp_t *d, ddp_error_t *errp);

/* The plan, and the writer with its memory, if they are not there; nobody touches memory before all may. Collective. */
int checkpoint_take_memory(ddp_t *d, ddp_error_t *errp);

/* Frees both. */
void checkpoint_drop_plan(ddp_t *d);

/* Bytes of the memory that was taken. */
size_t checkpoint_bytes(const ddp_t *d);

/* The plan anew, with or without what cut.h has to save; without it where memory is short. Collective. */
int checkpoint_plan_window(ddp_t *d, ddp_error_t *errp);

/* ---- checkpoint_open.c ---- */

/* dir as it is compared: "./run//ckpt/" is "run/ckpt". Error: NULL, no name, or one that is too long. */
int checkpoint_tidy(const char *dir, char ret[FOLDER_PATH_MAX], ddp_error_t *errp);

/* Opens dir for saves: checks that it is the same folder on all ranks, and takes the memory for snapshots. Collective.
 * Returns 0; CHECKPOINT_UNWRITABLE: dir cannot be made or written; CHECKPOINT_SHARED: other users can write to it, and
 * the option ckpt-private forbids that; -1: any other error. *errp says why wherever the result is not 0. All ranks
 * return the same value and the same text. */
enum { CHECKPOINT_UNWRITABLE = 1, CHECKPOINT_SHARED };
int checkpoint_open(ddp_t *d, const char *dir, ddp_error_t *errp);

/* That folder, as long as it is the one that was opened. -1: error. */
int checkpoint_enter(const ddp_t *d, struct savedir *ret, ddp_error_t *errp);

/* Before a save: rank 0 takes dir over, and removes what killed jobs left (commit_clean), once. */
void checkpoint_clean(ddp_t *d);

/* The folder is no longer this job's (commit_leave), if it was. */
void checkpoint_leave(ddp_t *d);

/* ---- checkpoint_agree.c ---- */

/* own: what stops this rank (code 0: nothing). *ret is the error of the first rank that has one, with that rank's name
 * where there are several, the same on all; code 0: none has. -1: the collective failed, *errp says why. Collective. */
int checkpoint_agree(ddp_t *d, const ddp_error_t *own, ddp_error_t *ret, ddp_error_t *errp);

/* sum[n_tensors] of this rank's blocks becomes that of all ranks', modulo 2^64. Collective. */
int checkpoint_add_sums(ddp_t *d, uint64_t *sum, ddp_error_t *errp);

/* Keeps the text for ddp_checkpoint_status, on rank 0. It replaces those from before the last step began; what is
 * warned of since then, or before the first step, is kept together. */
void checkpoint_warn(ddp_t *d, const char *fmt, ...) ERROR_PRINTF(2, 3);

/* DIR/step-N of the last one, for ddp_checkpoint_status. */
void checkpoint_set_path(ddp_t *d, const char *dir, uint64_t step);

/* ---- checkpoint_state.c: what a manifest says beside files and tensors ---- */

void checkpoint_state_begin(ddp_t *d); /* before the first save or resume */
void checkpoint_state_fill(ddp_t *d);  /* of a save that begins: rank 0 */

/* A manifest's state fits this job: *errp says where it does not; -1. */
int checkpoint_state_check(const ddp_t *d, const struct manifest_state *m, ddp_error_t *errp);

/* Warns of what differs and may change bits. */
void checkpoint_state_compare(ddp_t *d, const struct manifest_state *m);
int checkpoint_state_restore(ddp_t *d, const struct manifest_state *m, ddp_error_t *errp);

#endif
