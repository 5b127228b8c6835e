/* cores.h - the cores of the machine, as topology/inventory.h finds them. */
#ifndef DDP_TOPOLOGY_CORES_H
#define DDP_TOPOLOGY_CORES_H

#include <stddef.h>

#include "runtime/base/error.h"
#include "topology/cpus.h"

struct cores {
    size_t n;          /* at least 1 */
    struct cpus *core; /* [n] the hardware threads of each core, in hwloc's logical order: neighbours share caches */
};

/* Every core of the machine, those that this process may not use included. Loads cores only: no I/O devices, and none
 * of hwloc's plugins (opening the one for OpenGL, OpenCL or CUDA would run a vendor's library in the caller). Leaves
 * the environment as it was. NULL with DDP_E_SYSTEM. The caller frees with cores_destroy. */
struct cores *cores_load(ddp_error_t *errp);

void cores_destroy(struct cores *c); /* NULL is allowed */

#endif
