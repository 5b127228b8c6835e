/* losslog.h - the file of --log-json: an object a line, "step" its first member. It is written line by line, so that a
 * process that is killed leaves every line of the steps before. Training that goes on from a checkpoint goes on in the
 * same file: what is beyond the checkpoint's step is cut off, since those steps come again. */
#ifndef DDP_RUNTIME_TRAIN_LOSSLOG_H
#define DDP_RUNTIME_TRAIN_LOSSLOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/error.h"

/* Opens it, or makes it, and leaves it as it is. The caller closes. */
FILE *losslog_open(const char *path, ddp_error_t *errp);

/* Empties it: training begins at step 0. */
int losslog_begin(FILE *f, const char *path, ddp_error_t *errp);

/* Keeps the lines up to step `step` (and drops_validation: but for a validation after it, which comes again), up to the
 * first that is no whole line of a log; the next line follows these. *ret_last: the last step that is there, 0: none;
 * less than `step` where lines are missing. What is no regular file (a pipe, /dev/null) stays, and *ret_last is
 * `step`. */
int losslog_resume(FILE *f, const char *path, uint64_t step, bool drops_validation, uint64_t *ret_last,
                   ddp_error_t *errp);

#endif
