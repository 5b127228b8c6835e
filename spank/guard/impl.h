/* impl.h - what the files of guard.h share: guard.c (the fork, and what is done once), watch.c (beside a program, until
 * all are over), signals.c (what comes of signals), program.c (the program's end, and halts), activity.c (whether it
 * computes), srun.c (whether srun is there) and death.c (what is said of the program's end). */
#ifndef DDP_SPANK_GUARD_IMPL_H
#define DDP_SPANK_GUARD_IMPL_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "spank/guard/door.h"
#include "spank/guard/guard.h"
#include "spank/guard/halt.h"
#include "spank/guard/record.h"
#include "spank/guard/stop.h"
#include "spank/guard/waits.h"
#include "spank/guards/activity.h"
#include "spank/net/lifeline.h"

struct guard {
    pid_t program; /* 0: none yet, since this task waits */
    int signals; /* signalfd: all signals are blocked and arrive here */
    int stepd;   /* pidfd of slurmstepd; -1: it has gone, or cannot be watched */
    struct guards_facts f;
    guards_t *guards; /* NULL: memory or descriptors are short, */
    int why_alone;    /* as errno says */
    guard_door_t *door; /* NULL: none */
    lifeline_t *srun;   /* the root's; NULL: it is not watched */
    bool has_srun;      /* it has been, or is */
    uint64_t srun_gone; /* when; 0: it has not, or that is told */
    struct guard_record record;
    struct guard_stop stop;
    struct guard_halt halt;
    struct activity activity;
    struct guard_waits waiting;
    uint64_t looked_at; /* the next look */
    int generation;
    bool waits;       /* the task has no part in it */
    struct seat seat; /* else */
    uint64_t began, kills; /* when; cgroup_memory_kills then */
    bool is_asked; /* to end, by a signal that was passed on */
    uint64_t end_at; /* Slurm's SIGTERM has come, and is a stop from then on; 0: it has not, or is done with */
    bool is_stopped; /* the program has had the stop's signal */
    bool is_called_off; /* a restart, by a stop that came before it */
    int sent, missed; /* with restarts, SIGUSR1 or SIGUSR2; 0: neither. This program's; the next one's, too */
    bool is_warned; /* that no program will be started again */
    bool has_ended;
    int status;             /* of the program, once it has */
    uint64_t alone_until;   /* it may have died alone, which the root will know; 0: it has not */
    uint64_t verdict_until; /* it has failed, and the others are asked */
    uint64_t term_at, kill_at; /* 0: not yet, or done */
    uint64_t rests_at;         /* Slurm's SIGTSTP; 0: none, or its SIGCONT has come */
    uint64_t release_until;    /* the last guard waits for the others that long; 0: it does not wait yet */
    struct death said; /* the verdict that this guard acts on */
    bool has_said;     /* to the user */
};

/* ---- death.c ---- */

/* The program's end, which was no good one; its status is known. */
struct death guard_make_death(const struct guard *g);

/* To the user. */
void guard_say_death(const struct guard *g, const struct death *d);

/* The program's end, to the other guards, of whom a verdict is to come. */
void guard_report(struct guard *g);

/* To them, too: what others may fail by. */
void guard_suspect(struct guard *g, enum death_kind kind, int how);

/* The stop's signal is not the end of a program that catches it. Whoever saw the signal does not matter: nobody else
 * sends it. With restarts SIGUSR1 and SIGUSR2 are such signals, too, where this guard has seen them. */
bool guard_is_by_stop(const struct guard *g);

/* ---- activity.c ---- */

int guard_activity_wait_ms(const struct guard *g); /* -1: for ever */
void guard_activity_step(struct guard *g);

/* ---- srun.c ---- */

struct pollfd guard_srun_poll(struct guard *g, bool is_root); /* what to poll for; fd -1: nothing */
int guard_srun_wait_ms(const struct guard *g);                /* -1: for ever */
void guard_srun_step(struct guard *g);

/* ---- program.c ---- */

void guard_reap(struct guard *g);      /* whatever has ended, stopped or gone on */
void guard_step_door(struct guard *g); /* what the program says: rank 0's card, for the others, or why it fails */

/* Somebody has stopped the program, by that signal; 0: it goes on. */
void guard_take_halt(struct guard *g, int signo);
void guard_step_halt(struct guard *g); /* when that has been for long, all are told */

/* Slurm has suspended the step, and its SIGCONT is yet to be read: until then time that has passed does not count. */
bool guard_is_waking(void);

/* A child of the guard's own, and not of what the program has left behind. */
bool guard_has_child(const struct guard *g);

/* slurmstepd was killed: nobody would end the program, nor hear what it says. A root would tell the user in vain, and
 * goes; so do all guards of a node that others can go on without. */
void guard_lose_stepd(struct guard *g);

/* Without a farewell: the guards of other nodes find that this one has gone, and say it. */
_Noreturn void guard_go_with_the_node(void);

/* ---- signals.c ---- */

void guard_take_signal(struct guard *g); /* one that g->signals has */
void guard_step_end(struct guard *g);    /* at g->end_at */

/* The stop's signal, to the program: once, and what Slurm repeats while that saves is kept from it. */
void guard_give_stop(struct guard *g);
void guard_stop_all(struct guard *g, bool is_ending); /* ... to all programs, this one first */

/* It is the root, or knows of none, and does what is done once for all. */
bool guard_keeps_time(const struct guard *g);

/* ---- watch.c ---- */

/* Returns when another generation is to run. */
void guard_watch(struct guard *g);

#endif
