/* stack.h - where the threads of another process wait. Its memory is read while it goes on: it is not stopped, and
 * notices nothing. A thread that waits in the kernel has its stack pointer and program counter in
 * /proc/PID/task/TID/syscall; the way up from there is in its files' .eh_frame. Needs libdw (elfutils), and is for
 * x86-64: on arm64 the kernel tells nothing of the register that a function's return address may be in. */
#ifndef DDP_STACK_STACK_H
#define DDP_STACK_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "runtime/base/error.h"
#include "runtime/stack/threads.h"

#define STACK_FRAMES_MAX 256 /* of a thread */

/* Told of a frame: the path of the file that its function is in, and its symbol there; "" where that is not known.
 * False: enough of this thread. */
typedef bool stack_visit_f(void *arg, size_t thread, const char *file, const char *symbol);

/* Visits each frame of each thread of that process, innermost first; none of a stack that cannot be followed up to the
 * thread's first function. Files are opened as the process sees them. memory: /proc/PID/mem, open for reading. 0, or
 * -1: DDP_E_SYSTEM. */
int stack_walk(pid_t pid, int memory, const struct thread *t, size_t n, stack_visit_f visit, void *arg,
               ddp_error_t *errp);

#endif
