/* waits.h - in which call the program waits, asked of ddp-waits, a child of the guard's. The guard opens what
 * that reads: it may, as the program's parent, where others may not (Yama's ptrace_scope). */
#ifndef DDP_SPANK_GUARD_WAITS_H
#define DDP_SPANK_GUARD_WAITS_H

#include <stdbool.h>
#include <sys/types.h>

#include "runtime/stack/answer.h"
#include "spank/guard/child.h"

#define GUARD_WAITS_S 5.0 /* for an answer; files may be far away */

struct guard_waits {
    struct guard_child child;
    bool is_asked; /* and has not answered */
};

void guard_waits_init(struct guard_waits *w);

/* Asks of the program and what it has started, of those processes that have computed most. */
void guard_waits_ask(struct guard_waits *w, pid_t program);

/* True, once for each guard_waits_ask: the answer (answer.h), which ends with a zero; ANSWER_OTHER and no function
 * where there is none in time. */
bool guard_waits_hear(struct guard_waits *w, char answer[ANSWER_BYTES]);

/* Nobody wants the answer any more, and the child is not to hold anyone up. */
void guard_waits_drop(struct guard_waits *w);

#endif
