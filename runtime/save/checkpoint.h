/* checkpoint.h - the states of a checkpoint while a job takes it.
 *
 *   IDLE -> SAVING      every rank copies and writes its part (ckpt/writer.h)
 *        -> COMMITTING  all ranks have written: the checksums are added up, rank 0 commits (ckpt/committer.h)
 *        -> IDLE        committed, or failed
 *   SAVING -> GIVING_UP a rank has failed, and no rank writes any more: rank 0 removes what there is
 *          -> IDLE
 *
 * A rank changes state only by sums over all ranks: the tail of the gradients' reduction (reducer.h), or, where
 * training waits for a checkpoint, the same numbers summed by a collective of their own. These sums are the same on all
 * ranks, so all ranks are always in the same state, and only the caller's thread ever makes a collective call. A rank
 * that cannot write reports that in the tail. In a save all work on the file system is done by threads: one that hangs
 * holds no step. */
#ifndef DDP_RUNTIME_SAVE_CHECKPOINT_H
#define DDP_RUNTIME_SAVE_CHECKPOINT_H

#include <stdatomic.h>
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

struct save;

enum checkpoint_phase { CHECKPOINT_IDLE, CHECKPOINT_SAVING, CHECKPOINT_COMMITTING, CHECKPOINT_GIVING_UP };

enum { CHECKPOINT_VALUES, CHECKPOINT_MOMENTS, CHECKPOINT_ARENAS = CHECKPOINT_MOMENTS + OPTIM_MOMENTS };

/* Which tensors are written and read, and by which rank; made once. */
struct checkpoint_plan {
    bool is_made;
    int cut_micro;   /* the last tensors are those of cut.h, of so many micro-steps; 0: there are none */
    struct files files;
    struct split_arena arena[CHECKPOINT_ARENAS]; /* [n_arenas] the arenas that every rank holds whole */
    size_t *offset[CHECKPOINT_ARENAS];
    int n_arenas;
    struct split split; /* this rank's part */
};

/* A save that has failed for want of space. */
struct checkpoint_full {
    ddp_error_t why; /* code 0: the last save has not, or is given up */
    uint64_t step;   /* after which it was begun */
    uint64_t until;  /* clock.h: it may be tried again, */
    int n_tries;     /* as it was so often */
    char dir[FOLDER_BRIEF_MAX + 1];
    bool has_broken; /* the team, between steps, as ckpt-required=on wants it */
};

struct checkpoint {
    enum checkpoint_phase phase;
    struct checkpoint_plan plan;
    struct files_small *attached; /* [n_attached] files that the program has attached */
    int n_attached;
    ckpt_writer_t *writer;        /* created when the first folder is opened */
    struct readback readback;     /* on a GPU: the writer's source */
    uint64_t *sum;                /* [n_tensors] checksums of the save that is being committed */
    struct committer committer;   /* on rank 0 */
    char *dir;                    /* the folder for saves; NULL: not open */
    struct savedir_known known;   /* how this node identifies dir */
    struct folder_steps seen;     /* rank 0: the checkpoints that dir had when it was opened, and this job's there */
    char token[2 * COMMIT_TOKEN_BYTES + 1];
    char *path;                   /* dir, from "/" on: the program may go elsewhere */
    char *resumed_path;           /* the folder that ddp_resume was given; or NULL */
    uint64_t path_sum, resumed_sum; /* of these paths on rank 0: other nodes may have them elsewhere */
    char **left_path;             /* [n_left] what path was before, once each */
    int n_left;
    struct folder_steps passed;   /* what it found broken there, newer than what it resumed from; on rank 0 without what
                                   * has been removed since, or set aside: */
    bool is_unread;               /* some of that could not be read, and may be whole */
    struct manifest_state state;  /* of the present save; its constant part is filled once */
    struct ddp_checkpoint_status status;
    struct ddp_checkpoint_status before; /* that, when the save in flight, or else the last one, began */
    uint64_t warned_ns;           /* when the step of the last warning began; 0: before the first step */
    ddp_error_t start_error;      /* why this rank could not start to copy its part */
    int culprit;                  /* the rank whose error all have agreed on last (checkpoint_agree) */
    ddp_error_t torn;             /* why its part is not to be kept, whether or not it is written */
    double trained_s;             /* time spent in steps, earlier runs included */
    bool has_last;                /* dir has a checkpoint of status.last_step, */
    int last_micro;               /* and in it so many micro-steps of the next step, from which this job can go on */
    atomic_bool is_clean;         /* rank 0: this job has taken dir over and removed what killed jobs left, */
    ddp_error_t left;             /* but for this (code 0: nothing, or it has been said) */
    bool has_state;               /* checkpoint_state_begin was called */
    bool is_postponed;            /* a checkpoint was due when none could be begun */
    bool is_asked;                /* ddp_checkpoint was called when none could be begun, and not since */
    struct checkpoint_full full;
    int n_tries;                  /* how often the save in flight is begun anew where it fails; 0 but for a last one */
    bool is_stopping, was_due;    /* the last step set `stop`; it set `checkpoint` */
};

/* Implement the calls of ddp.h of these names (checkpoint_folder: ddp_checkpoint_open; checkpoint_take:
 * ddp_checkpoint, text NULL, and ddp_state_save). The caller sees to it that a call comes in its time. The first two
 * are collective. */
int checkpoint_folder(struct save *save, const char *dir, ddp_error_t *errp);
int checkpoint_take(struct save *save, const char *dir, const char *text, ddp_error_t *errp);
void checkpoint_tear(struct save *save, const char *why); /* ddp_state_torn, after checkpoint_wait_copied */
int checkpoint_attach(struct save *save, const char *name, const char *text, ddp_error_t *errp);
int checkpoint_note(struct save *save, const char *key, const char *text, ddp_error_t *errp);

/* Fills this rank's part of a tail: in ddp_backward_end, and where ddp_join makes an empty pass. */
void checkpoint_fill_tail(const struct save *save, double *tail);

/* Called before parameters or optimizer state change: waits until the save in flight, or the snapshot (recall.h), has
 * copied them. */
void checkpoint_wait_copied(struct save *save);

/* Called in ddp_step with the summed tail: changes the state as the sums say, and sets s->checkpoint. -1: a checkpoint
 * failed and the option ckpt-required is set, or a collective failed. Collective. */
int checkpoint_after_step(struct save *save, const double *tail, struct ddp_step *s, ddp_error_t *errp);

/* The same after a step that was cut (cut.h), when the job stops. */
void checkpoint_after_cut(struct save *save);

/* Parameters agreed up to step `agreed` only (verify.h): on rank 0, later checkpoints of this job are set aside
 * (commit_suspect), one that is being committed too. Returns how many; -1: they cannot be. */
int checkpoint_distrust(struct save *save, uint64_t agreed);

/* Waits until the save in flight is committed or given up: as long as it gets on, however slowly. DDP_E_TIMEOUT: no
 * rank has written anything for the time that any wait may take. Collective. */
int checkpoint_settle(struct save *save, ddp_error_t *errp);

/* Implements ddp_checkpoint_wait: the same, and then for the save that was asked for meanwhile. Collective. */
int checkpoint_wait(struct save *save, ddp_error_t *errp);

/* False: a thread is still in a system call that the file system does not end; what it uses must stay. */
bool checkpoint_close(struct save *save);

/* ---- checkpoint_plan.c ---- */

/* Makes the plan, unless it is made already. Not collective. */
int checkpoint_plan(struct save *save, ddp_error_t *errp);

/* Makes the plan, and the writer with its memory, unless they are made already. The ranks first agree that the memory
 * of each node suffices; only then is it touched. Collective. */
int checkpoint_take_memory(struct save *save, ddp_error_t *errp);

/* Frees the plan and the writer. */
void checkpoint_drop_plan(struct save *save);

/* Bytes of the memory that checkpoint_take_memory took. */
size_t checkpoint_bytes(const struct save *save);

/* Makes the plan anew, with or without the tensors that cut.h has to save; without them if memory is short.
 * Collective. */
int checkpoint_plan_cut(struct save *save, ddp_error_t *errp);

/* ---- checkpoint_open.c ---- */

/* dir in the form in which folders are compared: "./run//ckpt/" becomes "run/ckpt". -1: dir is NULL, empty or too
 * long. */
int checkpoint_tidy(const char *dir, char ret[FOLDER_PATH_MAX], ddp_error_t *errp);

/* dir, tidied, from "/" on as the process stands now; as it is where that cannot be told, is too long, or does not lead
 * there. malloc, the caller frees; NULL: no memory. */
char *checkpoint_path(const char *dir);

/* Opens dir for saves: checks that it is the same folder on all ranks, and takes the memory for snapshots. Collective.
 * Returns 0; CHECKPOINT_UNWRITABLE: dir cannot be made or written, or some rank cannot open it; CHECKPOINT_SHARED:
 * other users can write to it, and the option ckpt-private forbids that; -1: any other error. *errp says why wherever
 * the result is not 0. All ranks return the same value and the same text. */
enum { CHECKPOINT_UNWRITABLE = 1, CHECKPOINT_SHARED };
int checkpoint_open(struct save *save, const char *dir, ddp_error_t *errp);

/* Opens the folder of checkpoint_open again, into *ret. -1: error, also if another folder now has its name, or if
 * others can write to it and the option ckpt-private is set. ctx: the struct save. */
int checkpoint_enter(const void *ctx, struct savedir *ret, ddp_error_t *errp);

/* Enters the folder of the save that has begun, in the writer's thread (writer.h; ctx: the struct save). Before the
 * first one, rank 0 takes dir over and removes what killed jobs left (commit_clean). */
int checkpoint_enter_saving(void *ctx, struct savedir *ret, ddp_error_t *errp);

/* Gives the folder up (commit_leave), if this job had taken it over. */
void checkpoint_leave(struct save *save);

/* ---- checkpoint_agree.c ---- */

/* own: this rank's error (code 0: none). *ret becomes the error of the lowest rank that has one, the same on all ranks;
 * its text names that rank if there are several ranks, as does `culprit`. Code 0: no rank has an error. -1: the
 * collective failed, *errp says why. Collective. */
int checkpoint_agree(struct save *save, const ddp_error_t *own, ddp_error_t *ret, ddp_error_t *errp);

/* *ret becomes the same on all ranks: a checksum of rank 0's path. Collective. */
int checkpoint_path_sum(struct save *save, const char *path, uint64_t *ret, ddp_error_t *errp);

/* sum[n_tensors], the checksums of this rank's blocks, become those of all ranks' blocks, modulo 2^64. Collective. */
int checkpoint_add_sums(struct save *save, uint64_t *sum, ddp_error_t *errp);

/* On rank 0, keeps a warning for ddp_checkpoint_status. It replaces the warnings from before the last step began; those
 * since then, or from before the first step, are kept together. */
void checkpoint_warn(struct save *save, const char *fmt, ...) ERROR_PRINTF(2, 3);

/* Sets the path that ddp_checkpoint_status reports, DIR/step-N, to that of the last checkpoint. */
void checkpoint_set_path(struct save *save, const char *dir, uint64_t step);

/* ---- checkpoint_retry.c ---- */

/* The save of the present step in dir has failed by `why`: noted, where it was for want of space. */
void checkpoint_note_full(struct save *save, const char *dir, const ddp_error_t *why);

/* Before checkpoint_retry: a team that such a failure alone has broken is whole again. */
void checkpoint_unbreak(struct save *save);

/* Implements ddp_checkpoint_retry. */
int checkpoint_retry(struct save *save, ddp_error_t *errp);

/* ---- checkpoint_state.c: the part of a manifest that is not about files and tensors ---- */

void checkpoint_state_begin(struct save *save); /* called before the first save or resume */
void checkpoint_state_fill(const struct save *save, struct manifest_state *s); /* what changes; when a save begins */

/* 0 if a manifest's state fits this job; else -1, and *errp says what does not fit. */
int checkpoint_state_check(const struct save *save, const struct manifest_state *m, ddp_error_t *errp);

/* Warns of differences that may change the bits of results. */
void checkpoint_state_compare(struct save *save, const struct manifest_state *m);
int checkpoint_state_restore(struct save *save, const struct manifest_state *m, ddp_error_t *errp);

#endif
