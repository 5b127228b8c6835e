/* gather.h - one table per class of nodes: how each node's text reaches srun, which prints what is the same once.
 *
 * Only a verbose step has any of this. srun takes a port and a random token before it asks for the step, and tells its
 * tasks both in GATHER_VARIABLE. When it launches them, one thread takes a text from each node (the task of local rank
 * 0 sends it), folds nodes whose texts are equal, prints, and answers, so that those tasks go on only when the table
 * is there; but no more nodes wait than a quarter of the descriptors that srun may have: later ones are answered at
 * once. It waits for all nodes of the step, but no longer than `collect_s` and 10 ms for each node (40 s at most)
 * after the first text; nodes that come later find nobody. A node whose text srun does not take prints it itself, so
 * that no failure costs more than the fold. One that has no answer by its deadline goes on: srun has its text, and
 * prints it when it has waited for the others, or at its own end.
 *
 * Nobody is believed before the token. A stranger costs srun a descriptor for 2 s at most, and nothing else. Tokens
 * pass in the clear, as Slurm's own I/O keys do: who reads the network could add a table to what srun prints. */
#ifndef DDP_SPANK_GATHER_H
#define DDP_SPANK_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "spank/keys.h"
#include "spank/port.h"

/* "PORT:TOKEN". It begins with SLURM_, so that --export=NONE keeps it. */
#define GATHER_VARIABLE "SLURM_DDP_GATHER"
#define GATHER_TEXT_MAX 65536  /* bytes of one node's text */
#define GATHER_LIST_MAX 65536  /* bytes of the step's node list; a step with a longer one is not folded */
#define GATHER_NODES_MAX 65536 /* nodes of a step; a larger one is not folded */

/* ---- in srun ---- */

typedef struct gather gather_t;

struct gather_options {
    int out_fd;              /* where the fold goes; borrowed */
    struct port_range ports; /* to listen in, from a random one on; {0, 0}: any that is free */
    double collect_s;        /* patience after the first text */
};

/* Takes a port and a token; nothing listens yet. NULL: no socket, or no port of the range is free. */
gather_t *gather_create(const struct gather_options *o, ddp_error_t *errp);

/* The value for GATHER_VARIABLE; borrowed. */
const char *gather_address(const gather_t *g);

/* Listens, and starts the thread (all signals blocked). A second call does nothing. The thread ends when it has
 * printed or is told to; its code must stay in memory even if gather_destroy has to leave it behind. 0, or -1. */
int gather_start(gather_t *g, ddp_error_t *errp);

/* Ends the thread, which prints no more than what nodes rely on that have gone on, and waits for that a fifth of a
 * second at most: one that hangs in a write is left behind, with its memory. In a child that srun forked it does
 * nothing. NULL is allowed; preserves errno. */
void gather_destroy(gather_t *g);

/* ---- in a task ---- */

struct gather_request {
    lookup_f lookup; /* the task's environment: GATHER_VARIABLE, where srun is, the step's nodes */
    void *arg;
    const char *node;               /* this node's name, as the step's list has it */
    uint64_t deadline;              /* clock.h; an srun that does not answer its port is waited for 2 s at most */
    void (*log)(const char *line);  /* one line for the user */
    void (*note)(const char *line); /* one line for the node's log; NULL: not wanted */
};

/* Shows `text` (lines; the same for every node of a class) of this node to the user: hands it to srun and waits until
 * srun has printed it, or for the deadline; where srun does not take it, logs it, every line after "ddp: NODE: ", and
 * notes why. True: srun has it. With "" this node shows nothing, or does so by itself: srun then does not miss it, nor
 * does the node wait for others. */
bool gather_send(const struct gather_request *r, const char *text);

/* ---- pure ---- */

struct gather_report {
    const char *node, *text; /* text NULL: this node has not reported; "": it has nothing to show */
};

/* What srun prints for n nodes, n > 0: a block per class of equal texts, the largest first, among equally large ones
 * that whose first node comes first in reports[]. "ddp: n[1-3]: TEXT" where the text is one line, else the lines
 * indented under "ddp: n[1-3]:". Nodes that have not reported come last, in one line. NULL: memory is short, or a name
 * is none. The caller frees it. Names and texts are as they came, but for what could drive a terminal (plain.h). */
char *gather_fold(const struct gather_report *reports, size_t n);

#endif
