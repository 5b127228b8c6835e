/* call.h - deadlines for calls of libraries that take none (PMIx_Init, getaddrinfo). */
#ifndef DDP_BASE_CALL_H
#define DDP_BASE_CALL_H

#include <stdint.h>

#include "runtime/base/error.h"

/* Makes the call: all that it reads and writes must lie in *state. */
typedef void call_f(void *state);

/* Runs f(state) in a thread of its own, with all signals blocked, and waits for it until `deadline` (clock.h).
 *
 * 0: f has returned, and the caller owns state again.
 * 1: f has not returned. The thread goes on and owns state: if f returns later, `drop` frees what it left in *state,
 *    and state (malloc) is freed. Other resources that the call holds are lost; the process should end.
 * -1: no thread can be started; f was not called, and the caller owns state. */
int call_within(call_f *f, call_f *drop, void *state, uint64_t deadline, ddp_error_t *errp);

#endif
