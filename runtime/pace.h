/* pace.h - finds the rank that computes slower than the others, for which all of them wait in every step.
 *
 * A rank's time is the median over PACE_STEPS steps from ddp_batch_next of the first micro-step to ddp_backward_end of
 * the last. The ranks then gather these: a rank is slow whose time is more than PACE_SLOW times the median rank's. On
 * processors alone: a GPU still computes when the host has come to the pass's end. */
#ifndef DDP_RUNTIME_PACE_H
#define DDP_RUNTIME_PACE_H

#include "runtime/core/team.h"

#define PACE_STEPS 50
#define PACE_SLOW 1.2
#define PACE_LEAST_S 1e-3 /* below it a step's time is that of its calls, and of what else the machine does */

struct pace {
    int n; /* steps noted */
    double took_s[PACE_STEPS];
    int slow_rank; /* that was slow last, where slow is not "" */
    double slow_factor;
    char slow[128]; /* "rank 3 (n2) computes 1.31 times as long as the median rank"; "": none was */
};

/* In ddp_backward_end: what this step took on this rank. */
void pace_note(struct pace *p, double took_s);

/* In ddp_step: after PACE_STEPS steps, looks who was slow in them. has_joined: a rank had no data in this step, and all
 * begin anew. Collective. */
int pace_after_step(struct pace *p, struct team *t, bool has_joined, ddp_error_t *errp);

#endif
