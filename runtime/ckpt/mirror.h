/* mirror.h - a thread that sends a rank's sealed snapshots to a rank on another node, and takes those of a third one
 * in, whose memory it keeps beside its own: so what a node held outlives the node. A slot is copied to the guest's slot
 * of equal number, which is EMPTY (slots.h) until all is there. */
#ifndef DDP_RUNTIME_CKPT_MIRROR_H
#define DDP_RUNTIME_CKPT_MIRROR_H

#include <stdbool.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/slots.h"

typedef struct mirror mirror_t;

/* own, guest: this rank's slots and the other's, borrowed until mirror_destroy. to, from: connected stream sockets,
 * which the mirror owns from here on, also if this call fails. */
mirror_t *mirror_create(struct slots *own, struct slots *guest, int to, int from, ddp_error_t *errp);
void mirror_destroy(mirror_t *m); /* NULL is allowed; what is on its way is lost */

/* Sends own slot i, sealed, after those that were asked for before. One that changes before mirror_is_done arrives
 * torn, which its checksum shows. From any thread. */
void mirror_send(mirror_t *m, int i);

/* Nothing of this rank's is on its way: the other one has it all, or a connection has failed. */
bool mirror_is_done(mirror_t *m);
bool mirror_has_failed(mirror_t *m); /* a connection */

double mirror_cpu_s(const mirror_t *m); /* that its thread has taken so far */

#endif
