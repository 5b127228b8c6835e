/* threads.h - where the threads of a process are in the kernel, as ddp-waits reads it. */
#ifndef DDP_STACK_THREADS_H
#define DDP_STACK_THREADS_H

#include <sys/types.h>

/* A file in memory, to be read from its beginning: a line "TID SYSCALL" for each thread, SYSCALL as
 * /proc/PID/task/TID/syscall has it, the first thread's first. The caller closes it. -1: there is no such process, or
 * no memory. */
int threads_list(pid_t pid);

#endif
