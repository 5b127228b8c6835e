/* gpu.h - a training step on a GPU: parameters, gradients and the optimizer's state are in the GPU's memory, NCCL sums
 * the gradients, and kernels/cuda take the step.
 *
 * There are three streams. The program computes on its own stream. Buckets are reduced on a second one, of higher
 * priority, which first waits, on the GPU, for the work that the program's stream held when the bucket was full. What
 * follows a bucket's reduction (block sums, casts) runs on a third one, so that it delays neither the next bucket nor
 * the program. The host waits once a step, in ddp_backward_end, for the sums and for the sums of squares over the
 * norm's blocks; from these it takes the same decisions by the same arithmetic as on the processor. Then the update is
 * enqueued on the program's stream.
 *
 * That wait costs the time from the end of the last bucket until the update, and what follows it, is enqueued: a poll's
 * pause, the tail's reduction, and the addition of one double per 4096 parameters. In return the host sees every
 * failure in the step in which it happened, and a skipped step needs no second path through the optimizer. With one
 * rank, or with sums in our order (gpu_sum_in_order), a step gives the same bits as on the processor
 * (t/t8201-gpu-steps.t).
 *
 * With spread (zero_gpu.h) a bucket's sums go only to their owners (ncclReduceScatter), who step their shares; then the
 * values are gathered (ncclAllGather), one bucket's while the next bucket is updated.
 *
 * Arenas are laid out as layout.h says; padding stays zero. */
#ifndef DDP_RUNTIME_GPU_GPU_H
#define DDP_RUNTIME_GPU_GPU_H

#include "pmix/world.h"
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/grads/layout.h"
#include "runtime/grads/reducer.h"
#include "runtime/optimizer/arena.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/optimizer/zero_gpu.h"

typedef struct gpu gpu_t;

struct gpu_config {
    device_t *device;            /* a GPU; borrowed, as are the next five */
    const struct layout *layout;
    const struct world *world;
    comm_t *comm;
    struct optimizer *optimizer; /* has its slices already; is lent moments for these by gpu_allocate */
    const struct zero_gpu *spread; /* ZeRO: which part of the parameters the slices are; NULL: all of them */
    void *stream;                /* the program's */
    enum ddp_dtype wire;         /* the type in which gradients are reduced: DDP_F32, DDP_BF16 or DDP_F16 */
    enum ddp_dtype kept;         /* DDP_BF16 or DDP_F16: a copy of the values in that type is kept; DDP_F32: none */
    bool shares_devices;         /* two ranks have the same GPU */
    const char *nccl_log;        /* nccl.h; NULL: none */
    bool is_traced;              /* the carrier records when buckets were reduced */
    double timeout_s;
    void (*warn)(void *ctx, const char *line); /* nccl.h */
    void *warn_ctx;
};

/* Opening takes three calls, with an agreement of the ranks after the first and the last. gpu_open creates what this
 * rank needs for itself; gpu_wire_up connects NCCL where there are several ranks, and takes NCCL's memory for what
 * travels (collective); gpu_allocate allocates the rest, zeroed (not collective). */
gpu_t *gpu_open(const struct gpu_config *cfg, ddp_error_t *errp);
int gpu_wire_up(gpu_t *g, ddp_error_t *errp);
int gpu_allocate(gpu_t *g, ddp_error_t *errp);

/* From now on gradients are summed in the host communicator's order, to its bits (nccl_allreduce_fixed). Takes memory
 * for received data. All ranks call it, after gpu_allocate; a second call does nothing. */
int gpu_sum_in_order(gpu_t *g, ddp_error_t *errp);

/* The arena in g's memory, as far as that is allocated; closing it closes g. Its step, with spread, reports its failure
 * to the other ranks and waits until all values have arrived: the program may wait for its stream without looking at
 * the watch, so no work of NCCL's may be left in that stream when a rank dies. */
struct arena gpu_arena(gpu_t *g);

#endif
