/* team.h - the ranks of a job, as one of them sees them: who they are, how to reach them, and what all of them must do
 * alike.
 *
 * A rank that fails alone reports it to the others (team_fail), so that none waits for it; a collective that failed has
 * failed on all of them (team_break). Either way the team is broken from then on: nothing but its end may follow. */
#ifndef DDP_RUNTIME_CORE_TEAM_H
#define DDP_RUNTIME_CORE_TEAM_H

#include <stdbool.h>
#include <stddef.h>

#include "pmix/world.h"
#include "runtime/comm/comm.h"
#include "runtime/ddp.h"

struct team {
    struct world *map;    /* which rank is on which node */
    struct ddp_world me;  /* the same, for this rank */
    comm_t *comm;
    double timeout_s;     /* of every wait for other ranks */
    bool is_broken;
};

/* w and c are borrowed. */
struct team team_of(struct world *w, comm_t *c, double timeout_s);

/* Marks t broken and returns -1: for a failed collective. */
int team_break(struct team *t);

/* The same for an error that this rank alone has: the others are told errp's text, which then gets this rank's name.
 * errp is not NULL. */
int team_fail(struct team *t, ddp_error_t *errp);

/* The same where that error is: no memory for `what`. errp may be NULL. */
int team_no_memory(struct team *t, const char *what, ddp_error_t *errp);

/* mine[0..n) of every rank, in the order of ranks; malloc, the caller frees. NULL: the collective failed, or this rank
 * has no memory and the others are told so: t is broken. Collective. */
void *team_gather(struct team *t, const void *mine, size_t n, ddp_error_t *errp);

/* Before a step that no rank may take alone: own is this rank's reason not to take it (code 0: none). Where a rank has
 * one, -1 on all: *errp is own, or tells another rank's. Collective. */
int team_agree(struct team *t, const ddp_error_t *own, ddp_error_t *errp);

/* text is the same on all ranks; else `explain` fills *errp from rank 0's and the first one that differs.
 * Collective. */
typedef int team_explain_f(const char *a, int rank_a, const char *b, int rank_b, ddp_error_t *errp);
int team_same(struct team *t, const char *text, team_explain_f *explain, ddp_error_t *errp);

#endif
