/* guard_door.h - the guard's side of door.h: programs of its task, and of the same user, come in and ask for rank 0's
 * card. One thread, no waits: the caller polls guard_door_fd and calls guard_door_step. */
#ifndef DDP_SPANK_GUARD_DOOR_H
#define DDP_SPANK_GUARD_DOOR_H

#include "runtime/base/error.h"

typedef struct guard_door guard_door_t;

/* Descriptors are closed by exec. NULL with an error: the name is taken, or memory or descriptors are short. */
guard_door_t *guard_door_open(const char *token, int rank, int size, int n_nodes, ddp_error_t *errp);

int guard_door_fd(const guard_door_t *d);

/* Reads and accepts. Returns a card that a program of rank 0 has brought, until the next call, or NULL. */
const char *guard_door_step(guard_door_t *d);

/* Tells the card to those who are there and all that come later; "": to nobody, for it is not known yet. */
void guard_door_tell(guard_door_t *d, const char *card);

#endif
