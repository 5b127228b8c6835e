/* verify.h - finds a rank whose parameters are no longer the others', by a fault of its memory or processor, or because
 * a program wrote to them on one rank alone.
 *
 * All ranks hold the same bits between steps. Each step, skipped or not, looks at one part of them, in turn, so that
 * all are seen within `verify` steps: of its hash, cut into four numbers p below 2^16, p and p * p ride the tail
 * (reducer.h). All are alike exactly where n times the sum of the squares is the square of the sum (Cauchy and
 * Schwarz), which is exact in 64 bits for fewer than 65536 ranks. Where they are not, the ranks gather their hashes,
 * and the majority is right.
 *
 * What a rank computes from equal parameters is not verified: a wrong gradient is in everybody's sum. Where the
 * optimizer's state is spread over the ranks each value has an owner, whose word the others take with every step: a
 * part that is wrong is wrong everywhere a step later, so that only looking at all in each step finds it. */
#ifndef DDP_RUNTIME_VERIFY_H
#define DDP_RUNTIME_VERIFY_H

#include <stdint.h>

#include "runtime/core/state.h"
#include "runtime/core/team.h"

#define VERIFY_RANKS_MAX 65535
#define VERIFY_WITHIN 50 /* fewer than the steps that may be skipped in a row (step.c) */

struct verify {
    int within;     /* steps in which all is seen; 0: nothing is */
    uint64_t n_passes; /* with skipped steps, by which parts take turns */
    uint64_t hash;  /* of this step's part */
    uint64_t since; /* the step from which on this run has looked: that of a resume, or 0 */
    uint64_t next;  /* the step that is expected */
    uint64_t whole; /* verify_all has looked after whole - 1 steps; 0: never */
    void *buffer;   /* of a part, where values lie on a GPU */
};

/* Fills this rank's part of a tail that is summed, once a step, so that all ranks are at the same turn: in the
 * ddp_backward_end that ends it, and where ddp_join makes an empty pass. */
int verify_fill(struct verify *v, struct state *s, double *tail, ddp_error_t *errp);

/* Looks at the summed tail. 0; else -1 on all ranks, with an error (DDP_E_DATA) that names the ranks that are wrong, or
 * all sides where no majority is right; *ret_agreed is the last step up to which all parameters were alike. Where a
 * rank has died meanwhile t is broken. Collective. */
int verify_check(struct verify *v, struct state *s, struct team *t, const double *tail, uint64_t *ret_agreed,
                 ddp_error_t *errp);

/* Looks at all that the ranks hold between steps, where no later step would: what is saved last is gone on from, and
 * then all have it. As verify_check; once a step. Collective. */
int verify_all(struct verify *v, struct state *s, struct team *t, uint64_t *ret_agreed, ddp_error_t *errp);

void verify_close(struct verify *v);

#endif
