/* start.h - what the trainer says before the first step. */
#ifndef DDP_RUNTIME_TRAIN_START_H
#define DDP_RUNTIME_TRAIN_START_H

#include "runtime/ddp.h"
#include "runtime/train/job.h"

/* The job's size, what it computes on, and the memory that it takes against what is there; to stdout, after
 * ddp_data_open. */
void start_say(const ddp_t *d, const struct job *j, const struct ddp_device *device);

#endif
