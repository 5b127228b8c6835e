/* hiding.h - the warning for a step that hides each rank's GPU from the others. Pure. */
#ifndef DDP_SPANK_HIDING_H
#define DDP_SPANK_HIDING_H

#include <stdbool.h>
#include <stddef.h>

#include "spank/cmdline.h"
#include "spank/keys/keys.h"

/* True if Slurm will give each task of the step only a part of the node's GPUs, so that a task cannot reach the memory
 * of its peers' GPUs and NCCL loses peer-to-peer transfers between them (NVIDIA/nccl#1066). --gpus-per-task,
 * --ntasks-per-gpu and --tres-per-task with a gpu do this unless a binding is named; --gpu-bind and --tres-bind do it
 * unless they are none. A step with --ntasks-per-node=1 has no peers, and in a job that shows MIG instances each task
 * is to have its own (devices.h). Options count before the variables that srun reads in their place
 * (SLURM_GPUS_PER_TASK, ...). If true, buf has one line that says what is lost and what to write instead. */
bool hiding_warn(const struct cmdline *c, lookup_f lookup, void *arg, char *buf, size_t size);

#endif
