/* members.h - reads values from JSON that may come from anyone, and writes them, with jansson; private to
 * runtime/ckpt. */
#ifndef DDP_RUNTIME_CKPT_MEMBERS_H
#define DDP_RUNTIME_CKPT_MEMBERS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* Parses one object, in which no name may come twice, and which nothing may follow. A text beyond the limits of
 * json_limit.h is refused before memory is taken for it. The caller owns the result. DDP_E_DATA "WHAT: ...". */
json_t *members_read(const char *text, size_t n, const char *what, ddp_error_t *errp);

/* Numbers from 0 to `max`; above INT64_MAX they are written as text, since not all JSON readers take larger ones. -1:
 * the value is missing, or is something else. */
int members_u64(const json_t *value, uint64_t max, uint64_t *ret);
json_t *members_make_u64(uint64_t value);
int members_int(const json_t *value, int *ret);

/* A text of at most size - 1 bytes. */
int members_text(const json_t *value, char *ret, size_t size);

/* 16 hexadecimal digits. */
int members_checksum(const json_t *value, uint64_t *ret);
json_t *members_make_checksum(uint64_t value);

/* Returns a name that is in name[0..n) twice, or NULL; sorts the array. */
const char *members_twice(const char **name, size_t n);

#endif
