/* tokens.h - training data: files, read as one long sequence of tokens. Any number of threads may read.
 *
 * Files are read by offset, not through a mapping: on any file system a file that is cut while it is in use is then an
 * error with its name, not a signal.
 *
 * Two kinds, never mixed: a file named *.bin is a token shard as llm.c writes them (header of 256 int32: magic
 * 20240520, version 1, number of tokens; then uint16 tokens, little-endian); any other file is bytes, a token each. */
#ifndef DDP_RUNTIME_TRAIN_TOKENS_H
#define DDP_RUNTIME_TRAIN_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define SHARD_MAGIC 20240520
#define SHARD_VERSION 1
#define SHARD_HEADER_BYTES 1024

typedef struct tokens tokens_t;

/* Opens path[0..n) and joins the files in that order. A folder means its regular files (no links, no folders, no empty
 * files), sorted by name. The caller closes. NULL with an error that names the file. */
tokens_t *tokens_open(const char *const *path, size_t n, ddp_error_t *errp);
void tokens_close(tokens_t *t); /* NULL is allowed */

uint64_t tokens_count(const tokens_t *t);
bool tokens_are_shards(const tokens_t *t); /* of which kind they are */

/* Which files they are, on one line: "2 files of 70298 bytes, 1a2b3c4d5e6f7081", with a hash of their names (without
 * folders) and sizes, in order. */
void tokens_describe(const tokens_t *t, char *ret, size_t size);

/* ret[0..n) = tokens [first, first + n); undefined on an error. It is an error, which names file and offset, if a token
 * is not below vocab, or if a file has become shorter since it was opened. */
int tokens_copy(const tokens_t *t, uint64_t first, size_t n, size_t vocab, int32_t *ret, ddp_error_t *errp);

/* Asks the kernel to read tokens [first, first + n) ahead; returns at once. */
void tokens_ahead(const tokens_t *t, uint64_t first, size_t n);

#endif
