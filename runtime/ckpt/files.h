/* files.h - which files a checkpoint has, and which byte of which tensor lies where: a function of the declared tensors
 * alone, never of ranks, nodes or time. Pure.
 *
 * Tensors come in groups, in the order in which they are given. A group NAME becomes the files
 * NAME-00001-of-0000N.safetensors, filled in order until the next tensor would make the data of one larger than
 * max_bytes (a larger tensor has a file of its own), and NAME.safetensors.index.json, which says in which file each
 * tensor is, in the layout of Hugging Face's `transformers`: {"metadata": {"total_size": BYTES}, "weight_map": {TENSOR:
 * FILE}}. A group without tensors has no files. */
#ifndef DDP_RUNTIME_CKPT_FILES_H
#define DDP_RUNTIME_CKPT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/safetensors.h"

#define FILES_NAME_MAX 63

struct files_group {
    const char *name;              /* "model" */
    const struct st_tensor *tensor; /* [n]; first and n_bytes are ignored */
    size_t n;
};

struct files_file {
    char name[FILES_NAME_MAX + 1];
    char *head; /* [head_bytes] */
    size_t head_bytes;
    uint64_t n_bytes; /* of the whole file, head included */
};

struct files_tensor {
    struct st_tensor t;
    int file;
    uint64_t at_bytes; /* in the file, head included */
};

struct files_small {
    char name[FILES_NAME_MAX + 1];
    char *text;
    size_t n_bytes;
};

struct files {
    struct files_tensor *tensor; /* [n_tensors]: all groups', one group after the other */
    size_t n_tensors;
    struct files_file *file; /* [n_files] */
    int n_files;
    struct files_small *small; /* [n_small]: the groups' indexes, then what files_attach added */
    int n_small;
};

/* max_bytes: of a file's data (the option ckpt-file-mb). Fills *ret; files_clear frees. DDP_E_USAGE: a tensor's name is
 * in two groups or twice in one, or there are more than JSON_TENSORS_MAX (json_limit.h), which no manifest holds. */
int files_make(struct files *ret, const struct files_group *group, int n_groups, uint64_t max_bytes,
               ddp_error_t *errp);
void files_clear(struct files *f); /* a zeroed struct is allowed */

/* Adds a small file of the caller's ("config.json"), or replaces its text. Both are copied. The name is a plain file
 * name (files_is_plain_name) that no other file of the checkpoint has. */
int files_attach(struct files *f, const char *name, const char *text, ddp_error_t *errp);

/* Letters, digits and ._-, the first of them no dot; at most FILES_NAME_MAX. */
bool files_is_plain_name(const char *name);
int files_check_name(const char *name, ddp_error_t *errp); /* -1: it is not */

#endif
