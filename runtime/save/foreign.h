/* foreign.h - checkpoints of a state that is another framework's (ddp.h, "beside another framework's training").
 *
 * They go the way of libddp's own (checkpoint.h, resume.h); only the plan comes from elsewhere. For a save it holds the
 * tensors that the program has declared, in its own memory; for a resume those of the manifest, in one block of memory,
 * from which the program takes what it wants. */
#ifndef DDP_RUNTIME_SAVE_FOREIGN_H
#define DDP_RUNTIME_SAVE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/ckpt/files.h"
#include "runtime/ckpt/manifest.h"

struct save;

#define FOREIGN_TEXT_NAME "state.json"

struct foreign_tensor {
    struct st_tensor t;
    char group[32];
    const void *data; /* borrowed; not looked at where another rank is the owner */
    int owner;        /* the rank that writes it; -1: all have it, and each writes a part */
};

struct foreign {
    bool is_open;
    struct foreign_tensor *tensor; /* [n] as declared: a group's one after another */
    size_t n, room;
    uint64_t planned;              /* foreign.c: the sum of those that the plan holds; 0: it has none of them */
    struct {
        struct files_tensor *tensor; /* [n] what a resume has read: names and sizes, */
        size_t *offset;              /* [n] and where in block */
        size_t n;
        char *block;
        char *text;
    } found;
};

/* Makes the state one of another framework's. */
void foreign_open(struct save *save);
void foreign_close(struct save *save); /* one that is not open is allowed */

/* ddp_state_add; t.first is ignored. foreign_forget: ddp_state_reset, with no save being copied. */
int foreign_add(struct save *save, const struct foreign_tensor *t, ddp_error_t *errp);
void foreign_forget(struct save *save);

/* ddp_state_find. */
const void *foreign_find(const struct save *save, const char *name, size_t *ret_bytes);

/* Bytes of the tensors that are declared, those of other ranks included. */
uint64_t foreign_bytes(const struct save *save);

/* For checkpoint_plan: the files and this rank's part of what is declared. */
int foreign_plan(struct save *save, ddp_error_t *errp);

/* *ret_is_stale: the plan has to be made anew, on all ranks alike. -1 also where they declare different tensors.
 * Collective. */
int foreign_agree(struct save *save, bool *ret_is_stale, ddp_error_t *errp);

/* Before a save: the plan's pieces are read from where the tensors lie now, and state.json has this text. */
int foreign_point(struct save *save, const char *text, ddp_error_t *errp);

/* For resume.c: reads the checkpoint in `path` into memory, which foreign_forget frees. 1: done; 0: the checkpoint is
 * broken; -1: error. The same on all ranks. Collective. */
int foreign_read(struct save *save, const char *path, const struct manifest *m, ddp_error_t *errp);

#endif
