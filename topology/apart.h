/* apart.h - hwloc in a child process with a deadline and little memory, which returns the plain tables through shared
 * memory; they are used only if every number in them is in its range. */
#ifndef DDP_TOPOLOGY_APART_H
#define DDP_TOPOLOGY_APART_H

#include "topology/inventory.h"

/* Fills *inv from a record (text[n - 1] is a NUL), or from this machine where text is NULL. 0 or -1. */
typedef int import_f(const char *text, size_t n, struct inventory *inv, ddp_error_t *errp);

/* Calls `import` in a child with *inv as the caller has filled it; `deadline`: clock.h. 0, or -1 with *inv untouched:
 * import's own error, DDP_E_DATA (it crashed, or its tables contradict themselves), DDP_E_SYSTEM (memory, processes),
 * DDP_E_TIMEOUT. */
int import_apart(import_f *import, const char *text, size_t n, uint64_t deadline, struct inventory *inv,
                 ddp_error_t *errp);

#endif
