/* resume.h - reads one checkpoint: every rank reads its share, and nothing is used before all checksums were compared.
 *
 * Rank 0 lists the folder and opens a checkpoint; all ranks receive the manifest's text and compare its tensors and
 * data with what they have declared. Then each rank reads its share into place, the checksums are added up and
 * compared, and only then do the ranks exchange what all of them hold. A checkpoint that does not fit the job is an
 * error; no older one is tried then. A broken checkpoint is named, and the one before it is tried; when a newer one is
 * committed the broken one is removed (commit_forget), or set aside (commit_suspect) where it may be whole. If there
 * are checkpoints and none is whole, the job does not start.
 *
 * Where the ranks' guards hold the state of a program that was started again (recall.h), no checkpoint is read. */
#ifndef DDP_RUNTIME_SAVE_RESUME_H
#define DDP_RUNTIME_SAVE_RESUME_H

#include "runtime/ckpt/manifest.h"
#include "runtime/ddp.h"

struct save;

/* Implements ddp_resume (ddp.h); the caller sees to it that it comes in its time. Collective. */
int resume_newest(struct save *save, const char *dir, ddp_error_t *errp);

/* Reads the manifest of the checkpoint in `path` on rank 0 and broadcasts it. 1: done; 0: the checkpoint is broken,
 * *errp says how; -1: error. The same on all ranks. Collective. */
int resume_manifest(struct save *save, const char *path, struct manifest *ret, ddp_error_t *errp);

/* Checks that the manifest's tensors are those of this job, with their shapes. ret_index[t]: the index in m of tensor t
 * of the plan's files. The same on all ranks; not collective. */
int resume_match(const struct save *save, const struct manifest *m, size_t *ret_index, ddp_error_t *errp);

/* Reads values and moments from the files. sum: zeroes, one for each tensor. 1: done; 0: the checkpoint is broken, and
 * the caller must not use what was read; -1: error. The same on all ranks. Collective. */
int resume_tensors(struct save *save, const char *path, const struct manifest *m, const size_t *index, uint64_t *sum,
                   ddp_error_t *errp);

/* Every rank gets what each has read of its part, or restored (recall.h). Collective. */
int resume_exchange(struct save *save, ddp_error_t *errp);

/* Reads the small file `name` of the checkpoint in `path` on rank 0 and broadcasts its text; malloc, the caller frees.
 * 1: done; 0: the checkpoint is broken, *errp says how; -1: error. The same on all ranks. Collective. */
int resume_text(struct save *save, const char *path, const struct manifest *m, const char *name, char **ret,
                ddp_error_t *errp);

#endif
