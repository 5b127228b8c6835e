/* forked.h - a child that a rank forks, without exec, has no part in its communicators: it closes its copies of their
 * connections. While it held them no other node would notice that the rank died; of a leader its own node's ranks would
 * know, end, and be taken for the cause. Private to runtime/comm. */
#ifndef DDP_RUNTIME_COMM_FORKED_H
#define DDP_RUNTIME_COMM_FORKED_H

#include "runtime/comm/comm.h"

/* From here on children close c's connections, until forked_forget, which comes before these are closed here. */
void forked_heed(comm_t *c);
void forked_forget(comm_t *c); /* also where it was not heeded */

#endif
