/* reducer.h - sums the ranks' gradients while the backward pass still runs.
 *
 * The gradient arena is a segment of the communicator: gradients are reduced in place, at addresses that never change.
 * In a micro-step that synchronises, a bucket (bucket.h) is started as soon as all its gradients are marked and every
 * bucket before it has been started: strictly in index order, so that all ranks start the same reductions in the same
 * order, whatever the order in which their gradients become ready.
 *
 * After the buckets comes the tail, doubles in a segment of their own: loss, count of items, requests to stop, the
 * block sums of the norm (one rank visits each block; the other ranks add zeros), and how many ranks used which
 * parameter.
 *
 * Where gradients lie on a GPU, a carrier (gpu.h) reduces the buckets in place of the communicator. The carrier has all
 * block sums on every rank, so these are not in the tail then.
 *
 * A hook changes what is reduced: a bucket is encoded into a second segment when it is started, and decoded into the
 * gradients when it has arrived; block sums are computed from decoded values.
 *
 * A pass: reducer_zero at a step's first micro-step; then per micro-step reducer_micro_begin, reducer_mark per
 * parameter, reducer_check, reducer_micro_end. After a micro-step that synchronises, gradients and tail hold the sums.
 * From one step to the next the reducer keeps only the plan: a step that was skipped, an epoch's short last step or a
 * validation in between do not change the next step. */
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
    TAIL_SAMPLES,     /* that ranks were given for the step; not those of ranks that have joined */
    TAIL_STOP,        /* ranks that request a stop, by reason (stop.h) */
    TAIL_JOINED = TAIL_STOP + STOP_N,
    TAIL_SLOW,        /* ranks on which the step took long (cut.h) */
    TAIL_WRITTEN,     /* ranks whose part of the checkpoint in flight is on disk */
    TAIL_CKPT_FAILED, /* ranks that could not write it; or rank 0 could not commit it */
    TAIL_COMMITTED,   /* rank 0 has committed it */
    TAIL_DUE,         /* rank 0: a checkpoint is due */
    TAIL_SNAPSHOT,    /* rank 0: a snapshot is due (recall.h) */
    TAIL_UNMIRRORED,  /* ranks whose last snapshot is still on its way to another node */
    TAIL_MIRRORLESS,  /* ranks that have lost a connection to one */
    TAIL_HASH,        /* VERIFY_TAIL numbers of a hash of parameters (verify.h) */
    TAIL_COUNT = TAIL_HASH + 8
};
#define VERIFY_TAIL (TAIL_COUNT - TAIL_HASH)
enum reducer_mark { MARK_NONE, MARK_READY, MARK_UNUSED };

/* Reduces gradients that do not lie in the processor's memory, in place of the communicator. Functions return 0, or -1
 * with *errp filled; the error has then been reported to the other ranks. */
struct reducer_carrier {
    void *ctx;
    float *grads;        /* the arena */
    double *sums;        /* the processor's memory: the sums of squares over the norm's blocks, valid after wait */
    enum ddp_dtype wire; /* the type in which gradients are reduced */
    /* Zeroes the gradients. */
    int (*zero)(void *ctx, ddp_error_t *errp);
    /* Starts the bucket of parameters id[0..n); id is borrowed until the bucket has arrived. */
    int (*start)(void *ctx, const int *id, int n, ddp_error_t *errp);
    /* Waits until all buckets that were started have arrived. */
    int (*wait)(void *ctx, ddp_error_t *errp);
    /* For a trace, else NULL. Called after wait, in ns of clock.h: span, from when to when bucket b was reduced; done,
     * when the last gradient was computed. False: not known. */
    bool (*span)(void *ctx, int b, uint64_t *ret_from_ns, uint64_t *ret_to_ns);
    bool (*done)(void *ctx, uint64_t *ret_ns);
};

struct reducer_config {
    int n_ranks;
    size_t first_cap_bytes, cap_bytes;
    bool find_unused; /* a parameter that is not marked when a pass ends was not used; the first order then stays */
    bool plan;        /* buckets are planned (planner.h) from times of the first passes; else cut by the caps */
    const struct ddp_hook *hook; /* copied; NULL: gradients are reduced as they are */
    bool is_fixed;    /* the first plan is never replaced: the caller keeps state that is laid out by its buckets */
    const struct reducer_carrier *carrier; /* borrowed; NULL: none. Not with a hook, owned_only or a plan */
    bool owned_only;  /* this rank needs sums only of the part of each bucket that it owns (comm_owned, in units of
                         NORM_BLOCK elements); not with a hook */
};

/* Called in a micro-step that synchronises, before the bucket with parameter id's gradient is started, on the thread
 * that marks. */
typedef int reducer_prepare_f(void *ctx, int id, ddp_error_t *errp);

struct reducer_bucket {
    struct reducer *reducer;
    int index;
    int n_pending;     /* parameters not marked yet */
    comm_work_t *work; /* in flight */
    uint64_t started_ns, done_ns; /* done_ns: when the bucket had arrived on this rank; with a carrier, when it was
                                     waited for */
};

/* A quiet pass shows what computing takes with no communication beside it: its buckets start when its backward pass is
 * over. With several ranks these are the passes that the planner measures, every other one from REDUCER_QUIET_FIRST to
 * REDUCER_QUIET_LAST, and every quiet_every-th; but where micro-steps accumulate, those that do not synchronise. */
#define REDUCER_QUIET_FIRST 10
#define REDUCER_QUIET_LAST 18
#define REDUCER_QUIET_LEAST 10 /* of quiet_every, */
#define REDUCER_QUIET_MOST 500 /* and what it is before it is set */

/* Measurements of the first passes, from which the plan is made (reducer_tune.c). */
struct reducer_tuning {
    int n_measured;      /* passes measured so far */
    bool is_measuring;   /* this pass is measured: its buckets are reduced one by one after it */
    uint64_t *ready_ns;  /* [REDUCER_MEASURED][n] by parameter: time of its mark since the pass' first mark */
    double *took_s;      /* [REDUCER_MEASURED][n] by bucket: time of its reduction */
};
#define REDUCER_MEASURED 3

struct reducer {
    comm_t *comm;
    const struct layout *layout;
    struct reducer_config cfg;
    struct ddp_hook hook;          /* encode NULL: none */
    const struct reducer_carrier *carrier; /* NULL: none */
    comm_segment_t *grads, *tail;  /* grads is NULL with a carrier, and so is wire */
    comm_segment_t *wire;          /* what is reduced: grads, or their encoding by the hook */
    enum ddp_dtype wire_dtype;
    size_t *wire_offset;           /* [n] bytes in wire, by parameter */
    struct reducer_tuning tuning;
    struct norm norm;
    struct bucket_plan plan;
    struct comm_range *range;      /* [n] in the plan's order: each parameter's place in wire */
    struct reducer_bucket *bucket; /* [n], of which plan.n_buckets are in use */
    reducer_prepare_f *prepare;    /* or NULL; set by the owner of the reducer */
    void *prepare_ctx;

    enum reducer_mark *mark; /* [n] in this micro-step */
    bool *is_used;           /* [n] in this step, on this rank */
    bool is_sync;            /* this micro-step synchronises */
    bool is_quiet;           /* nothing travels beside it: it does not synchronise, or in a quiet pass */
    bool accumulates;        /* there was one that does not synchronise */
    bool is_failed;          /* a start failed; error says why */
    int n_marked;
    bool is_bad;             /* bad_id, the first wrong mark, was marked before, or is no parameter */
    int bad_id;
    int n_started, n_done;   /* buckets */
    ddp_error_t error;

    int *arrival;       /* [n_marked] parameters in the order of their marks */
    uint64_t *ready_ns; /* [n] by parameter: when it was marked */
    uint64_t end_ns;    /* when the backward pass ended */
    uint64_t tail_ns;   /* when the tail was started */
    struct trace *trace; /* or NULL; borrowed, set by the owner of the reducer */
    uint64_t n_passes;  /* passes that synchronised */
    uint64_t quiet_every; /* set by the owner of the reducer, the same on all ranks; 0: REDUCER_QUIET_MOST */
    uint64_t hidden_ns; /* so long buckets travelled while backward passes still computed, all in all; without a
                           carrier, whose buckets travel by a GPU's clock */
    struct ddp_metrics metrics;
};

/* layout is borrowed, and must hold float32 parameters only. Collective. */
int reducer_open(struct reducer *r, comm_t *comm, const struct layout *layout, const struct reducer_config *cfg,
                 ddp_error_t *errp);

/* A zeroed struct is allowed. If a pass was not ended, call comm_destroy first: works in flight use the reducer's
 * memory. */
void reducer_close(struct reducer *r);

float *reducer_grads(const struct reducer *r);
double *reducer_tail(const struct reducer *r);       /* [TAIL_COUNT] */
const double *reducer_used(const struct reducer *r); /* [n], after the pass: how many ranks used the parameter */

void reducer_zero(struct reducer *r);       /* begins a step: zeroes the gradients and is_used */
void reducer_zero_grads(struct reducer *r); /* within a step: zeroes the gradients, and keeps is_used */
void reducer_micro_begin(struct reducer *r, bool is_sync);
void reducer_mark(struct reducer *r, int id, enum reducer_mark mark);
bool reducer_has_begun(const struct reducer *r); /* a parameter was marked in this micro-step */

/* 0 if every parameter was marked exactly once in this micro-step; else -1 with an error that names one that was
 * not. */
int reducer_check(const struct reducer *r, ddp_error_t *errp);

/* Ends a micro-step. If it synchronises, the call is collective: it waits for the gradients' sums, then for the sums of
 * the tail, whose first TAIL_COUNT elements the caller has filled. */
int reducer_micro_end(struct reducer *r, ddp_error_t *errp);

/* Quiet passes so often that what is hidden in others, `hidden` of a step's time, costs at most 0.2% of the time. */
static inline uint64_t reducer_quiet_every(double hidden)
{
    double n = hidden / .002;
    if (n < REDUCER_QUIET_LEAST)
        return REDUCER_QUIET_LEAST;
    return n < REDUCER_QUIET_MOST ? (uint64_t)n + 1 : REDUCER_QUIET_MOST;
}

/* Buckets are reduced in index order. reducer_bucket: the parameters of bucket b, in the order in which they lie in
 * it. */
int reducer_n_buckets(const struct reducer *r);
const int *reducer_bucket(const struct reducer *r, int b, int *ret_n);

#endif
