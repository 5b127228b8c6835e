/* json_read.h - jansson's reader, which calls it an invalid token when memory is short: nothing is wrong with the text
 * then, and no older file is to be taken in its place. */
#ifndef DDP_BASE_JSON_READ_H
#define DDP_BASE_JSON_READ_H

#include <jansson.h>

/* json_loadb. NULL: errno is ENOMEM, and ret_why->text says so; or EINVAL, and *ret_why says what is wrong with the
 * text. The caller owns the result. */
json_t *json_read(const char *text, size_t n, size_t flags, json_error_t *ret_why);

#endif
