/* threads.h - where the threads of a process wait in the kernel. */
#ifndef DDP_STACK_THREADS_H
#define DDP_STACK_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct thread {
    pid_t tid;
    int64_t n_waits; /* how often it had begun to wait, before the rest was read */
    uint64_t sp, pc; /* stack pointer, program counter */
};

/* A file in memory, to be read from its beginning: a line for each thread, the first thread's first. The caller closes
 * it. -1: there is no such process, or no memory. */
int threads_list(pid_t pid);

/* A line of it. False: the thread does not wait. */
bool threads_parse(const char *line, struct thread *ret);

/* It has waited ever since. */
bool threads_is_still(pid_t pid, const struct thread *t);

#endif
