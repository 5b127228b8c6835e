/* pool.h - the process's worker threads for kernels: numbered tasks, each taken by a worker that is free.
 *
 * What a task computes must depend on its number only, never on the worker, so that results do not depend on the number
 * of threads. Workers start at the first call that can use them. After a call they look for more work for a moment, if
 * every thread of the node's ranks can have a core, and then sleep. One caller at a time. */
#ifndef DDP_KERNELS_MODEL_CPU_POOL_H
#define DDP_KERNELS_MODEL_CPU_POOL_H

#include <stddef.h>

#define POOL_MAX_THREADS 256

typedef void pool_task_f(void *arg, size_t task, int worker);

/* Threads in use, the caller included: OMP_NUM_THREADS (its first number), 1 where that is unset or no number. */
int pool_threads(void);

/* For tests: sets the number of threads, 1..POOL_MAX_THREADS; ends the workers that run. */
void pool_set_threads(int n);

/* Calls task(arg, i, worker) for each i in [0, n_tasks), worker in [0, pool_threads()), and returns when all are done.
 * A task must not call pool_run. */
void pool_run(size_t n_tasks, pool_task_f *task, void *arg);

#endif
