/* guard_task.h - a task with a guard, for unit tests of that: a child of the test, as it is one of slurmstepd's. */
#ifndef DDP_T_UNIT_SPANK_GUARD_TASK_H
#define DDP_T_UNIT_SPANK_GUARD_TASK_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "spank/guards/guards.h"
#include "t/unit/unit.h"

/* What a program does, with the writing end of a pipe to the test; what it returns is its exit code. */
typedef int task_program_f(int out, void *arg);

/* One rank of a step that is not started again; with two restarts, where it is its own root. */
extern const struct guards_facts task_alone, task_again;

/* Of the next task: what its guard is told, task_alone until a test changes it; what it ignores before it has one. */
extern const struct guards_facts *task_facts;
extern bool task_ignores_children, task_ignores_hangup;

extern int task_generation, task_restart; /* of a program, in that */

struct task {
    pid_t pid; /* of the task, which becomes the guard */
    int in;    /* what the program writes */
};

struct task task_start(task_program_f *program, void *arg);
struct task task_start_heard(task_program_f *program, void *arg, int *ret_err); /* its guard's lines: a pipe's end */
void task_read(struct task t, void *buf, size_t n);
int task_end(struct task t); /* waits for it: its status */
pid_t task_child(struct task t);              /* its program */
void task_wait_state(pid_t pid, char want); /* as /proc has it: 'T' stands still */

/* ---- on several nodes, of one task each, that share this host's loopback address ---- */

enum { TASK_NODES_MAX = 4 };

bool task_draw_ports(int n_nodes); /* of their guards, that are free; false: there are none */

/* What the guard of that node is told: as task_again, of an elastic step. */
struct guards_facts task_on_node(int node, int n_nodes);

/* ---- programs ---- */

sigset_t task_blocks_term(void); /* SIGTERM, in this process; returns the set of it, for sigwait */

int task_exits(int out, void *arg); /* with *(int *)arg */

/* Says that it is ready, then each of SIGUSR1, SIGTSTP, SIGWINCH and SIGHUP that it gets; SIGTERM ends it. How many. */
int task_counts(int out, void *arg);

/* What it has of the task: one bool (signal mask, dispositions, whose orphans) and, of each of 256 descriptors, whether
 * it has that. */
int task_shows_state(int out, void *arg);

bool task_takes_orphans(void); /* this process */

#endif
