/* call.h - calls that take no deadline (PMIx_Init, getaddrinfo), waited for no longer than ours. */
#ifndef DDP_BASE_CALL_H
#define DDP_BASE_CALL_H

#include <stdint.h>

#include "runtime/base/error.h"

/* Does the call: everything that it reads and writes lies in *state. */
typedef void call_f(void *state);

/* Runs f(state) in a thread of its own, with all signals blocked, and waits for it until `deadline` (clock.h).
 *
 * 0: it has returned, and state is the caller's again.
 * 1: it has not. The thread goes on, and state belongs to it: should the call ever return, `drop` frees what it left in
 *    *state, and state (malloc) is freed. Whatever else the call holds is lost to this process, which should end.
 * -1: no thread can be started; f was not called, and state is the caller's. */
int call_within(call_f *f, call_f *drop, void *state, uint64_t deadline, ddp_error_t *errp);

#endif
