/* state.h - what training has come to: what a step changes, and a checkpoint keeps. */
#ifndef DDP_RUNTIME_CORE_STATE_H
#define DDP_RUNTIME_CORE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/data/data.h"
#include "runtime/grads/layout.h"
#include "runtime/grads/reducer.h"
#include "runtime/optimizer/arena.h"
#include "runtime/optimizer/loss_scale.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/optimizer/shards.h"

/* The present micro-step, and sums over those of its step so far. */
struct micro {
    double loss;
    double items;
    double samples;      /* that this rank was given */
    int index;           /* in its step */
    uint64_t began_ns;   /* the step, with its first micro-step */
    bool sync;
    bool is_unfinished;  /* the present step has more micro-steps */
};

struct state {
    struct layout layout;
    struct arena arena;       /* the values, and what the optimizer keeps */
    struct optimizer optimizer;
    struct reducer reducer;   /* with the gradients */
    struct shards shards;     /* of this rank's shards; nothing without shards */
    struct data data;
    struct loss_scale loss_scale;
    struct micro micro;
    int n_skipped;            /* steps skipped in a row */
};

#endif
