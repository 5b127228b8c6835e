/* sized.h - structs of ddp.h that cross it with the size that the program knows. What one side has beyond the other's
 * size is 0 for the other. Pure. */
#ifndef DDP_RUNTIME_SIZED_H
#define DDP_RUNTIME_SIZED_H

#include <stddef.h>

#include "runtime/base/error.h"

/* *ret, our `known` bytes, from the program's `size` bytes. Error: the program sets what this libddp does not know. */
int sized_take(void *ret, size_t known, const void *from, size_t size, const char *call, ddp_error_t *errp);

/* The program's `size` bytes from our `known`. */
void sized_give(void *ret, size_t size, const void *from, size_t known);

#endif
