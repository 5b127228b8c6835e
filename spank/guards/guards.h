/* guards.h - the guards of a step, joined into a tree in which the first death is told to all.
 *
 *   the guards of a node  -- unix sockets -->  the node's leader, the guard of its local rank 0
 *   a node's leader       -- TCP ----------->  the leader of node (i - 1) / GUARDS_FAN, counted from rank 0's node
 *
 * A guard reports its program's death to the guard above it, and so on up to the root, the leader of rank 0's node, who
 * takes one as the step's and tells it down to all: the verdict. Of those that come within GUARDS_SETTLE_S the root
 * prefers one that cannot follow from another (death_may_follow). One that can waits until all guards have looked after
 * their programs again, for two seconds at most, and while a node right below the root is late, until that speaks or is
 * silent. A connection that ends without a farewell is the death of who was at its other end. Over TCP each end also
 * says every second that it is there; one that has said nothing for silent_s is dead, of which the user is warned
 * GUARDS_SAY_SILENT_S after its last word; one that said that Slurm suspends the step, GUARDS_WAKE_S after Slurm has
 * woken who hears nothing of it. Who loses the guard above decides for those below.
 *
 * Every connection begins with proofs that both ends have the token that srun has drawn for the step (proof.h):
 * strangers get nothing, whichever end they are, and cost a descriptor for a while. A guard that has no token, or
 * cannot reach the one above, is its own root.
 *
 * With restarts a death may be followed by another generation of all programs. The verdict says so; each guard then
 * ends what its program has left and says that it is gone; when all are gone the root starts the next one. Only
 * programs' deaths are followed so, not those for want of memory, nor of guards and nodes; not where some guard has not
 * joined within two minutes; not if a program of the step was asked to end, nor if SIGUSR1 or SIGUSR2, which may be
 * libddp's stop, found none that catches it; not GUARDS_LOOP_N deaths of one rank in a row within GUARDS_LOOP_S of its
 * start. A guard whose program has ended well stays until all have: the root says then that all is over. For those that
 * have not come yet it stays for 30 s, and 5 s where it was asked to end: they may never start.
 *
 * A stop asks all programs to save and end. Whoever is told of it first tells all, and each guard then gives its
 * program the signal. Slurm's SIGTERM is one where no death is known within GUARDS_HEED_S: srun, too, sees that a task
 * has gone, and has all others sent that. No generation follows a stop. A program that ends with stop_code has saved:
 * its guard stays until all have saved, so that the first one's end does not make Slurm end the others, and if the job
 * is to be requeued the root's guard does that then. A program that the signal itself has ended, since it did not catch
 * it yet, ends the others like a death, and the job is requeued all the same.
 *
 * With spares or min_nodes a node's loss, too, is followed by another generation, in which a spare has its seat, or the
 * others move up (seats.h). A node is the smallest part that is lost: who loses its leader ends. A leader that loses
 * the one above joins the next above that, up to the root, then the nodes from the first on; where none of those before
 * it is left it is the root. It goes on where it reaches more than half of the step's nodes, not counted those whose
 * guards have surely ended, or half and the first of them: so two parts of a step never do. The ranks of a node that is
 * lost start elsewhere when its own programs must have ended: it is told that it is lost, which it may hear, or finds
 * by itself that it hears nobody. A node that has left stays out, but its guards stay, and a spare's wait in the same
 * way; both end with 0, but where they are few with 1. One that has not come within two minutes is lost, too, be it the
 * root, where more than half have come, or half and the first; a part of fewer ends, and so does the step where a node
 * has come in part only.
 *
 * One thread, no waits: the caller polls guards_fd for at most guards_wait_ms and calls guards_step. */
#ifndef DDP_SPANK_GUARDS_GUARDS_H
#define DDP_SPANK_GUARDS_GUARDS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "spank/guards/death.h"
#include "spank/keys/keys.h"
#include "spank/keys/stop_key.h"
#include "spank/net/port.h"
#include "spank/step/hostlist.h"
#include "spank/step/seats.h"
#include "spank/step/step.h"

#define GUARDS_VARIABLE "SLURM_DDP_GUARD" /* the token, from srun to its tasks */
#define GUARDS_TOKEN_LEN 64               /* hexadecimal; the first half is the key of siphash.h */
#define GUARDS_PORTS 8                    /* that a leader may listen at; one of them will be free */
#define GUARDS_FAN 32
#define GUARDS_SETTLE_S 0.05
#define GUARDS_SAY_SILENT_S 3
#define GUARDS_LOOP_N 3
#define GUARDS_LOOP_S 60
#define GUARDS_HEED_S 0.5 /* from Slurm's SIGTERM until it is a stop: the loss that it may come of is known by then */
#define GUARDS_ALONE_S 2.0 /* who was ended as Slurm ends steps, and nobody else was by then, has died */
#define GUARDS_IDLE_S 8 /* for so long programs that start, or sleep between two tries, may all wait */
#define GUARDS_JOIN_S 120 /* for all guards to have joined */
#define GUARDS_LOST_KILL_S 2.0  /* SIGKILL, from the word that a node is lost: its own programs end so, too */
#define GUARDS_LOST_WAIT_S 5.0  /* until its ranks start elsewhere: it may find that 2 s later than the others */
#define GUARDS_ENDED_WAIT_S 2.5 /* ... where its first guard has surely ended, and the others there see that */
#define GUARDS_WAKE_S 60 /* from the first node that wakes after a suspension to the last one */
#define GUARDS_STUCK_S 60 /* from a verdict until nothing of the programs is left, SIGKILL included */

#define GUARDS_REFUSED_BY_ALL EDOM /* an error's code: all tasks of the step fail alike, so that rank 0 alone says it */

/* What all guards of the step compute their ports from. */
struct guards_ports {
    struct port_facts facts;
    struct port_range range;
    int program; /* MASTER_PORT, which is left to the program */
};

/* Where the leader of a node may listen, all different; 0: no more. In a range that is too small for draws to count
 * there is none, for all would be MASTER_PORT. */
void guards_choose_ports(const struct guards_ports *p, int node, int ret[GUARDS_PORTS]);

struct guards_facts {
    int rank, size, local_rank, local_size;
    int restarts; /* generations that may follow the first one */
    double join_s, stuck_s, wake_s; /* GUARDS_JOIN_S, GUARDS_STUCK_S, GUARDS_WAKE_S; shorter in tests */
    int silent_s; /* of a node, until it is dead */
    double heed_s; /* GUARDS_HEED_S, other in tests; 0: srun ends no step because of a task, and SIGTERM is a stop */
    int idle_s;   /* GUARDS_IDLE_S; shorter in tests */
    struct stop_key stop;
    int stop_code;    /* of a program that has saved */
    bool saves;       /* there is a stop or a requeue: guards stay until all programs have ended */
    bool requeues;    /* if all have saved, or have been stopped */
    int64_t end_s;    /* of the job, since 1970; 0: not known */
    char **env;       /* the task's variables; NULL: this process's. Borrowed, as is: */
    int argc;
    char **argv;        /* the program's */
    int node, n_nodes; /* counted as step.h's in_list; n_nodes 1: no other node is to be joined */
    char name[HOSTLIST_NAME_MAX + 1]; /* this node's */
    char above[HOSTLIST_NAME_MAX + 1]; /* of the node above; "" at the root's */
    char token[GUARDS_TOKEN_LEN + 1];  /* "": none */
    char step[24]; /* JOB.STEP, for Slurm's commands; "": not known */
    char srun_host[64], srun_port[8]; /* of those that may be the root (lifeline.h); "": not known */
    bool is_whole;  /* the tree holds all of the step's tasks: libddp's programs boot by it (pmix/boot_guard.c) */
    bool is_elastic; /* there are spares or min_nodes, and so: */
    int spares, min_nodes;             /* the latter at least 1 */
    const char *list;                  /* the step's nodes; borrowed */
    char first[HOSTLIST_NAME_MAX + 1]; /* rank 0's at first */
    struct guards_ports ports;
    /* Name and ports of any node; the name's room is HOSTLIST_NAME_MAX + 1. 0, or -1. */
    int (*find)(const struct guards_facts *f, int node, char *ret_name, int ret_port[GUARDS_PORTS]);
    bool ends_step; /* a death is to end the other programs, as with srun --kill-on-bad-exit */
    int port[GUARDS_PORTS], port_above[GUARDS_PORTS]; /* 0: none */
};

/* The place of this task's guard in the tree. n_own_nodes: of the step's component (step.h), with others of which there
 * are no spares or min_nodes. Where the list has not all nodes each is a tree of its own. Pure. 0, or -1 with
 * DDP_E_DATA: a bad list of nodes; DDP_E_USAGE: restarts with such a list; spares or min_nodes that the step's nodes
 * are too few or too different for; GUARDS_REFUSED_BY_ALL where no task sees more of that than the others. */
int guards_plan(const struct step *s, const struct keys *o, int n_own_nodes, lookup_f lookup, void *arg,
                struct guards_facts *ret, ddp_error_t *errp);

typedef struct guards guards_t;

/* Listens where others are to come, and begins to join. Descriptors are closed by exec. NULL with errno: memory is
 * short, or descriptors are: such a guard has no tree. */
guards_t *guards_open(const struct guards_facts *f);

int guards_fd(const guards_t *g);
int guards_wait_ms(const guards_t *g); /* -1: until the descriptor is readable */
void guards_step(guards_t *g);

/* For tests: it is connected with the guard above, or is the root by its place. */
bool guards_is_joined(const guards_t *g);

/* The program was asked to end, as Slurm asks all of a step: from now on whoever goes is no death. */
void guards_expect_end(guards_t *g);

/* Slurm is about to suspend the step: this node may stand still before the others do, and for longer, and is not taken
 * for dead by that. */
void guards_expect_rest(guards_t *g);

/* Slurm has woken this node: those that rest still are silent like any other when wake_s is over. */
void guards_expect_wake(guards_t *g);

/* What ends the step is known, or that a guard or a node has gone and it will be: neither a stop nor srun's end. */
bool guards_has_failed(const guards_t *g);

/* This guard's program has died. The verdict may be another death. */
void guards_report(guards_t *g, const struct death *d);

/* This guard's program has ended with code 0, or by a signal by which Slurm ends steps, stands still, or goes on again
 * (DEATH_NONE): no death, but when another program fails by an exit code, which may come from that, the user is told of
 * it. Such a signal that nobody asked the step's guards to pass on, and that has ended one program only within
 * GUARDS_ALONE_S, was a death, if rank 0's program runs then, or others do where it is that. */
void guards_suspect(guards_t *g, const struct death *d);

/* Once in ACTIVITY_S: what this guard's program does. kind DEATH_BUSY: it computes; else how is 1: it waits, or 0.
 * Where one has computed and all others have waited, that is said with a failure by an exit code, as of
 * guards_suspect. */
void guards_activity(guards_t *g, const struct death *d);

/* All wait, and have for some time: in which call does this guard's program? Asked until it is answered by guards_call:
 * its rank, and what answer.h has. The user is told where all wait in calls that are not the same; and a failure by an
 * exit code that follows from it is said with what is known. */
bool guards_wants_call(const guards_t *g);
void guards_call(guards_t *g, int rank, const char *answer);

/* A program of the step has died, perhaps because of another: is this guard's dead, too? Asked until it is answered,
 * after guards_report if it is. */
bool guards_is_called(const guards_t *g);
void guards_answer(guards_t *g);

/* For how long a death waits for a guard above that is not there yet, in seconds. */
double guards_report_s(const struct guards_facts *f);

/* This guard's program has ended, and was no failure. */
void guards_finish(guards_t *g, bool has_saved);

/* All programs are to save and end: asked here. is_ending: Slurm ends the step (SIGTERM); whoever goes is no death from
 * now on, as after guards_expect_end, but all are waited for. */
void guards_stop(guards_t *g, bool is_ending);

/* They are: asked here, or anywhere. It stays so. */
bool guards_is_stopping(const guards_t *g);

/* There is no guard above: this is the root, or it cannot be reached. One whose root left after the last verdict is
 * not alone: that root has told and written the end. */
bool guards_is_alone(const guards_t *g);

/* At the root: a node has been lost. Elastic: one that the step has gone on without. */
bool guards_has_lost(const guards_t *g);

/* At the root of a part of the step that is not most of its nodes now: the others may be running, so that it ends no
 * step, and writes no end. */
bool guards_are_few(const guards_t *g);

/* At the root: all have come, or those that have not count as lost, and this part is most of the nodes. */
bool guards_are_most(const guards_t *g);

/* At a new root, of few nodes so far: others may still join it; or at one that may find that it is cut off. The caller
 * waits for that before it ends. */
bool guards_await_nodes(const guards_t *g);

/* The one above is lost, as to all guards right below it, and another of these tells that. */
bool guards_tells_another(const guards_t *g);

/* Another node's guards are there. */
bool guards_has_others(const guards_t *g);

/* Another guard of this node has been killed, and its program's children may run on: where others can go on without the
 * node, the caller kills its program and ends without a farewell, and Slurm clears the node. */
bool guards_is_broken(const guards_t *g);

/* Those below have all said farewell. */
bool guards_is_last(const guards_t *g);

/* At the root: all have saved or were stopped, and nobody but it runs any more: the job is to be requeued, after which
 * the caller says so, and all may go. */
bool guards_wants_requeue(const guards_t *g);
void guards_requeued(guards_t *g);

/* After a verdict that another generation follows: this guard's program has ended, and nothing of it is left. */
void guards_gone(guards_t *g);

/* 0 at first; more: the generation of programs that is to run now. */
int guards_generation(const guards_t *g);

/* This task's place in it; g NULL: in the first one. False: it has none, and waits. */
bool guards_seat(const struct guards_facts *f, const guards_t *g, struct seat *ret);

/* How many guards have not joined in time, so that no generation follows; 0: none, or it is not known yet. */
int guards_missing(const guards_t *g);

/* A line for the user, once; NULL: there is none. */
const char *guards_news(guards_t *g);

/* Rank 0's card (door.h): told by rank 0's guard, and then known to all; "": not known yet. */
void guards_tell_card(guards_t *g, const char *card);
const char *guards_card(const guards_t *g);

/* The farewell: the end of this guard is no death. */
void guards_leave(guards_t *g);

/* The verdict; NULL: there is none yet. *ret_is_ours (may be NULL): it was made here, so it is this guard that tells
 * the user; of a node's loss only when this one is surely not cut off itself. One that a generation follows may be
 * replaced by one that none follows. */
const struct death *guards_verdict(const guards_t *g, bool *ret_is_ours);

/* After guards_finish: all guards below have finished as well, and there is no next generation, so nobody needs this
 * one. */
bool guards_is_free(const guards_t *g);

#endif
