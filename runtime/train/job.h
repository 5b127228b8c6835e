/* job.h - what the reference trainer works on: its options, the data and the model, and the file of --log-json. */
#ifndef DDP_RUNTIME_TRAIN_JOB_H
#define DDP_RUNTIME_TRAIN_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/ddp.h"
#include "runtime/train/lm.h"
#include "runtime/train/loop.h"
#include "runtime/train/options.h"
#include "runtime/train/tokens.h"

struct job {
    struct options o;
    tokens_t *data, *val;
    struct lm_part train_part, val_part;
    struct loop_model model;
    enum ddp_dtype dtype; /* of the model */
    uint64_t n_samples;
    FILE *json; /* of rank 0; NULL: none */
};

/* Reads the options and opens data and log. *j is zeroed before; job_close closes it, also after a failure. 0 or -1. */
int job_open(struct job *j, int argc, char **argv, const struct ddp_world *w, ddp_error_t *errp);

/* Then creates the model on that device. 0 or -1. */
int job_open_model(struct job *j, const struct ddp_world *w, const struct ddp_device *device, ddp_error_t *errp);
/* Call it after ddp_finalize: until then libddp may use the model's stream. */
void job_close(struct job *j);

/* Closes the file of --log-json. True if every line has reached it. */
bool job_close_log(struct job *j);

/* True if path is a folder in dir, also if it is named in another way. */
bool job_lies_in(const char *path, const char *dir);

/* The number of replicas: ranks, or the shards that take their place. The samples of a step and the learning rates
 * depend on it. */
int job_replicas(const struct options *o, const struct ddp_world *w);

/* Steps of warm-up, with n replicas. */
uint64_t job_warmup_steps(const struct job *j, int n);

#endif
