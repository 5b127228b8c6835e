/* optimizer.h - the optimizer over the whole arena: schedule, norm, clipping, step. */
#ifndef DDP_RUNTIME_OPTIMIZER_H
#define DDP_RUNTIME_OPTIMIZER_H

#include "runtime/ddp.h"
#include "runtime/layout.h"

struct optimizer {
    struct ddp_adamw cfg;
    float *m, *v;     /* arenas like the values'; NULL for SGD */
    size_t n_elems;   /* in m, and in v */
    uint64_t n_steps; /* steps taken */
};

/* Checks cfg (the error names the field) and allocates the state, zeroed. */
int optimizer_open(struct optimizer *o, const struct ddp_adamw *cfg, const struct layout *l, ddp_error_t *errp);
void optimizer_close(struct optimizer *o); /* a zeroed struct is allowed */

/* The learning rate of step `step` (0 is the first); the formula stands in ddp.h. Pure. */
double optimizer_lr(const struct ddp_adamw *cfg, uint64_t step);

/* Bytes of the moments. */
size_t optimizer_bytes(const struct optimizer *o);

/* One step with gradient = scale * grads, clipped. norm is the L2 norm of grads (runtime/norm.h); one that is not finite
 * changes nothing and sets skipped. used[id] == 0: no rank used parameter id in this step, and its value and moments stay as they
 * are; NULL: all were used. Fills ret->step, grad_norm, lr and skipped. */
void optimizer_step(struct optimizer *o, const struct layout *l, float *values, const float *grads, double norm,
                    double scale, const double *used, struct ddp_step *ret);

#endif
