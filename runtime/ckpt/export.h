/* export.h - copies what others read out of a checkpoint: a group of its tensors, which lie in several files, into one
 * file, and its small files. */
#ifndef DDP_RUNTIME_CKPT_EXPORT_H
#define DDP_RUNTIME_CKPT_EXPORT_H

#include "runtime/base/error.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/manifest.h"

/* What is written as `temporary`, which must not exist, and becomes `file` when all that belongs together is written.
 * Errors begin with `file`. */
struct export_file {
    char file[FOLDER_PATH_MAX], temporary[FOLDER_PATH_MAX];
};

/* Copies the tensors of group `group` ("model": those in model-*.safetensors) of the open checkpoint in `path` into one
 * safetensors file, in the order of the manifest, and compares each with its checksum. The temporary is on disk
 * afterwards; the caller removes what is left of it after an error. DDP_E_USAGE: the checkpoint has no such tensors. */
int export_group(const char *path, const struct manifest *m, const char *group, const struct export_file *to,
                 ddp_error_t *errp);

/* Copies the small file `name` of the checkpoint in the same way. */
int export_small(const char *path, const struct manifest *m, const char *name, const struct export_file *to,
                 ddp_error_t *errp);

/* The temporary becomes the file, on disk. */
int export_move(const struct export_file *to, ddp_error_t *errp);

#endif
