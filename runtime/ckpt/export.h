/* export.h - copies what others read out of a checkpoint: a group of its tensors, which lie in several files, into one
 * file, and its small files. */
#ifndef DDP_RUNTIME_CKPT_EXPORT_H
#define DDP_RUNTIME_CKPT_EXPORT_H

#include "runtime/base/error.h"
#include "runtime/ckpt/manifest.h"

/* Copies the tensors of group `group` ("model": those in model-*.safetensors) of the open checkpoint in `path` into one
 * safetensors file, in the order of the manifest, and compares each with its checksum. The file is written as
 * `temporary`, which must not exist, fsynced, and renamed to `file`; `temporary` is gone afterwards, whatever happened.
 * DDP_E_USAGE: the checkpoint has no such tensors. */
int export_group(const char *path, const struct manifest *m, const char *group, const char *file, const char *temporary,
                 ddp_error_t *errp);

/* Copies the small file `name` of the checkpoint in the same way; reader_open has compared its checksum. */
int export_small(const char *path, const char *name, const char *file, const char *temporary, ddp_error_t *errp);

#endif
