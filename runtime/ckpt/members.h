/* members.h - what stands in JSON that nobody is trusted to have written, and what we write: over jansson; private to
 * runtime/ckpt. */
#ifndef DDP_RUNTIME_CKPT_MEMBERS_H
#define DDP_RUNTIME_CKPT_MEMBERS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* An object without a name twice, and nothing after it. What is larger than json_limit.h allows is refused before
 * memory is taken for it. The caller owns it. DDP_E_DATA "WHAT: ...". */
json_t *members_read(const char *text, size_t n, const char *what, ddp_error_t *errp);

/* Not negative, at most `max`; above INT64_MAX as text, since that is all that JSON's readers are sure of. -1: it is
 * not there, or something else. */
int members_u64(const json_t *value, uint64_t max, uint64_t *ret);
json_t *members_make_u64(uint64_t value);
int members_int(const json_t *value, int *ret);

/* A text of at most size - 1 bytes. */
int members_text(const json_t *value, char *ret, size_t size);

/* 16 hexadecimal digits. */
int members_checksum(const json_t *value, uint64_t *ret);
json_t *members_make_checksum(uint64_t value);

/* A name that is there twice, or NULL; sorts name[0..n). */
const char *members_twice(const char **name, size_t n);

#endif
