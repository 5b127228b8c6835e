/* seats.h - which nodes of a step take part in a generation of its programs, and in which order. Pure.
 *
 * A seat is a node's place among those that take part, the NODE_RANK of its programs. At first all nodes but the last
 * n_spares have one, by their number (step.h); the spares wait in the same order. The first spare takes the seat of a
 * node that leaves; without one the seats behind it move up. Which ones left, and in which order, decides all. */
#ifndef DDP_SPANK_STEP_SEATS_H
#define DDP_SPANK_STEP_SEATS_H

#include "spank/step/hostlist.h"

struct seats {
    int n_nodes, n, n_spares; /* of the step; that take part; that wait */
    int *node;                /* the nodes by seat, and behind them the spares: n + n_spares of them */
};

/* A task's place among the programs of a generation. */
struct seat {
    int rank, size, node, n_nodes;
    int first; /* the number in the step of the node of rank 0 */
    int restart; /* how many generations have begun before; fewer than its number where some were given up */
    char master[HOSTLIST_NAME_MAX + 1]; /* the node of rank 0 */
};

/* 0 <= n_spares < n_nodes. 0, or -1: memory is short, and *s is as {0}. */
int seats_open(struct seats *s, int n_nodes, int n_spares);
void seats_begin(struct seats *s, int n_spares); /* anew */
void seats_close(struct seats *s); /* also of {0} */

/* The node that has taken its seat; -1: nobody, or it had none. */
int seats_leave(struct seats *s, int node);

/* The node's seat; -1: it has none. */
int seats_of(const struct seats *s, int node);

#endif
