/* foreign.h - beside another framework's training: what all ranks took, where no step follows that would bring it. */
#ifndef DDP_RUNTIME_FOREIGN_H
#define DDP_RUNTIME_FOREIGN_H

#include "runtime/ddp.h"

/* Ends the interval that has begun, on all ranks; of libddp's own training nothing is done. Collective. */
int foreign_end_interval(ddp_t *d, ddp_error_t *errp);

#endif
