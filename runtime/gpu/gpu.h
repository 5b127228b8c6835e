/* gpu.h - a training step on a GPU: parameters, gradients and the optimizer's state in its memory, the gradients summed
 * by NCCL and the step taken by kernels/cuda.
 *
 * The program computes on a stream of its own. Buckets travel on another one, whose work comes first where both have
 * some: it waits, on the GPU, for what the program's stream was asked for before the bucket was full. What is made of a
 * bucket that has come is made on a third one, so that it holds up neither the next bucket nor the program. The host
 * waits once a step, in ddp_backward_end: for the sums, and for the sums of squares over the norm's blocks, from which
 * it takes the same decisions by the same arithmetic as on the processor. The update is asked of the program's stream.
 *
 * That wait costs the time from the last bucket's end until the update, and what comes after it, is asked for: a poll's
 * pause, the tail's reduction, and adding up a double per 4096 parameters. In return the host knows of every failure in
 * the step where it happened, and a step that is not taken needs no second way through the optimizer. With one rank, or
 * with sums in our order (gpu_sum_in_order), a step has the bits of the processor's (t/t8201-gpu-steps.t).
 *
 * With spread (zero_gpu.h) a bucket's sums go to their owners alone (ncclReduceScatter), who step their share; then the
 * values are gathered (ncclAllGather), those of one bucket beside the next one's update.
 *
 * Arenas are laid out as layout.h says; padding stays zero. */
#ifndef DDP_RUNTIME_GPU_GPU_H
#define DDP_RUNTIME_GPU_GPU_H

#include "pmix/world.h"
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/grads/layout.h"
#include "runtime/grads/reducer.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/optimizer/shards.h"
#include "runtime/optimizer/zero_gpu.h"

typedef struct gpu gpu_t;

struct gpu_config {
    device_t *device;            /* a GPU; borrowed, as are the next five */
    const struct layout *layout;
    const struct world *world;
    comm_t *comm;
    const struct optimizer *optimizer; /* whose slices are known: moments are allocated for them */
    const struct spread *spread; /* by which they are a part of the parameters; NULL: they are all */
    void *stream;                /* the program's */
    enum ddp_dtype wire;         /* in which gradients travel: DDP_F32, DDP_BF16 or DDP_F16 */
    enum ddp_dtype kept;         /* DDP_BF16 or DDP_F16: values of that type, too; DDP_F32: none */
    bool shares_devices;         /* two ranks have one GPU */
    const char *nccl_log;        /* nccl.h; NULL: none */
    bool is_traced;              /* the carrier knows when buckets travelled */
    double timeout_s;
};

struct gpu_arenas {
    float *values, *grads;
    float *moment[OPTIM_MOMENTS]; /* as many as the rule has */
    uint16_t *values_16;  /* of the type that is kept; NULL: none */
};

/* Opening goes in three steps, with an agreement between: what this rank needs alone; NCCL, where there are several
 * ranks (collective); the arenas, zeroed, on this rank alone. */
gpu_t *gpu_open(const struct gpu_config *cfg, ddp_error_t *errp);
int gpu_wire_up(gpu_t *g, ddp_error_t *errp);
int gpu_allocate(gpu_t *g, ddp_error_t *errp);

/* From now on gradients are summed in the host communicator's order (nccl_allreduce_fixed), to its bits, which takes
 * memory for what is received. On all ranks alike, after gpu_allocate; again is nothing. */
int gpu_sum_in_order(gpu_t *g, ddp_error_t *errp);

/* The end of NCCL's part, before anything is freed: that waits for what is on its way on the GPU, perhaps for a rank
 * that is gone, which is ended here. is_clean: all ranks leave, between two steps, and nothing has failed; collective
 * then. NULL is allowed. */
void gpu_leave(gpu_t *g, bool is_clean);

/* Leaves, if that is to be done, and frees. Before the communicator and the device go. NULL is allowed. */
void gpu_close(gpu_t *g);

const struct gpu_arenas *gpu_arenas(const gpu_t *g);

/* For reducer_open; borrowed from g. After gpu_allocate. */
const struct reducer_carrier *gpu_carrier(gpu_t *g);

/* Where the sums of shards lie, and are added up on the program's stream. */
struct partials_place gpu_place(gpu_t *g);

/* The optimizer's step that was begun, on all of its slices, whose moments are the arenas'. used: as in
 * optimizer_apply. With spread it is collective, the others have been told when it fails, and it waits until all values
 * are there: a program may wait for its stream in ways that no dead rank ends, so nothing of NCCL's is left in it. */
int gpu_step(gpu_t *g, const double *used, ddp_error_t *errp);

/* The program's stream, borrowed. */
device_stream_t *gpu_program(const gpu_t *g);

/* n bytes of an arena (a multiple of 4) to and from the processor's memory, in the order of the program's stream; they
 * wait. */
int gpu_read(gpu_t *g, void *host, const void *from, size_t n, ddp_error_t *errp);
int gpu_write(gpu_t *g, void *to, const void *host, size_t n, ddp_error_t *errp);

/* Every rank's bytes become root's. Waits. Collective. */
int gpu_bcast(gpu_t *g, void *at, size_t n, int root, ddp_error_t *errp);

/* The values in 16 bits follow the values, if there are any. */
int gpu_round(gpu_t *g, ddp_error_t *errp);

#endif
