/* index.h - reads a model's index as `transformers` writes it: which of several files holds each tensor. files.h writes
 * ours. Pure. */
#ifndef DDP_RUNTIME_CKPT_INDEX_H
#define DDP_RUNTIME_CKPT_INDEX_H

#include <stddef.h>

#include "runtime/base/error.h"

#define INDEX_NAME "model.safetensors.index.json"

struct index_entry {
    const char *tensor, *file;
};

struct json_t;
struct index {
    struct index_entry *entry; /* [n], by file */
    size_t n;
    struct json_t *json; /* holds the texts */
};

/* Reads text[0..n), which may come from anyone: {"weight_map": {TENSOR: FILE, ...}}; other members are not looked at.
 * Refuses a map without tensors, and a FILE that is no plain name (files.h), so that nobody is led out of the folder.
 * The caller frees *ret with index_clear. 0, or -1 with DDP_E_DATA: the error names `what`. */
int index_decode(const char *text, size_t n, const char *what, struct index *ret, ddp_error_t *errp);
void index_clear(struct index *x); /* a zeroed struct is allowed */

#endif
