/* options.h - the reference trainer's command line: one table of options, one of presets. Pure. */
#ifndef DDP_RUNTIME_TRAIN_OPTIONS_H
#define DDP_RUNTIME_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/train/model.h"

#define OPTIONS_MAX_PATHS 1024

struct path_list {
    const char *path[OPTIONS_MAX_PATHS]; /* borrowed from argv */
    size_t n;
};

struct options {
    struct model_config model;
    struct path_list data, val;
    uint64_t steps, seed, val_every, val_windows, log_every;
    size_t batch;
    int accum, shards;
    double lr, min_lr, beta1, beta2, eps, clip, weight_decay;
    double warmup;
    bool warmup_in_epochs;
    bool has_batch, has_lr, has_min_lr, has_warmup; /* given, or the preset's that was named */
    bool has_log_every; /* given */
    bool no_wgmma, scale_lr, print_hash, eval, quiet;
    char optimizer[32];   /* of DDP_RULES */
    const char *device;   /* "auto", "cpu", "cuda"; NULL: libddp's default */
    const char *dtype;    /* "f32", "bf16", "f16"; NULL: chosen by device and sizes */
    const char *log_json; /* this and the next ones are borrowed from argv; NULL: none */
    const char *ckpt;     /* folder that checkpoints go to */
    const char *resume;   /* folder to resume from, if it has a checkpoint: --ckpt's, or the one named */
    const char *init;     /* folder of weights to begin with */
    int64_t ckpt_every, keep; /* -1: libddp's defaults */
    bool may_start_over;  /* --resume names no folder: where there is no checkpoint, training begins at step 0 */
};

/* Fills *ret from the command line (argv[0] is skipped). A preset gives the model's sizes, batch, learning rate and
 * warm-up; options override it wherever they stand. With --init and without --model it gives no sizes: those that no
 * option gives are 0 then, until the caller knows them; it calls options_complete in any case. 0, or -1 with an error
 * that names the option and the cure. */
int options_parse(int argc, char **argv, struct options *ret, ddp_error_t *errp);

/* Sets what follows from the model's sizes, and checks all together. Where --model was not given, batch, learning rate
 * and warm-up are those of the first preset that is as wide as the model. */
int options_complete(struct options *o, ddp_error_t *errp);

/* True if the command line has `option` (--help, --version). */
bool options_want(int argc, char **argv, const char *option);

void options_help(FILE *f);

/* The warm-up in steps, if an epoch has steps_per_epoch of them. */
uint64_t options_warmup_steps(const struct options *o, uint64_t steps_per_epoch);

#endif
