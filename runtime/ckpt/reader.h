/* reader.h - lists the checkpoints of a folder, and reads one. commit.h writes them.
 *
 *   DIR/step-00000100/             a checkpoint, once manifest.json is in it
 *   DIR/.saving-TOKEN-step-.../    being written, or left by a job that was killed
 *
 * Steps have at least 8 digits. Nothing else in DIR is looked at. */
#ifndef DDP_RUNTIME_CKPT_READER_H
#define DDP_RUNTIME_CKPT_READER_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/manifest.h"

/* The steps whose folder has a manifest (or may have one, if that cannot be found out), rising; malloc, the caller
 * frees. 0, or -1: the folder cannot be read. A folder that does not exist has none. */
int reader_list(const char *dir, uint64_t **ret, size_t *ret_n, ddp_error_t *errp);

/* Reads the manifest of the checkpoint folder `path` (DIR/step-00000100), and checks that it is of the step in that
 * name, where there is one, every file's presence and size and the checksums of heads and small files, but not yet the
 * tensors' bytes. The error names the file. */
int reader_open(const char *path, struct manifest *ret, ddp_error_t *errp);

/* The text of the small file `name` of an open checkpoint, compared with its checksum: *ret_bytes, and a null byte;
 * malloc, the caller frees. NULL: error, also where the checkpoint has no such file (DDP_E_DATA). */
char *reader_text(const char *path, const struct manifest *m, const char *name, uint64_t *ret_bytes, ddp_error_t *errp);

/* Reads bytes [at, at + n) of tensor t of the checkpoint in `path` into ret, and adds the sum of its blocks to *sum
 * (checksum.h; `at` is a multiple of CKPT_BLOCK_BYTES, and so is n, unless the tensor ends there). fd_cache[n_files]:
 * -1 or an open file, filled here; the caller closes the files with reader_close_files. The error names the file. */
int reader_read(const char *path, const struct manifest *m, size_t t, uint64_t at, size_t n, void *ret, uint64_t *sum,
                int *fd_cache, ddp_error_t *errp);
void reader_close_files(int *fd_cache, size_t n);

/* For a tensor whose bytes do not have the manifest's checksum: fills *errp, which names file, tensor and cure. Returns
 * -1. */
int reader_explain_sum(const char *path, const struct manifest *m, size_t t, ddp_error_t *errp);

/* Every byte of every tensor of an open checkpoint. */
int reader_verify(const char *path, const struct manifest *m, ddp_error_t *errp);

#endif
