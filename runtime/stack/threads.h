/* threads.h - where the threads of processes wait in the kernel. */
#ifndef DDP_STACK_THREADS_H
#define DDP_STACK_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct thread {
    pid_t pid, tid; /* the same: the process's first */
    int64_t n_waits; /* how often it had begun to wait, before the rest was read */
    uint64_t sp, pc; /* stack pointer, program counter */
};

/* A file in memory, to be read from its beginning: a line for each thread of these processes, as far as there is room.
 * The caller closes it. -1: no memory. */
int threads_list(const pid_t *pid, size_t n);

/* A line of it. False: the thread does not wait. */
bool threads_parse(const char *line, struct thread *ret);

/* It has waited ever since. */
bool threads_is_still(const struct thread *t);

#endif
