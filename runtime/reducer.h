/* reducer.h - from the ranks' gradients to their sum.
 *
 * The gradient arena is a communicator segment: gradients live where they travel. Behind the tensors lies the tail, a
 * few doubles (loss, count of items, ranks that want to stop) that ride in the same collective. In this version one reduction of everything
 * follows the backward pass. */
#ifndef DDP_RUNTIME_REDUCER_H
#define DDP_RUNTIME_REDUCER_H

#include <stdbool.h>

#include "runtime/comm/comm.h"
#include "runtime/ddp.h"
#include "runtime/layout.h"

enum reducer_tail { TAIL_LOSS, TAIL_ITEMS, TAIL_STOP, TAIL_COUNT };

struct reducer {
    comm_t *comm;
    const struct layout *layout;
    comm_segment_t *segment;
    struct comm_range range[2]; /* gradients, tail */
    bool *is_ready;             /* [layout->n] in this micro-step */
    int n_ready;
    struct ddp_metrics metrics;
    uint64_t first_ready_ns;    /* of this micro-step; 0: none yet */
    int bad_id;                 /* first id marked twice or unknown in this micro-step; -1: none */
};

/* layout is borrowed, and must hold float32 only. */
int reducer_open(struct reducer *r, comm_t *comm, const struct layout *layout, ddp_error_t *errp);
void reducer_close(struct reducer *r); /* a zeroed struct is allowed */

float *reducer_grads(const struct reducer *r);
double *reducer_tail(const struct reducer *r); /* [TAIL_COUNT], zeroed with the gradients */

void reducer_zero(struct reducer *r);
void reducer_micro_begin(struct reducer *r);
void reducer_ready(struct reducer *r, int id);
bool reducer_has_begun(const struct reducer *r); /* something was marked in this micro-step */

/* Every parameter was marked ready exactly once; else an error that names one. */
int reducer_micro_end(const struct reducer *r, ddp_error_t *errp);

/* Gradients and tail become the sums over all ranks. Collective. */
int reducer_sum(struct reducer *r, ddp_error_t *errp);

#endif
