/* guard.h - a process that stays beside a task's program: the task that Slurm started is the guard, and the program is
 * its child. So the program needs no wrapper and knows of nothing, and whatever Slurm and later plugins do between
 * task_init and exec is done in the child, as ever.
 *
 * If the program fails, the guard tells the others of the step (guards.h), of which one tells the user, in one line,
 * who was the first. Programs that go on after that are ended: SIGTERM after GUARD_TERM_S, SIGKILL after GUARD_KILL_S.
 * So is what programs have left behind, which the guard waits for: it may be saving.
 *
 * With restarts (guards.h) the guard ends its program and all that this has left behind, which it has taken in, and
 * forks another one, which goes the same way. While its node is a spare, or has left, there is none, and the guard
 * waits.
 *
 * The guard passes on every signal that it gets, but the stop's (guards.h), and Slurm's SIGTERM where there is a stop:
 * for both the program gets the stop's signal, once. It takes in orphans of the program (PR_SET_CHILD_SUBREAPER), and
 * ends when and as the program does. If the guard is killed, the kernel kills the program; if slurmstepd ends, the
 * guard kills it. It sleeps but for events and a look each second (activity.c), and holds /dev/null and the task's
 * stderr; with restarts all that the next program is to have, too, but none of slurmstepd's ends of pipes: standard
 * input ends for the program when slurmstepd ends it.
 *
 * It keeps slurmstepd's name. By that Slurm knows whom a signal is for, so that each comes once: proctrack/cgroup
 * signals slurmstepd's children, of which the guard is one and the program none; proctrack/linuxproc all descendants
 * that are not named slurmstepd. (SIGKILL reaches guards by the former only; by the latter they end since their
 * programs do, but not with restarts: that looks like a death.) With SignalChildrenProcesses=yes in cgroup.conf (Slurm
 * 23.11) the former signals all processes of the step: then each comes twice, and Slurm's SIGTERM also where there is a
 * stop. Nothing here undoes that. */
#ifndef DDP_SPANK_GUARD_GUARD_H
#define DDP_SPANK_GUARD_GUARD_H

#include "runtime/base/error.h"
#include "spank/guards/guards.h"

#define GUARD_TERM_S 2
#define GUARD_KILL_S 32 /* KillWait in slurm.conf is 30 s by default */
#define GUARD_AGAIN_TERM_S 0.2 /* where they are to be started again: time to say what they have seen */
#define GUARD_AGAIN_KILL_S 5
#define GUARD_STOP_TERM_S 10 /* where the stop has ended one that did not catch it: others may be saving */
#define GUARD_STOP_KILL_S 40

/* Forks the calling process, which must have one thread. Returns the generation (0: the first) in the child, with its
 * place there in *ret and the caller's signals; in the parent it does not return: the process ends as the last child
 * does, with its exit code or by its signal, without a core; with 0 where it has no part in the last generation. -1:
 * there is no child, and the caller is as it was. */
int guard_start(const struct guards_facts *f, struct seat *ret, ddp_error_t *errp);

#endif
