/* safetensors_impl.h - what the manifest says of a tensor in the same way; private to runtime/ckpt. */
#ifndef DDP_RUNTIME_CKPT_SAFETENSORS_IMPL_H
#define DDP_RUNTIME_CKPT_SAFETENSORS_IMPL_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/ckpt/json.h"
#include "runtime/ckpt/safetensors.h"

/* "dtype":"F32","shape":[2,3] */
void st_add_type(struct json_text *t, const struct st_tensor *one);
int st_read_dtype(struct json *j, enum st_dtype *ret);
int st_read_shape(struct json *j, struct st_tensor *t);

/* A name that is there twice, or NULL; sorts name[0..n). */
const char *st_find_twice(const char **name, size_t n);

/* Makes room for item n of an array that grows. -1: no memory; the array stays. */
static inline int array_grow(void **array, size_t n, size_t *room, size_t item_bytes)
{
    size_t wants = *room ? *room * 2 : 16;
    if (n < *room)
        return 0;
    if (wants > SIZE_MAX / 2 / item_bytes)
        return -1;
    void *p = realloc(*array, wants * item_bytes);
    if (!p)
        return -1;
    *array = p;
    *room = wants;
    return 0;
}

#endif
