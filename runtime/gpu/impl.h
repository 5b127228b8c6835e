/* impl.h - what the files of this room share. */
#ifndef DDP_RUNTIME_GPU_IMPL_H
#define DDP_RUNTIME_GPU_IMPL_H

#include "kernels/cuda/cast.h"
#include "kernels/cuda/optim.h"
#include "kernels/cuda/reduce.h"
#include "runtime/gpu/gpu.h"
#include "runtime/grads/norm.h"
#include "runtime/nccl/nccl.h"

struct gpu_arenas {
    float *values, *grads;
    float *moment[OPTIM_MOMENTS]; /* as many as the rule has */
    uint16_t *values_16;  /* the values in type cfg.kept; NULL: none */
};

/* A bucket in flight. */
struct gpu_bucket {
    const int *id; /* [n] its parameters, borrowed; n 0: no bucket is in flight */
    int n;
};

/* When each bucket's reduction started and ended on the GPU, for a trace; all zeros without one. */
struct gpu_times {
    device_event_t **from, **to; /* [layout->n] start and end of bucket b's reduction; created at first use */
    device_event_t *done;        /* the program has computed the gradients of the last bucket that was started */
    int n;                       /* buckets started in this pass */
    uint64_t summed_ns;          /* the host's clock when it saw `summed` reached */
};

#define GPU_OWN_MAX (OPTIM_MOMENTS + 6) /* each arena, the copy that travels, sums, the stage */

struct gpu {
    struct gpu_config cfg;
    void *own[GPU_OWN_MAX]; /* the device memory that is not NCCL's */
    int n_own;
    struct gpu_arenas arena;
    void *wire;             /* what is reduced: the gradients' arena, or a copy of it in type cfg.wire */
    double *sums;           /* the blocks' sums of squares in device memory, [norm.n_blocks] */
    double *host_sums;      /* their copy in pinned memory of the processor */
    cuda_optim_f *step;     /* the optimizer's */
    struct norm norm;       /* where each parameter's blocks are */
    device_stream_t *program; /* the program's stream */
    device_stream_t *travel;  /* communication: casts and NCCL's reductions */
    device_stream_t *copies;  /* gpu_read and gpu_write */
    device_stream_t *behind;  /* work on a bucket after its reduction or gather, while the next one is in flight */
    device_event_t *asked;  /* the point of `program` that gpu_after_program waits for */
    device_event_t *come;   /* the point of `travel` that `behind` waits for, and the other way round */
    device_event_t *summed; /* the last bucket is reduced, and its block sums are computed */
    nccl_t *nccl;           /* NULL for one rank */
    struct nccl_stage stage; /* for sums in the fixed order; data NULL: sums are in NCCL's order */
    void *bounce;           /* pinned, GPU_BOUNCE_BYTES */
    struct gpu_bucket last; /* the bucket that was started last, whose block sums are not enqueued yet */
    struct reducer_carrier carrier;
    struct gpu_times times;

    /* Scratch of one call, [layout->n] each: the ranges that it hands to NCCL or to a kernel. */
    struct nccl_range *span;
    struct cuda_range *cast;
    struct cuda_norm_range *blocks;
    struct cuda_optim_range *update;
    size_t n_update;        /* room, in slices of the optimizer */
};

#define GPU_BOUNCE_BYTES ((size_t)4 << 20)
#define GPU_STAGE_BYTES ((size_t)32 << 20) /* a bucket of the default size, and what its slices are rounded up by */

/* Turns what a function of kernels/cuda returned into 0, or -1 with an error that names `call`. */
int gpu_result(gpu_t *g, int code, const char *call, ddp_error_t *errp);

/* What is enqueued on stream s from now on runs after what the program's stream holds now. The host does not wait. */
int gpu_after_program(gpu_t *g, device_stream_t *s, ddp_error_t *errp);

/* What is enqueued on g->behind from now on runs after what g->travel holds now, NCCL's work included. The host waits
 * until NCCL has enqueued that work, which it does some time after it is called (nccl.h). */
int gpu_after_travel(gpu_t *g, ddp_error_t *errp);

/* Waits until e is reached, or until the watch reports that a rank has died. */
int gpu_wait(gpu_t *g, device_event_t *e, ddp_error_t *errp);

/* Enqueues on s the rounding of values [first, first + n) to their 16-bit copies, if the arenas have any. */
int gpu_round_range(gpu_t *g, size_t first, size_t n, device_stream_t *s, ddp_error_t *errp);

/* Ends NCCL's part. Call it before anything is freed: freeing waits for work on the GPU, which may itself wait for a
 * rank that has died; this call ends such work. is_clean: as in arena_leave. */
void gpu_leave(gpu_t *g, bool is_clean);

/* Calls gpu_leave if it was not called, then frees. */
void gpu_close(gpu_t *g);

/* For reducer_open; borrowed from g. After gpu_allocate. */
const struct reducer_carrier *gpu_carrier(gpu_t *g);

/* arena_ops.step; ctx is a gpu_t. */
int gpu_step(void *ctx, const double *used, ddp_error_t *errp);

/* Reports this rank's error *why to the other ranks, which do not know of it and wait for this rank. *errp becomes
 * *why; returns -1. */
int gpu_tell(gpu_t *g, const ddp_error_t *why, ddp_error_t *errp);

/* gpu/times.c; without a trace these do nothing. depart: records that a bucket's gradients are computed, and that its
 * reduction starts; come: that its reduction ends. span and done are the carrier's functions of these names, valid once
 * the sums have arrived. */
int gpu_times_open(gpu_t *g, ddp_error_t *errp);
void gpu_times_close(gpu_t *g);
int gpu_times_depart(gpu_t *g, ddp_error_t *errp);
int gpu_times_come(gpu_t *g, ddp_error_t *errp);
bool gpu_times_span(void *ctx, int b, uint64_t *ret_from_ns, uint64_t *ret_to_ns);
bool gpu_times_done(void *ctx, uint64_t *ret_ns);

#endif
