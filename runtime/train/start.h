/* start.h - what the trainer prints before the first step. */
#ifndef DDP_RUNTIME_TRAIN_START_H
#define DDP_RUNTIME_TRAIN_START_H

#include "runtime/ddp.h"
#include "runtime/train/job.h"

/* Prints the job's size, its device, and the memory that it takes and that is available, to stdout; after
 * ddp_data_open. */
void start_say(const ddp_t *d, const struct job *j, const struct ddp_device *device);

#endif
