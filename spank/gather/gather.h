/* gather.h - collects each node's table in srun, which prints equal tables once.
 *
 * Only a verbose step does this. Before srun asks for the step it takes a port and a random token, and passes both to
 * its tasks in GATHER_VARIABLE. When it starts the tasks, one thread of srun receives a text from each node (from the
 * task with local rank 0), folds nodes whose texts are equal, prints, and then answers these tasks, so that their
 * programs start only when the table is printed. No more nodes may wait than a quarter of the descriptors that srun may
 * have; the nodes after that are answered at once. srun waits for all nodes of the step, but no longer than `collect_s`
 * and 10 ms for each node (40 s at most) after the first text; a node that connects later finds no listener. A node
 * whose text srun does not take prints the text itself, so a failure only costs the folding. A node that has no answer
 * by its deadline goes on; srun has its text, and prints it when it has waited for the others, or at its own end.
 *
 * srun uses nothing that arrives before the token. A stranger costs srun a descriptor for 2 s at most. Tokens are sent
 * in the clear, as Slurm's own I/O keys are: someone who can read the network could add a table to what srun prints. */
#ifndef DDP_SPANK_GATHER_GATHER_H
#define DDP_SPANK_GATHER_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "spank/keys/keys.h"
#include "spank/net/port.h"

/* "PORT:TOKEN". It begins with SLURM_, so that --export=NONE keeps it. */
#define GATHER_VARIABLE "SLURM_DDP_GATHER"
#define GATHER_TEXT_MAX 65536  /* bytes of one node's text */
#define GATHER_LIST_MAX 65536  /* bytes of the step's node list; a step with a longer list is not folded */
#define GATHER_NODES_MAX 65536 /* nodes of a step; a larger step is not folded */

/* ---- in srun ---- */

typedef struct gather gather_t;

struct gather_options {
    int out_fd;              /* the folded tables are written here; borrowed */
    struct port_range ports; /* try these ports, beginning at a random one; {0, 0}: any free port */
    double collect_s;        /* how long to wait after the first text */
};

/* Takes a port and makes a token, but does not listen yet. NULL: no socket, or no port of the range is free. */
gather_t *gather_create(const struct gather_options *o, ddp_error_t *errp);

/* The value for GATHER_VARIABLE; borrowed. */
const char *gather_address(const gather_t *g);

/* Listens, and starts the thread (all signals blocked). A second call does nothing. The thread ends when it has printed
 * or when gather_destroy ends it; its code must stay in memory even if gather_destroy has to leave the thread behind.
 * 0, or -1. */
int gather_start(gather_t *g, ddp_error_t *errp);

/* Ends the thread, which then prints only the texts of nodes that have already gone on. Waits for it at most a fifth of
 * a second: a thread that hangs in a write is left behind, with its memory. In a child process of srun it does nothing.
 * NULL is allowed; preserves errno. */
void gather_destroy(gather_t *g);

/* ---- in a task ---- */

struct gather_request {
    lookup_f lookup; /* the task's environment: GATHER_VARIABLE, where srun is, the step's nodes */
    void *arg;
    const char *node;               /* this node's name, as the step's list has it */
    uint64_t deadline;              /* clock.h; waits 2 s at most for an srun that does not accept the connection */
    void (*log)(const char *line);  /* one line for the user */
    void (*note)(const char *line); /* one line for the node's log; NULL: not wanted */
};

/* Shows this node's `text` (lines) to the user: sends it to srun and waits until srun has printed it, or until the
 * deadline. If srun does not take it, logs every line with "ddp: NODE: " in front, and notes why. True: srun has the
 * text. With "" this node has nothing to show, or shows it by itself: srun then does not report the node as missing,
 * and the node does not wait. */
bool gather_send(const struct gather_request *r, const char *text);

/* ---- pure ---- */

struct gather_report {
    const char *node, *text; /* text NULL: this node has not reported; "": it has nothing to show */
};

/* What srun prints for n > 0 nodes: a block for each set of nodes with equal texts, the largest set first; of equally
 * large ones, the set whose first node comes first in reports[]. A block is "ddp: n[1-3]: TEXT" if the text is one
 * line, else the lines indented under "ddp: n[1-3]:". Nodes that have not reported come last, in one line. NULL: memory
 * is short, or a node's name is not valid. The caller frees the result. Names and texts stay as they are, except for
 * what could steer a terminal (plain.h). */
char *gather_fold(const struct gather_report *reports, size_t n);

#endif
