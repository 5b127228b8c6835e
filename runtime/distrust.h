/* distrust.h - ends training where ranks are found whose parameters are no longer the others' (verify.h): whoever goes
 * on does so from a checkpoint of before, and later ones are set aside first. Then the ranks meet, since the first one
 * that aborts ends the others. */
#ifndef DDP_RUNTIME_DISTRUST_H
#define DDP_RUNTIME_DISTRUST_H

#include "runtime/ddp.h"

/* After a step, by its summed tail. 0; else -1 on all ranks, with an error that says who is wrong, and what became of
 * later checkpoints. Collective. */
int distrust_step(ddp_t *d, const double *tail, ddp_error_t *errp);

/* The same of all parameters, before what may be the last checkpoint: no step follows that would find them. */
int distrust_all(ddp_t *d, ddp_error_t *errp);

#endif
