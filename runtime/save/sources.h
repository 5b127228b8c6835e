/* sources.h - the safetensors files that a model's values are loaded from, and which of them holds a tensor. */
#ifndef DDP_RUNTIME_SAVE_SOURCES_H
#define DDP_RUNTIME_SAVE_SOURCES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/manifest.h"
#include "runtime/ckpt/safetensors.h"

struct source {
    int fd;
    char path[FOLDER_PATH_MAX];
    struct st_head head;
};

struct source_tensor {
    const struct st_tensor *t;
    const struct source *in;
};

struct sources {
    struct source **file; /* [n] */
    size_t n;
    struct source_tensor *tensor; /* [n_tensors] of all files, by name */
    size_t n_tensors;
    struct manifest manifest; /* of a checkpoint: what is read is held against its checksums; else of no tensors */
};

/* Opens what `path` names: a file, or of a folder model.safetensors, else the files that its index names (index.h), as
 * `transformers` does; no other file of the folder is looked at. The caller frees *ret with sources_close, also after a
 * failure. -1: the error names the file that is missing or wrong, or the tensor that is in two of them, or not where
 * the index says. */
int sources_open(struct sources *ret, const char *path, ddp_error_t *errp);
void sources_close(struct sources *s);

/* The tensor of that name, or NULL. Borrowed. */
const struct source_tensor *sources_find(const struct sources *s, const char *name);

/* n bytes at byte `at` of the tensor, whole. */
int source_read(const struct source_tensor *t, void *ret, size_t n, uint64_t at, ddp_error_t *errp);

#endif
