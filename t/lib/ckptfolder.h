/* ckptfolder.h - checkpoint folders for tests, written plainly: what a reader must understand, whoever writes it. */
#ifndef DDP_T_CKPTFOLDER_H
#define DDP_T_CKPTFOLDER_H

#include "runtime/ckpt/files.h"
#include "runtime/ckpt/manifest.h"

struct st_tensor ckptfolder_tensor(const char *name, enum st_dtype dtype, int ndim, const uint64_t *shape);

/* What tensor `t` of `f` holds: malloc, the caller frees. Finite numbers where its type is F32. */
void *ckptfolder_data(const struct files *f, size_t t);

/* Makes the folder `path` with all of f, filled by ckptfolder_data, and its manifest. Ends the program on errors. */
void ckptfolder_write(const char *path, const struct files *f, const struct manifest_state *state);

/* Opens a checkpoint and reads all of it, as `ddp ckpt verify` does. 0, or -1 with its error. */
int ckptfolder_verify(const char *path, ddp_error_t *errp);

/* The files of a small model of two groups, in files of at most max_bytes, with a config.json. */
void ckptfolder_model(struct files *ret, uint64_t max_bytes);

#endif
