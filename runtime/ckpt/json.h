/* json.h - JSON (RFC 8259) from hostile bytes, read once from front to back by a caller who knows what must come; and
 * the strings of what we write. No recursion, no memory of its own. Pure.
 *
 * Each function returns -1 at the first thing that is not as it asked; json_fail() then says what and where. Nothing is
 * read after that. */
#ifndef DDP_RUNTIME_CKPT_JSON_H
#define DDP_RUNTIME_CKPT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define JSON_DEPTH_MAX 64

struct json {
    const char *start, *p, *end;
    const char *why; /* of the first failure */
};

void json_begin(struct json *j, const char *text, size_t n);
int json_end(struct json *j); /* nothing but white space is left */

/* `{` (or `[`), then, while json_member (json_item) returns 1, a value for the caller to read; 0: it was the last one,
 * and the closing bracket is read. *first: true before the first call, then theirs. */
int json_object(struct json *j, bool *first);
int json_member(struct json *j, bool *first, char *ret_key, size_t size);
int json_array(struct json *j, bool *first);
int json_item(struct json *j, bool *first);

/* A string of at most size - 1 bytes of valid UTF-8 without NUL. */
int json_string(struct json *j, char *ret, size_t size);
int json_u64(struct json *j, uint64_t max, uint64_t *ret);
/* A number that is not negative, in millionths: 1.5 is 1500000. At most six decimals, no exponent. */
int json_millionths(struct json *j, uint64_t *ret);
int json_skip_string(struct json *j);
int json_skip(struct json *j); /* any value, nested JSON_DEPTH_MAX deep at most */

/* Makes the next call fail, for a reason of the caller's (a text that stays). Returns -1. */
int json_refuse(struct json *j, const char *why);

/* DDP_E_DATA "WHAT: WHY at byte N"; returns -1. */
int json_fail(const struct json *j, const char *what, ddp_error_t *errp);

/* A growing text. Once memory is short it is NULL, and so it stays: asked once, at the end. */
struct json_text {
    char *p;
    size_t n, room;
    bool is_short;
};
void json_add(struct json_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void json_add_string(struct json_text *t, const char *text); /* with quotes and escapes */

/* Bytes [0, n) of text that are one character of UTF-8 as the standard allows it (no overlong form, no surrogate);
 * 0: text does not begin with one. text ends with NUL or at `end`. */
size_t json_character(const char *text, const char *end);

#endif
