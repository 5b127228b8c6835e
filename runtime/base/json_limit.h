/* json_limit.h - limits for JSON from outside, checked before a parser builds it: jansson takes up to 300 bytes of
 * memory for a value of two bytes of text. Pure; knows only JSON's brackets, commas and quotes. */
#ifndef DDP_BASE_JSON_LIMIT_H
#define DDP_BASE_JSON_LIMIT_H

#include <stddef.h>

#include "runtime/base/error.h"

/* Room for JSON_TENSORS_MAX tensors of eight dimensions, in a manifest (manifest.h) or the head of a safetensors file,
 * where a tensor takes three objects and arrays and 14 values, these among them. Measured with jansson 2.14: the worst
 * text takes 290 MiB, and the manifest of so many tensors of two dimensions, decoded, 160 MiB. */
#define JSON_TENSORS_MAX (1u << 17)
#define JSON_DEPTH_MAX 16                         /* a manifest is four levels deep */
#define JSON_NESTS_MAX (3u * JSON_TENSORS_MAX)    /* objects and arrays */
#define JSON_VALUES_MAX (14u * JSON_TENSORS_MAX)

/* Reads text[0..n) once. 0, or -1 with DDP_E_DATA: the text exceeds a limit; the error names `what` and the limit. A
 * text that is not JSON passes, and the parser refuses it; the parser reads no further than this function has read. */
int json_limit_check(const char *text, size_t n, const char *what, ddp_error_t *errp);

#endif
