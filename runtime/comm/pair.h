/* pair.h - connections of a rank's own to one rank and from one other, beside the communicator, for what is sent beside
 * training. */
#ifndef DDP_RUNTIME_COMM_PAIR_H
#define DDP_RUNTIME_COMM_PAIR_H

#include "pmix/world.h"
#include "runtime/comm/comm.h"

/* Connects to rank `to`, and takes the connection of rank `from`, which calls with its `to` this rank. interface: as in
 * struct comm_config. The descriptors are non-blocking, and the caller's. -1: this rank has not both; *errp says why.
 * Collective: also a rank that fails ends the exchange, and the others at their deadline. */
int pair_open(comm_t *c, const struct world *w, const char *interface, int to, int from, double timeout_s, int *ret_to,
              int *ret_from, ddp_error_t *errp);

#endif
