/* alltoall.h - every rank gives every rank bytes of its own, any number of them: gather and scatter are that, too.
 * What a rank has for the ranks of one node, in their order, is a row. Rows go window by window through the memory of
 * collectives.c. Private to runtime/comm. */
#ifndef DDP_COMM_ALLTOALL_H
#define DDP_COMM_ALLTOALL_H

#include "runtime/comm/wireup.h"

struct alltoall {
    comm_t *c;
    const struct comm_parts *parts;
    uint64_t *given; /* [size][size] bytes from one rank to another; none to itself */
    size_t window;   /* bytes of a row in a turn */
    int n_at_once;   /* rows of a rank, to as many nodes, in a turn */
    int n_rows;      /* an owner's, and its guests', at most */
};

/* What a window has of one rank's part of a row: n bytes, which begin there in the part and there in the window. */
struct alltoall_slice {
    size_t in_part, in_window, n;
};

const int *alltoall_ranks(const comm_t *c, int node, int *ret_n); /* of a node */
uint64_t alltoall_given(const struct alltoall *x, int from, int to);

/* The longest row of ranks of `node` to the node that lies `by` after it, in a circle. */
uint64_t alltoall_longest_of(const struct alltoall *x, int node, int by);

/* The longest row to nodes that lie from `first` to `last` after a rank's own: the same on every rank. */
uint64_t alltoall_longest(const struct alltoall *x, int first, int last);

/* Of the window at byte `at` of a row: its bytes; what it has of a part of n bytes that begins at byte `first`; writes
 * what this rank has for it; reads what it has for this rank. */
size_t alltoall_window(const struct alltoall *x, int from, int node, uint64_t at);
struct alltoall_slice alltoall_slice(const struct alltoall *x, uint64_t first, uint64_t n, uint64_t at);
void alltoall_write(const struct alltoall *x, int node, uint64_t at, char *window);
void alltoall_read(const struct alltoall *x, int from, uint64_t at, const char *window);

/* All rows to other nodes. */
int alltoall_between(struct alltoall *x, ddp_error_t *errp);

#endif
