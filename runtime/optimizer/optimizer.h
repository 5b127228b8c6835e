/* optimizer.h - the optimizer over the arena, or over the part of it that this rank owns: rule, schedule, clipping,
 * step. Pure. */
#ifndef DDP_RUNTIME_OPTIMIZER_OPTIMIZER_H
#define DDP_RUNTIME_OPTIMIZER_OPTIMIZER_H

#include "kernels/optim.h"
#include "runtime/ddp.h"
#include "runtime/grads/layout.h"

/* Elements [at, at + n_elems) of the arena, all of parameter id, whose moments are moment[k][state .. state +
 * n_elems). */
struct optimizer_slice {
    int id;
    size_t at, n_elems, state;
    bool decays;
};

struct optimizer {
    struct ddp_optimizer cfg;
    const struct optim_rule *rule;
    struct optimizer_slice *slice; /* [n_slices]: what this rank steps */
    size_t n_slices, room;
    size_t n_elems;                /* of each moment; slices begin at multiples of 64 bytes */
    float *moment[OPTIM_MOMENTS];  /* as many as the rule has */
    bool is_lent;                  /* the moments are the caller's memory (optimizer_lend) */
    uint64_t n_steps;              /* steps taken */
    struct optim_args args;        /* of the step that was begun */
};

/* Checks cfg; the error names the field, and NULL is an error too. The optimizer owns no slices yet. */
int optimizer_open(struct optimizer *o, const struct ddp_optimizer *cfg, ddp_error_t *errp);
void optimizer_close(struct optimizer *o); /* a zeroed struct is allowed */

/* All fields of o->cfg, one "KEY=VALUE" a line: two configurations are equal exactly if their texts are. */
void optimizer_text(const struct optimizer *o, char *ret, size_t size);

/* optimizer_own adds one slice: elements [first, first + n_elems) of parameter id. optimizer_own_all adds all elements
 * of all parameters, in registration order. */
int optimizer_own(struct optimizer *o, const struct layout *l, int id, size_t first, size_t n_elems, ddp_error_t *errp);
int optimizer_own_all(struct optimizer *o, const struct layout *l, ddp_error_t *errp);

/* Allocates the moments of all slices, zeroed. Comes once, before the first step. */
int optimizer_allocate(struct optimizer *o, ddp_error_t *errp);

/* In place of optimizer_allocate: takes moments of the caller's, zeroed, n_elems elements each, borrowed; for example
 * in a GPU's memory, where gpu.h then steps them. */
void optimizer_lend(struct optimizer *o, float *const *moment);

/* Bytes of the moments. */
size_t optimizer_bytes(const struct optimizer *o);

/* The learning rate of step `step` (0 is the first); ddp.h has the formula. */
double optimizer_lr(const struct ddp_optimizer *cfg, uint64_t step);

/* Begins a step whose gradient is scale * grads, clipped; norm is the L2 norm of grads (runtime/grads/norm.h). If the
 * norm is not finite, ret->skipped is set, and the caller must not apply the step. Fills ret->step, grad_norm, lr and
 * skipped. */
void optimizer_begin(struct optimizer *o, double norm, double scale, struct ddp_step *ret);

/* Applies the step that was begun to slices [first, end). used[id] == 0: no rank used parameter id in this step, and
 * its values and moments stay as they are; used NULL: all parameters were used. values and grads are arenas. */
void optimizer_apply(struct optimizer *o, size_t first, size_t end, float *values, const float *grads,
                     const double *used);

#endif
