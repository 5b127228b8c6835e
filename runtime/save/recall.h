/* recall.h - snapshots that outlive the process: where programs may be started again in their allocation, each rank's
 * guard keeps memory with the last two (base/handover.h, ckpt/slots.h), from which the next generation goes on without
 * reading a file.
 *
 * A snapshot holds this rank's part of a checkpoint (split.h), and a checkpoint is a snapshot that is then written:
 * both are copied to the same two slots, beside the next pass. Rank 0 says in the tail when one is due. A rank begins
 * one only when all ranks have the last one whole, since each waits for its copy before the tail; so two slots suffice
 * for a step that is whole on all of them, whenever they die. The slot that a checkpoint is written from stays as it is
 * until all have written, and the other one takes all snapshots.
 *
 * Where there are several nodes, each rank's two slots are also sent to the rank of equal local rank on the next node,
 * whose guard keeps them, beside training; the next snapshot begins when all have arrived (a checkpoint does not wait).
 * So what a node held is there when the node, or its guards, have gone.
 *
 * In a resume the ranks compare what they hold, and take the newest step that is sealed on all of them, of one
 * generation and of this layout, number of ranks, data and folder, with the right checksums; else the files, and a
 * warning says why. */
#ifndef DDP_RUNTIME_SAVE_RECALL_H
#define DDP_RUNTIME_SAVE_RECALL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/base/handover.h"
#include "runtime/ckpt/copier.h"
#include "runtime/ckpt/mirror.h"
#include "runtime/ckpt/slots.h"
#include "runtime/ckpt/snapshot.h"

#define RECALL_SHARE 0.01 /* of a processor's time that snapshots take, where no number of steps is set */
#define RECALL_PATH "memory" /* in place of a checkpoint's, in ddp_checkpoint_status */

struct save;

struct recall {
    struct handover handover; /* from the boot */
    bool is_open;             /* on all ranks */
    bool is_due;              /* after this step: agreed in its tail */
    bool is_mirrorless;       /* a copy's connection has failed, on some rank */
    bool has_begun;           /* the slots hold nothing of another course of training */
    bool is_foreign;          /* what the program before had kept has another key, on this rank */
    struct slots slots;
    struct snapshot plan;
    copier_t *copier;
    struct slots guest;       /* those of the rank that mirrors its own here; not open where nobody does */
    mirror_t *mirror;         /* NULL: none */
    struct recall_part {
        uint64_t n_bytes, key;
    } *part;                  /* [size] each rank's slots; NULL without a mirror */
    struct recall_flight {
        struct slots *slots;
        mirror_t *mirror;
        int slot;
        size_t n_tensors;
        struct slots_seal seal;
    } flight;                 /* the copy that goes on, or the last one, */
    struct writer_target target; /* and where to */
    int newest;               /* its slot; -1: none */
    int pinned;               /* a checkpoint is written from this one, while it is SAVING; -1: none */
    uint64_t step[SLOTS_N];   /* of this course of training */
    uint64_t began_ns;        /* the last one, by rank 0's pace, */
    double mirror_s;          /* what the mirror has taken so far, */
    double took_s, limit_s;   /* what this snapshot took beside its copy; of cost_s */
    double cost_s;            /* and what it took from this rank's training */
};

/* Opens the slots for the plan (checkpoint_plan), where guards keep memory and the option snapshot-every is not 0;
 * where memory is short a warning says so. Collective. */
int recall_open(struct save *save, ddp_error_t *errp);

/* Ends what recall_open began, after the writer; what guards keep stays. */
void recall_shut(struct save *save);
void recall_close(struct save *save); /* at the end of all */

/* Bytes of memory that recall_open takes, guards' memory included. */
size_t recall_bytes(const struct save *save);

/* In ddp_backward_end and ddp_join, before the tail: waits for the copy that goes on, and says whether one is due. */
void recall_fill_tail(struct save *save, double *tail);

/* For checkpoint_wait_copied. */
void recall_wait(struct save *save);

/* In ddp_step: what the tail says of all. */
void recall_after_step(struct save *save, const double *tail, bool is_skipped);

/* In ddp_batch_next, where a step begins: takes the snapshot that is due. */
void recall_take(struct save *save);

/* Where the checkpoint that begins is copied to; NULL: to the writer's own memory. */
const struct writer_target *recall_target(struct save *save);

/* Parameters are agreed up to this step only (verify.h): what is newer is forgotten. */
void recall_distrust(struct save *save, uint64_t agreed);

/* ---- recall_mirror.c: a copy on another node ---- */

/* The rank that keeps a copy of rank's snapshots, that of equal local rank on the next node; -1: none does. */
int recall_keeper(const struct save *save, int rank);

/* Opens the copies between nodes, where all nodes have the same number of ranks, after recall_open's slots; where that
 * fails a warning says so. Collective. */
int recall_open_mirror(struct save *save, ddp_error_t *errp);

/* The slot of this step from its keeper's memory to rank's own. -1: the exchange has failed. Collective. */
int recall_fetch(struct save *save, int rank, uint64_t step, uint64_t generation, ddp_error_t *errp);

/* ---- recall_restore.c ---- */

/* Restores the newest snapshot of checkpoints in the folder that was resumed from, unless there are files of a newer
 * step. 1: done; 0: there is none that counts, as a warning says in a generation that is not the first; -1.
 * Collective. */
int recall_restore(struct save *save, uint64_t newest_file, ddp_error_t *errp);

#endif
