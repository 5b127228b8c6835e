/* layout.h - what srun asks the controller, by its own functions: where a step's tasks are, and when the job ends. */
#ifndef DDP_SPANK_LAYOUT_H
#define DDP_SPANK_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "spank/step/hostlist.h"

/* The node of task 0 of a step of one component; *ret_is_even: each node has as many tasks, in a row, and the nodes
 * follow each other so. 0, or -1: Slurm does not say. Waits as long as srun waits for any answer (MessageTimeout in
 * slurm.conf). */
int layout_first_node(uint32_t job, uint32_t step, char ret[HOSTLIST_NAME_MAX + 1], bool *ret_is_even);

/* When the job's time is over, in seconds since 1970. The rest as above. */
int layout_end_time(uint32_t job, int64_t *ret);

#endif
