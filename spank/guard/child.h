/* child.h - a child of the guard's, for what may take its time: a question to Slurm's controller, a line in a
 * file. It ends with the guard, and, as its child, is no process of the step's for Slurm's signals. */
#ifndef DDP_SPANK_GUARD_CHILD_H
#define DDP_SPANK_GUARD_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct guard_child {
    pid_t pid;      /* 0: none */
    int in;         /* what it says: readable, too, when it has ended; -1: none */
    uint64_t until; /* on our clock */
};

void guard_child_init(struct guard_child *c);

/* Forks a child that has env (NULL: this process's) as its environment, calls work(arg, out), where out is the end that
 * it may write to, and exits. It has within_s seconds. Where memory is short there is none. c has none before. */
void guard_child_begin(struct guard_child *c, char **env, void work(const void *arg, int out), const void *arg,
                       double within_s);

/* For a child that is there. True: it has said ret[0..size). c->pid is 0 afterwards if it has ended; it is killed, and
 * *ret_is_late, if its time is over. The guard reaps it. */
bool guard_child_hear(struct guard_child *c, void *ret, size_t size, bool *ret_is_late);

/* For a child that is there, with SIGKILL; not where it has ended and been reaped: its number may be another's. */
void guard_child_kill(const struct guard_child *c);

#endif
