/* train.h - a model in training, as `ddp bench step` times it: the GPT of runtime/train on made-up tokens,
 * stepped through ddp.h as a program would.
 *
 * Samples are defined by a rule, so that another program (contrib/bench/gpt.py) can have the same: token i of sample s
 * is mix(s (context + 1) + i) mod 16, mix being the step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): few of the
 * vocabulary, so that the loss falls within a few steps and equal losses mean something. Which samples a rank takes
 * follows from the option order (ddp.h): those of PyTorch's DistributedSampler with --ddp-order=distributed. */
#ifndef DDP_RUNTIME_BENCH_TRAIN_H
#define DDP_RUNTIME_BENCH_TRAIN_H

#include "runtime/ddp.h"
#include "runtime/train/model.h"

#define TRAIN_SAMPLES 65536 /* an epoch */
#define TRAIN_TOKENS 16     /* tokens that occur */
#define TRAIN_SEED 42       /* of the weights and of the order of samples */

struct train_config {
    struct model_config model;
    size_t batch; /* samples per rank and micro-step */
    int accum;    /* micro-steps per step */
    struct ddp_optimizer optimizer;
    const char *load; /* file of weights to start from, float32 in registration order; NULL: drawn */
};

/* One step's times in seconds, on this rank. With 3 or more micro-steps there is a barrier before each of the last two,
 * which is not counted. */
struct train_times {
    double step;
    double quiet;    /* its last micro-step but one, which sums nothing over ranks; 0 without accumulation */
    double sync;     /* its last micro-step, forward pass to sums */
    double backward; /* within that: from the first complete gradient to the end of the backward pass */
    double wait;     /* within that: in ddp_backward_end */
};
#define TRAIN_N_TIMES (sizeof(struct train_times) / sizeof(double))

typedef struct train train_t;

/* Declares, commits and fills the parameters on d. The caller destroys, before ddp_finalize. Collective. */
train_t *train_create(ddp_t *d, const struct train_config *c, ddp_error_t *errp);
void train_destroy(train_t *t); /* NULL is allowed */

size_t train_n_elems(const train_t *t); /* of all parameters */

/* Writes the present weights, as `load` reads them. */
int train_dump(const train_t *t, const char *path, ddp_error_t *errp);

/* One optimizer step. Collective. */
int train_step(train_t *t, struct train_times *ret_times, double *ret_loss, ddp_error_t *errp);

/* Seconds for only the matrix products of one step's linear layers and head, forward and backward (without those of the
 * attention). The gradients are undefined afterwards. */
int train_products(train_t *t, double *ret_s, ddp_error_t *errp);

/* Seconds for only one all-reduce of as many bytes as the gradients have. Collective. */
int train_comm(train_t *t, double *ret_s, ddp_error_t *errp);

#endif
