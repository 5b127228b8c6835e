/* lifeline.h - by which a step's guards see that srun has gone: srun listens at a port; the root's guard connects, and
 * keeps the connection, which ends with srun. srun sends nothing.
 *
 * A connection may also end because of what is between the two. So srun has gone only when the guard, once it was
 * connected, connects again and is refused: its host is there, and nobody listens. A host that does not answer is asked
 * again for as long as the step runs. Where the first connection fails (a firewall), nobody watches.
 *
 * Where a step's nodes can be lost, its last guard says over the connection that srun is to end, since it would wait
 * for the tasks of those nodes. srun does that when this guard, too, has ended: of a guard that has Slurm cancel its
 * own step Slurm's SIGKILL can be faster than its end, and the step's exit code 137. A part of the step that reaches
 * too few nodes does not know whether the others run; srun does, whom the root of those tells it. */
#ifndef DDP_SPANK_NET_LIFELINE_H
#define DDP_SPANK_NET_LIFELINE_H

#include <stdbool.h>

#include "runtime/base/error.h"
#include "spank/net/port.h"

#define LIFELINE_VARIABLE "SLURM_DDP_SRUN" /* srun's port, to its tasks */
#define LIFELINE_CONNECT_S 10
#define LIFELINE_AGAIN_S 1   /* after a connection has ended */
#define LIFELINE_WAIT_S 30   /* after a host that does not answer */
#define LIFELINE_FEW_S 150   /* from LIFELINE_FEW to srun's end: who is most is known when all have had time to come */

/* What a guard says. */
enum lifeline_word {
    LIFELINE_LAST, /* srun is to end once this guard has: nobody else is left */
    LIFELINE_MOST, /* the root of most nodes: the step goes on, while this connection is there */
    LIFELINE_FEW,  /* the root of few, which end: srun is to end, too, if nobody says then that the step goes on */
    LIFELINE_WORDS
};

/* ---- in srun ---- */

/* Listens, at a port of the range ({0, 0}: at any), until the process ends. token (of GUARDS_VARIABLE): a thread hears
 * guards, and sends this process SIGTERM, by which srun ends the step and itself, when they have said so; NULL: nobody
 * accepts a connection. The thread stays: this code is not to be unloaded. The port, or -1. */
int lifeline_listen(struct port_range range, const char *token, ddp_error_t *errp);

/* ---- in a guard ---- */

typedef struct lifeline lifeline_t;

/* host: a numeric address. Begins to connect; descriptors are closed by exec. NULL: nothing to watch, or no memory. */
lifeline_t *lifeline_open(const char *host, const char *port);

int lifeline_fd(const lifeline_t *l);      /* -1: none now */
short lifeline_events(const lifeline_t *l); /* for poll */
int lifeline_wait_ms(const lifeline_t *l); /* until lifeline_step is due; -1: until the descriptor is ready */

/* Without waiting. True once srun has gone. */
bool lifeline_step(lifeline_t *l);

/* To an srun that listens with this token; LIFELINE_MOST once over each connection. False: it cannot be told now. */
bool lifeline_say(lifeline_t *l, const char *token, enum lifeline_word what);

#endif
