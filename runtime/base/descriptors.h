/* descriptors.h - how many descriptors this process may have open: among a thousand ranks rank 0 has more connections
 * than the usual soft limit of 1024 allows. */
#ifndef DDP_BASE_DESCRIPTORS_H
#define DDP_BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>

/* Raises the soft limit, no further than the hard one, so that n more can be opened, and 512 of the program's own. No
 * higher than that: programs that close all that they might have open loop up to it. True: it is higher now. Preserves
 * errno. */
bool descriptors_reserve(size_t n);

/* Could n more be opened now? -1: no, with errno. */
int descriptors_check(size_t n);

#endif
