/* arena.h - the memory in which values and the optimizer's state lie, laid out as layout.h says, and what is done to
 * them there.
 *
 * Whether that is the processor's memory (arena_cpu.c) or a GPU's (gpu/arena.c) is chosen once, in ddp_commit; a third
 * kind would be one more file that fills this structure. Gradients lie where the reducer's carrier has them
 * (reducer.h).
 *
 * Functions that return int return 0, or -1 with *errp filled. n is in bytes, a multiple of 4. */
#ifndef DDP_RUNTIME_OPTIMIZER_ARENA_H
#define DDP_RUNTIME_OPTIMIZER_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/ddp.h"
#include "runtime/grads/reducer.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/optimizer/shards.h"

struct device;
struct device_stream;

/* Each takes the arena's ctx; the functions below say what it does. NULL: nothing is to be done. */
struct arena_ops {
    int (*step)(void *ctx, const double *used, ddp_error_t *errp);
    int (*read)(void *ctx, void *host, const void *from, size_t n, ddp_error_t *errp);
    int (*write)(void *ctx, void *to, const void *host, size_t n, ddp_error_t *errp);
    int (*bcast)(void *ctx, void *at, size_t n, int root, ddp_error_t *errp);
    int (*round)(void *ctx, ddp_error_t *errp);
    int (*shards)(void *ctx, struct shards *p, int n_shards, ddp_error_t *errp);
    void (*leave)(void *ctx, bool is_clean);
    void (*close)(void *ctx);
};

struct arena {
    const struct arena_ops *ops; /* NULL: not open */
    void *ctx;
    float *values;
    uint16_t *copies;            /* of the values, in type copy_dtype; NULL: none */
    enum ddp_dtype copy_dtype;
    bool is_spread;              /* each rank has the optimizer's state of its own slices alone, which are not whole
                                    parameters */
    const struct reducer_carrier *carrier; /* of the gradients; NULL: the communicator sums them */
    struct device *device;         /* whose memory it is; NULL: the processor's, which can read and write it */
    struct device_stream *program; /* the program's stream on it, by which what a step does is ordered */
};

/* In the processor's memory: values zeroed, and o with its slices and its state. is_spread: over the ranks
 * (zero_cpu.h). r is open; c, r, o and w are borrowed. To be closed after a failure, too. Collective. */
int arena_cpu_open(struct arena *a, comm_t *c, const struct reducer *r, struct optimizer *o, const struct ddp_world *w,
                   bool is_spread, ddp_error_t *errp);

/* Applies the optimizer's step that was begun (optimizer_begin) to what this rank steps, and has every rank get all
 * values. used: as in optimizer_apply. A failure is reported to the other ranks. Collective. */
static inline int arena_step(struct arena *a, const double *used, ddp_error_t *errp)
{
    return a->ops->step(a->ctx, used, errp);
}

/* Copy between the arena and the processor's memory, after all that the program has asked for; they wait until it is
 * done. Nothing is done where both are one place (arena_staging). */
static inline int arena_read(struct arena *a, void *host, const void *from, size_t n, ddp_error_t *errp)
{
    return a->ops->read(a->ctx, host, from, n, errp);
}
static inline int arena_write(struct arena *a, void *to, const void *host, size_t n, ddp_error_t *errp)
{
    return a->ops->write(a->ctx, to, host, n, errp);
}

/* Where bytes for `to` are put together before arena_write: there, where the processor can, else in buffer. */
static inline void *arena_staging(const struct arena *a, void *to, void *buffer)
{
    return a->device ? buffer : to;
}

/* Every rank's bytes become root's. A failure is reported to the other ranks. Collective. */
static inline int arena_bcast(struct arena *a, void *at, size_t n, int root, ddp_error_t *errp)
{
    return a->ops->bcast(a->ctx, at, n, root, errp);
}

/* After values were written by these: their copies are made anew. */
static inline int arena_round(struct arena *a, ddp_error_t *errp)
{
    return a->ops->round ? a->ops->round(a->ctx, errp) : 0;
}

/* Opens the sums of n_shards shards per rank where the gradients lie, whose order of summation is from then on one that
 * does not depend on the number of ranks. */
static inline int arena_shards(struct arena *a, struct shards *p, int n_shards, ddp_error_t *errp)
{
    return a->ops->shards(a->ctx, p, n_shards, errp);
}

/* Before the communicator goes: ends what is under way between the ranks. is_clean: all ranks leave, between two steps,
 * and nothing has failed; the call is then collective. An arena that is not open is allowed, here and below. */
static inline void arena_leave(struct arena *a, bool is_clean)
{
    if (a->ops && a->ops->leave)
        a->ops->leave(a->ctx, is_clean);
}

/* Before the device goes, and after all threads that read the arena. */
static inline void arena_close(struct arena *a)
{
    if (a->ops)
        a->ops->close(a->ctx);
    *a = (struct arena){0};
}

#endif
