/* copy.h - a copy for another core to read. */
#ifndef DDP_KERNELS_COPY_H
#define DDP_KERNELS_COPY_H

#include <stdbool.h>
#include <stddef.h>

/* Whether kernel_copy_past is anything else than memcpy on this processor. */
bool kernel_has_copy_past(void);

/* Copies n bytes past the caches: what is written is in memory, and in no core's cache, before any later store of this
 * thread is seen by others. to is on a 16-byte boundary, and does not overlap from. */
void kernel_copy_past(void *to, const void *from, size_t n);

#endif
