/* losslog.h - the file of --log-json: an object a line, "step" its first member. It is written line by line, so that a
 * process that is killed leaves every line of the steps before. Training that resumes from a checkpoint continues the
 * same file: lines beyond the checkpoint are cut off, since those steps are taken again. */
#ifndef DDP_RUNTIME_TRAIN_LOSSLOG_H
#define DDP_RUNTIME_TRAIN_LOSSLOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/error.h"

/* Opens the file, or creates it; does not change its content. The caller closes it. */
FILE *losslog_open(const char *path, ddp_error_t *errp);

/* Empties the file, for training that begins at step 0. */
int losslog_begin(FILE *f, const char *path, ddp_error_t *errp);

/* All lines so far are on disk when this returns 0; -1: some are not, or could not be written at any time before. */
int losslog_sync(FILE *f, ddp_error_t *errp);

/* Keeps the lines up to step `step` and those of n_skipped steps that were skipped after it, or up to the first that is
 * no whole line of a log, and cuts the rest off. drops_validation: a validation after step `step` is cut off too, and
 * what follows it, since it is done again. *ret_last: the last step in the file, 0: none; less than `step` if lines are
 * missing. *ret_n_missing: steps between the first line's and that which have none. If the file is not a regular one (a
 * pipe, /dev/null), it is left as it is, *ret_last is `step`, and nothing is missing. */
int losslog_resume(FILE *f, const char *path, uint64_t step, uint64_t n_skipped, bool drops_validation,
                   uint64_t *ret_last, uint64_t *ret_n_missing, ddp_error_t *errp);

#endif
