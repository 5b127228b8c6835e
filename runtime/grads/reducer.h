/* reducer.h - from the ranks' gradients to their sum, while the backward pass still runs.
 *
 * The gradient arena is a communicator segment: gradients live where they travel, at addresses that never change. In a
 * micro-step that synchronises, a bucket (bucket.h) starts to travel as soon as all its gradients are marked and every
 * bucket before it has started: strictly in index order, so that all ranks start the same reductions in the same order
 * whatever the order in which their gradients come.
 *
 * Behind the buckets travels the tail, doubles in a segment of their own: loss, count of items, wishes, the block sums
 * of the norm (each block is visited on one rank; the others' zeros leave it as it is), and how many ranks used which
 * parameter.
 *
 * Where gradients lie on a GPU, a carrier (gpu.h) does what the communicator does for buckets here; it has all block
 * sums on every rank, so that these are no part of the tail then.
 *
 * A hook changes what travels: buckets are encoded into a second segment when they start, and decoded into the
 * gradients when they have arrived; block sums are made of decoded values.
 *
 * A pass: reducer_zero at a step's first micro-step; then per micro-step reducer_micro_begin, reducer_mark per
 * parameter, reducer_check, reducer_micro_end; after a synchronising one gradients and tail hold the sums. From one
 * step to the next the reducer keeps the plan and nothing else: a step that was skipped, an epoch's short last step or
 * a validation in between leave no trace in the next step. */
#ifndef DDP_RUNTIME_GRADS_REDUCER_H
#define DDP_RUNTIME_GRADS_REDUCER_H

#include <stdbool.h>

#include "runtime/comm/comm.h"
#include "runtime/ddp.h"
#include "runtime/grads/bucket.h"
#include "runtime/grads/layout.h"
#include "runtime/grads/norm.h"
#include "runtime/grads/trace.h"
#include "runtime/sched/stop.h"

enum reducer_tail {
    TAIL_LOSS,
    TAIL_ITEMS,
    TAIL_STOP,        /* ranks that want to stop, by reason (stop.h) */
    TAIL_JOINED = TAIL_STOP + STOP_N,
    TAIL_SLOW,        /* ranks on which the step took long (cut.h) */
    TAIL_WRITTEN,     /* ranks whose part of the checkpoint in flight is on disk */
    TAIL_CKPT_FAILED, /* ranks that could not write it; or rank 0 could not commit it */
    TAIL_COMMITTED,   /* rank 0 has committed it */
    TAIL_DUE,         /* rank 0: a checkpoint is due */
    TAIL_COUNT
};
enum reducer_mark { MARK_NONE, MARK_READY, MARK_UNUSED };

/* Carries gradients that do not lie in the processor's memory, in place of the communicator. Functions give 0, or -1
 * with *errp filled; the others have been told then. */
struct reducer_carrier {
    void *ctx;
    float *grads;        /* the arena */
    double *sums;        /* the processor's memory: the sums of squares over the norm's blocks, once all has arrived */
    enum ddp_dtype wire; /* in which they travel */
    int (*zero)(void *ctx, ddp_error_t *errp);                          /* the gradients */
    int (*start)(void *ctx, const int *id, int n, ddp_error_t *errp);   /* the bucket of these parameters sets out; id
                                                                           is borrowed until it has arrived */
    int (*wait)(void *ctx, ddp_error_t *errp);                          /* until all that set out has arrived */
    /* For a trace, else NULL. After wait, in ns of clock.h: when bucket b travelled, and when the gradients were done;
     * false: not known. */
    bool (*span)(void *ctx, int b, uint64_t *ret_from_ns, uint64_t *ret_to_ns);
    bool (*done)(void *ctx, uint64_t *ret_ns);
};

struct reducer_config {
    int n_ranks;
    size_t first_cap_bytes, cap_bytes;
    bool find_unused; /* who is not marked at a pass' end was not used; the order is then not rebuilt */
    bool plan;        /* buckets are planned (planner.h) from what the first passes took; else cut by the caps */
    const struct ddp_hook *hook; /* copied; NULL: gradients travel as they are */
    bool is_fixed;    /* the first plan is never replaced: the caller keeps state that is laid out by its buckets */
    const struct reducer_carrier *carrier; /* borrowed; NULL: none. Not with a hook, owned_only or a plan */
    bool owned_only;  /* sums are wanted only of what this rank owns of each bucket (comm_owned, in units of NORM_BLOCK
                         elements); not with a hook */
};

/* Comes before parameter id's gradient travels, in a micro-step that synchronises, on the thread that marks. */
typedef int reducer_prepare_f(void *ctx, int id, ddp_error_t *errp);

struct reducer_bucket {
    struct reducer *reducer;
    int index;
    int n_pending;     /* parameters not marked yet */
    comm_work_t *work; /* in flight */
    uint64_t started_ns, done_ns; /* done: when it was noticed */
};

/* The first passes, in which the plan is found (reducer_tune.c). */
struct reducer_tuning {
    int n_measured;      /* passes */
    bool is_measuring;   /* this pass: buckets travel one by one after it */
    uint64_t *ready_ns;  /* [REDUCER_MEASURED][n] since the pass' first mark, by parameter */
    double *took_s;      /* [REDUCER_MEASURED][n] by bucket */
};
#define REDUCER_MEASURED 3

struct reducer {
    comm_t *comm;
    const struct layout *layout;
    struct reducer_config cfg;
    struct ddp_hook hook;          /* encode NULL: none */
    const struct reducer_carrier *carrier; /* NULL: none */
    comm_segment_t *grads, *tail;  /* grads, and wire: NULL with a carrier */
    comm_segment_t *wire;          /* what travels: grads, or what the hook makes of them */
    enum ddp_dtype wire_dtype;
    size_t *wire_offset;           /* [n] bytes, by parameter */
    struct reducer_tuning tuning;
    struct norm norm;
    struct bucket_plan plan;
    struct comm_range *range;      /* [n] as the plan orders them */
    struct reducer_bucket *bucket; /* [n], of which plan.n_buckets are in use */
    reducer_prepare_f *prepare;    /* or NULL; set by the owner of the reducer */
    void *prepare_ctx;

    enum reducer_mark *mark; /* [n] in this micro-step */
    bool *is_used;           /* [n] in this step, on this rank */
    bool is_sync, is_failed; /* is_failed: a start failed, and error says why */
    int n_marked;
    bool is_bad;             /* bad_id was marked twice, or there is no such parameter; the first such */
    int bad_id;
    int n_started, n_done;   /* buckets */
    ddp_error_t error;

    int *arrival;       /* [n_marked] parameters in the order of their marks */
    uint64_t *ready_ns; /* [n] by parameter */
    uint64_t end_ns;    /* when the backward pass ended, */
    uint64_t tail_ns;   /* and the tail set out */
    struct trace *trace; /* or NULL; borrowed, set by the owner of the reducer */
    uint64_t n_passes;  /* that synchronised */
    struct ddp_metrics metrics;
};

/* layout is borrowed, and must hold float32 only. Collective. */
int reducer_open(struct reducer *r, comm_t *comm, const struct layout *layout, const struct reducer_config *cfg,
                 ddp_error_t *errp);

/* A zeroed struct is allowed. Comes after comm_destroy if a pass was not ended. */
void reducer_close(struct reducer *r);

float *reducer_grads(const struct reducer *r);
double *reducer_tail(const struct reducer *r);       /* [TAIL_COUNT] */
const double *reducer_used(const struct reducer *r); /* [n], after the pass: ranks that used the parameter */

void reducer_zero(struct reducer *r);
void reducer_zero_grads(struct reducer *r); /* within a step: what was used stays noted */
void reducer_micro_begin(struct reducer *r, bool is_sync);
void reducer_mark(struct reducer *r, int id, enum reducer_mark mark);
bool reducer_has_begun(const struct reducer *r); /* something was marked in this micro-step */

/* Every parameter was marked exactly once in this micro-step; else an error that names one. */
int reducer_check(const struct reducer *r, ddp_error_t *errp);

/* Ends a micro-step. When it synchronises, waits for the gradients' sums, then for the tail's, which the caller has
 * filled up to TAIL_COUNT. Collective then. */
int reducer_micro_end(struct reducer *r, ddp_error_t *errp);

/* Buckets travel in index order. The parameters of bucket b, in the order in which they lie in it. */
int reducer_n_buckets(const struct reducer *r);
const int *reducer_bucket(const struct reducer *r, int b, int *ret_n);

#endif
