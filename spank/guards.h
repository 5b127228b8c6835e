/* guards.h - the guards of a step, joined into a tree in which the first death is told to all.
 *
 *   the guards of a node  -- unix sockets -->  the node's leader, the guard of its local rank 0
 *   a node's leader       -- TCP ----------->  the leader of node (i - 1) / GUARDS_FAN, counted from rank 0's node
 *
 * A guard reports its program's death to the guard above it, and so on up to the root, the leader of rank 0's node, who
 * takes one as the step's and tells it down to all: the verdict. Of those that come within GUARDS_SETTLE_S the root
 * prefers one that cannot follow from another (death_may_follow). A connection that
 * ends without a farewell is the death of who was at its other end. Over TCP each end also says every second that it is
 * there; one that has said nothing for GUARDS_SILENT_S is dead. Who loses the guard above decides for those below.
 *
 * Every connection begins with a token that srun has drawn for the step (lobby.h): strangers get nothing, and cost a
 * descriptor for a while. A guard that has no token, or cannot reach the one above, is its own root.
 *
 * One thread, no waits: the caller polls guards_fd for at most guards_wait_ms and calls guards_step. */
#ifndef DDP_SPANK_GUARDS_H
#define DDP_SPANK_GUARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "spank/death.h"
#include "spank/hostlist.h"
#include "spank/keys.h"
#include "spank/step.h"

#define GUARDS_VARIABLE "SLURM_DDP_GUARD" /* the token, from srun to its tasks */
#define GUARDS_TOKEN_LEN 64               /* hexadecimal */
#define GUARDS_PORTS 8                    /* that a leader may listen at; one of them will be free */
#define GUARDS_FAN 32
#define GUARDS_SETTLE_S 0.05
#define GUARDS_SILENT_S 3

struct guards_facts {
    int rank, local_rank, local_size;
    int node, n_nodes; /* counted from rank 0's node, which is 0; n_nodes 1: no other node is to be joined */
    char name[HOSTLIST_NAME_MAX + 1]; /* this node's */
    char above[HOSTLIST_NAME_MAX + 1]; /* of the node above; "" at the root's */
    char token[GUARDS_TOKEN_LEN + 1];  /* "": none */
    bool ends_step; /* a death is to end the other programs, as with srun --kill-on-bad-exit */
    int port[GUARDS_PORTS], port_above[GUARDS_PORTS]; /* 0: none */
};

/* The place of this task's guard in the tree. n_own_nodes: of the step's component (step.h); where there are several,
 * whose nodes' order is not known, each node is a tree of its own. Pure. 0, or -1 with DDP_E_DATA: a bad list of
 * nodes. */
int guards_plan(const struct step *s, const struct keys *o, int n_own_nodes, lookup_f lookup, void *arg,
                struct guards_facts *ret, ddp_error_t *errp);

typedef struct guards guards_t;

/* Listens where others are to come, and begins to join. Descriptors are closed by exec. NULL: memory is short. */
guards_t *guards_open(const struct guards_facts *f);

int guards_fd(const guards_t *g);
int guards_wait_ms(const guards_t *g); /* -1: until the descriptor is readable */
void guards_step(guards_t *g);

/* It is connected with the guard above, or is the root by its place. */
bool guards_is_joined(const guards_t *g);

/* The program was asked to end, as Slurm asks all of a step: from now on whoever goes is no death. */
void guards_expect_end(guards_t *g);

/* This guard's program has died. The verdict may be another death. */
void guards_report(guards_t *g, const struct death *d);

/* This guard's program has ended, and was no failure. */
void guards_finish(guards_t *g);

/* The farewell: the end of this guard is no death. */
void guards_leave(guards_t *g);

/* The verdict; NULL: there is none yet. *ret_is_ours (may be NULL): it was made here, so it is this guard that tells
 * the user. */
const struct death *guards_verdict(const guards_t *g, bool *ret_is_ours);

/* After guards_finish: all guards below have finished as well, so nobody needs this one. */
bool guards_is_free(const guards_t *g);

#endif
