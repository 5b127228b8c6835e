/* cache.h - this machine's cores in a file, so that not each step reads them anew.
 *
 * hwloc opens some 25 files for each hardware thread: 0.7 to 1.1 ms of a core on a machine of two, against 0.04 to 0.14
 * for this file, for which a step that places its ranks waits. slurmd, as root, writes the tables once; the tasks, as
 * users, read them. The file is believed only if it is root's own, was written by this version with this hwloc, and
 * nothing has changed since: the same boot, the same CPUs and NUMA nodes online, memory in the same nodes. Devices are
 * not in it: links and drivers come and go. */
#ifndef DDP_TOPOLOGY_CACHE_H
#define DDP_TOPOLOGY_CACHE_H

#include "topology/inventory.h"

#define CACHE_FOLDER "/run/slurm-ddp"
#define CACHE_FILE "cores"

/* Fills *inv, all zeros, with the file's tables: no devices are in it. -1: there is no file, or it is not to be
 * believed; *inv is partly filled then. */
int cache_read(const char *folder, struct inventory *inv);

/* A hash of this machine's boot, of what is online and which nodes have memory. -1: it cannot be told from another. */
int cache_machine(uint64_t *ret);

/* Writes the tables, which were read when the machine was that one (cache_machine); the folder is made if it is
 * missing. The file is there whole or not at all. Only root can: 0, or -1 with DDP_E_SYSTEM (the folder is somebody
 * else's, no space, the machine is another one by now). */
int cache_write(const char *folder, uint64_t machine, const struct inventory *inv, ddp_error_t *errp);

void cache_forget(const char *folder); /* removes the file */

#endif
