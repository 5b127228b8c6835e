/* loop.h - the training loop: samples from libddp into a model, gradients back, steps, validation, the live lines.
 *
 * Of libddp it uses only ddp.h, as any program would; beside that, runtime/base. The model is a struct of functions; it
 * borrows tensors that libddp owns and does not know about ranks: sample numbers and a gradient scale go in, losses and
 * gradients come out. */
#ifndef DDP_RUNTIME_TRAIN_LOOP_H
#define DDP_RUNTIME_TRAIN_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/ddp.h"

struct loop_param {
    char name[64];
    size_t shape[2];
    int ndim;       /* 1 or 2; 1: shape[1] is 1 */
    unsigned flags; /* enum ddp_param_flags */
};

/* Parameter `id`'s gradient of this micro-step is complete. */
typedef void loop_ready_f(void *ctx, int id);

/* A border of this micro-step (ddp_mark). */
typedef void loop_mark_f(void *ctx, enum ddp_mark mark);

/* Functions that return int give 0, or -1 with *errp filled. */
struct loop_model {
    void *self;
    void *stream; /* on a GPU the cudaStream_t on which the model computes: there bind gets device memory. NULL: none */
    size_t n_params;
    const struct loop_param *param; /* [n_params], in the order in which they are declared; borrowed from self */

    /* Takes the tensors to be used from now on, [n_params], copied; allocates the memory for the passes. Called once,
     * before the functions below. */
    int (*bind)(void *self, const struct ddp_param *tensor, ddp_error_t *errp);

    /* Parameter id's first values, into ret[its elements], the processor's memory; the same seed gives the same. */
    void (*init)(void *self, uint64_t seed, size_t id, float *ret);

    /* Names the samples that forward_backward will most likely get in its next call but one; borrowed for the call, n
     * may be 0. The model may begin to read them into memory; what forward_backward computes does not depend on it.
     * Returns at once. NULL: there is no such function. */
    void (*prefetch)(void *self, const uint64_t *sample, size_t n);

    /* Losses and gradients of samples [n]: adds to every gradient grad_scale times that of the SUM of the losses, and
     * calls ready(ctx, id) once per parameter, each as soon as its gradient is complete. The result depends only on the
     * samples and the values: not on earlier calls (there is no state from one micro-step to the next), not on the
     * number of threads, and not on which rank computes other samples; random numbers, if a model needs some, are drawn
     * from (seed, step, sample). So logical shards (ddp_data_open) give the same bits on any number of ranks. n is
     * never 0, and the same in each call except at an epoch's end. */
    int (*forward_backward)(void *self, const uint64_t *sample, size_t n, float grad_scale, loop_ready_f *ready,
                            void *ctx, double *ret_loss_sum, uint64_t *ret_n_tokens, ddp_error_t *errp);

    /* From now on mark(ctx, ...) is called in forward_backward where forward and backward begin. NULL: there is no such
     * function. */
    void (*listen)(void *self, loop_mark_f *mark, void *ctx);

    /* Validation windows come in groups of `group`, the last one smaller: the loss sums of windows
     * [first, first + n), n <= group. tokens_per_window losses are in each sum. */
    size_t n_windows, group;
    uint64_t tokens_per_window;
    int (*evaluate)(void *self, size_t first, size_t n, double *ret_loss_sum, ddp_error_t *errp);

    void (*destroy)(void *self); /* NULL is allowed */
};

struct loop_options {
    uint64_t steps;
    uint64_t log_every; /* steps from one live line to the next; the first and the last step have one too */
    double log_apart_s; /* from step 100 on at least so long between two of them */
    uint64_t val_every; /* 0: only at the end */
    FILE *out;          /* the lines; NULL: none, as on every rank but one */
    bool quiet;         /* only the last line: that of the last validation, or of the step of a stop */
    struct live *live;  /* the block on the terminal that `out` is (live.h), which the caller takes away; NULL: none */
    FILE *json;         /* every step, one JSON object a line with every digit; NULL: none */
    const char *ckpt;   /* folder for checkpoints, known to libddp; NULL: none are taken */
    double flops_per_token; /* of training; 0: lines have no FLOP/s */
    double peak_flops;      /* FLOP/s that one rank's device can do at most; 0: lines have no MFU */
    void (*warn)(void *ctx, const char *text); /* called once for each warning of libddp's; or NULL */
    void *warn_ctx;
};

/* Declares the model's parameters, commits, binds, fills the values on rank 0 and broadcasts them. Collective. */
int loop_prepare(ddp_t *d, const struct loop_model *m, const struct ddp_optimizer *opt, uint64_t seed,
                 ddp_error_t *errp);

/* True if loop_run begins with a validation: where it resumes from the checkpoint of a step that has one, since a run
 * that was stopped after that step has ended before it. A checkpoint that holds skipped steps, too, was taken later. */
bool loop_begins_validating(const ddp_t *d, const struct loop_model *m, const struct loop_options *o);

/* Trains after loop_prepare and ddp_data_open, from ddp_steps_done on, until options->steps (returns 0) or until libddp
 * says stop (returns 1, without a last validation: whoever says stop does not wait long). With options->ckpt it takes a
 * checkpoint wherever libddp says that one is due, and one before it returns. All lines of a step are written, and
 * those of options->json on disk, before its checkpoint. *ret_last is the last step. Collective. Lines:
 *   step 10/300 loss 2.831245 lr 1.500e-03 norm 0.7123 tok/s 51234
 *   ... tok/s 51234 TFLOP/s 40.88 MFU 41.3%   with flops_per_token (of one rank), and peak_flops
 *   step 300/300 val loss 2.213456
 *   checkpoint step-00000100 committed: stood still 0.412 ms, copied in 2.1 ms, written in 31 ms, 9.3 MiB */
int loop_run(ddp_t *d, const struct loop_model *m, const struct loop_options *o, struct ddp_step *ret_last,
             ddp_error_t *errp);

/* Mean validation loss per token, each window once. The groups of windows are spread over the ranks, and the windows'
 * sums are added in window order, so that the result does not depend on the number of ranks. Collective; every rank
 * gets the result. Needs m->n_windows >= 1. */
int loop_validate(ddp_t *d, const struct loop_model *m, double *ret_loss, ddp_error_t *errp);

/* A 64-bit hash over all parameter values, in registration order. Not collective. */
int loop_params_hash(ddp_t *d, const struct loop_model *m, uint64_t *ret, ddp_error_t *errp);

#endif
