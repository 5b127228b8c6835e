/* impl.h - what gpu.c, gpu/carry.c and gpu/step.c share. */
#ifndef DDP_RUNTIME_GPU_IMPL_H
#define DDP_RUNTIME_GPU_IMPL_H

#include "kernels/cuda/cast.h"
#include "kernels/cuda/optim.h"
#include "kernels/cuda/reduce.h"
#include "runtime/gpu/gpu.h"
#include "runtime/grads/norm.h"
#include "runtime/nccl/nccl.h"

/* A bucket on its way. */
struct gpu_bucket {
    const int *id; /* [n] its parameters, borrowed; n 0: none is on its way */
    int n;
};

/* When things came about on the GPU. Without a trace all of it is zeros. */
struct gpu_times {
    device_event_t **from, **to; /* [layout->n] travel of bucket b; made when there is one */
    device_event_t *done;        /* the gradients of the last one that has set out */
    int n;                       /* buckets that have set out in this pass */
    uint64_t summed_ns;          /* when it was seen that `summed` was reached */
};

struct gpu {
    struct gpu_config cfg;
    struct gpu_arenas arena;
    void *wire;             /* what travels: the gradients' arena, or one of cfg.wire */
    double *sums;           /* device memory, [norm.n_blocks] */
    double *host_sums;      /* the same here, pinned */
    cuda_optim_f *step;     /* the optimizer's */
    struct norm norm;       /* where each parameter's blocks are */
    device_stream_t *program, *travel, *copies;
    device_stream_t *behind; /* what is made of a bucket that has come, beside the next one's travel */
    device_event_t *asked;  /* what the program's stream was asked for */
    device_event_t *come;   /* what the stream of travel was: behind comes after it */
    device_event_t *summed; /* the last bucket, and what was made of it */
    nccl_t *nccl;           /* NULL for one rank */
    struct nccl_stage stage; /* of sums in order; data NULL: in NCCL's order */
    void *bounce;           /* pinned, GPU_BOUNCE_BYTES */
    struct gpu_bucket last; /* that was started: its block sums are still to be asked for */
    struct reducer_carrier carrier;
    struct gpu_times times;

    /* Of one call: [layout->n] each. */
    struct nccl_range *span;
    struct cuda_range *cast;
    struct cuda_norm_range *blocks;
    struct cuda_optim_range *update;
    size_t n_update;        /* room, in slices of the optimizer */
};

#define GPU_BOUNCE_BYTES ((size_t)4 << 20)
#define GPU_STAGE_BYTES ((size_t)32 << 20) /* a bucket as it is by default, and what slices are rounded by */

/* What a function of kernels/cuda returned. */
int gpu_result(gpu_t *g, int code, const char *call, ddp_error_t *errp);

/* From now on stream s comes after what the program's stream was asked for so far. */
int gpu_after_program(gpu_t *g, device_stream_t *s, ddp_error_t *errp);

/* And g->behind after what the stream of travel was, NCCL's work included: waits until that stands there, since NCCL
 * puts it on the stream some time after it is called (nccl.h). */
int gpu_after_travel(gpu_t *g, ddp_error_t *errp);

/* Until e is reached, while the watch looks after the other ranks. */
int gpu_wait(gpu_t *g, device_event_t *e, ddp_error_t *errp);

/* Asks s for values in 16 bits, if there are any, rounded to the nearest: elements [first, first + n) of the arenas. */
int gpu_round_range(gpu_t *g, size_t first, size_t n, device_stream_t *s, ddp_error_t *errp);

/* What failed here is not known to the others, who wait for this rank. *errp becomes *why; returns -1. */
int gpu_tell(gpu_t *g, const ddp_error_t *why, ddp_error_t *errp);

/* gpu/times.c; without a trace they do nothing. A bucket's gradients are asked for, and it sets out; it has come. Then,
 * once the sums are there: for the carrier. */
int gpu_times_open(gpu_t *g, ddp_error_t *errp);
void gpu_times_close(gpu_t *g);
int gpu_times_depart(gpu_t *g, ddp_error_t *errp);
int gpu_times_come(gpu_t *g, ddp_error_t *errp);
bool gpu_times_span(void *ctx, int b, uint64_t *ret_from_ns, uint64_t *ret_to_ns);
bool gpu_times_done(void *ctx, uint64_t *ret_ns);

#endif
