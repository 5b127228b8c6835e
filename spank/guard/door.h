/* door.h - the guard's side of base/door.h: programs of its task, and of the same user, come in, ask for rank 0's card
 * and hear who dies; groups in them hear who dies. One thread, no waits: the caller polls guard_door_fd and calls
 * guard_door_step. */
#ifndef DDP_SPANK_GUARD_DOOR_H
#define DDP_SPANK_GUARD_DOOR_H

#include <stdbool.h>

#include "runtime/base/error.h"
#include "spank/step/seats.h"

typedef struct guard_door guard_door_t;

/* keeps: memory that a program gives goes to the program of the same number in the next generation; the guard does not
 * map it. Descriptors are closed by exec. NULL with an error: the name is taken, or memory or descriptors are short. */
guard_door_t *guard_door_open(const char *token, int task, bool keeps, ddp_error_t *errp);

int guard_door_fd(const guard_door_t *d);

/* A generation begins, in which the program has this place: its first program is the first again. */
void guard_door_begin(guard_door_t *d, int generation, const struct seat *s);

/* Reads and accepts. Returns a card that a program of rank 0 has brought, until the next call, or NULL. It begins with
 * the program's number in its generation: a task may start one after the other, and each is for its like. */
const char *guard_door_step(guard_door_t *d);

/* Whom a program of this generation, or a group in it, has found to be the cause of its failure, and its words; NULL:
 * nobody. */
const char *guard_door_cause(const guard_door_t *d, int *ret_rank);

/* Tells such a card to the program of its number, now or when it comes; "": to nobody, for it is not known yet. */
void guard_door_tell(guard_door_t *d, const char *card);

/* Tells all programs of this generation, now or when they come, that the step ends by this rank's death. */
void guard_door_tell_death(guard_door_t *d, int rank, const char *text);

#endif
