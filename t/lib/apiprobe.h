/* apiprobe.h - the cases of apiprobe, and what they share. */
#ifndef DDP_T_APIPROBE_H
#define DDP_T_APIPROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/ddp.h"

/* For functions of a handle d that return an exit code. */
#define CHECK(cond)                                                                                                    \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #cond, e.text);                                              \
            ddp_abort(d, 1, "a check failed");                                                                         \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

extern ddp_error_t e;
extern uint64_t n_samples; /* of open_three() */
extern size_t n_elems;     /* argv[2] */
extern bool in_thread;     /* argv[2] is "thread" */
extern bool is_silent;     /* rank 1 does not ask why its micro-step fails */

/* Three parameters, accum micro-steps. */
int open_three(ddp_t *d, size_t elems, int accum);

/* Marks all three, the last first; rank 1 marks these instead where the micro-step is its step's last. */
int micro_step(ddp_t *d, const int *marks, int n_marks, bool *ret_sync);

/* A hook that leaves gradients as they are. */
struct ddp_hook copy_hook(void);

/* What one rank passes once: collectives, options, optimizers, data; calls that do not fit. */
int case_allreduce(ddp_t *d);
int case_gather(ddp_t *d);
int case_options(ddp_t *d);
int case_optimizer(ddp_t *d);
int case_no_optimizer(ddp_t *d);
int case_data(ddp_t *d);
int case_refuse(ddp_t *d);
int case_two_hooks(ddp_t *d);
int case_shards(ddp_t *d);
int case_shards_join(ddp_t *d);
int case_memory(ddp_t *d);
int case_values(ddp_t *d);
int case_kept(ddp_t *d);
int case_empty(ddp_t *d);
int case_text(ddp_t *d); /* in the folder $PROBE_DIR, as: */
int case_join_saved(ddp_t *d);
int case_peek(ddp_t *d);

/* Rank 1 makes a mistake, or goes, while reductions are under way. */
int case_twice(ddp_t *d);
int case_never(ddp_t *d);
int case_silent(ddp_t *d);
int case_unknown(ddp_t *d);
int case_stray(ddp_t *d);
int case_no_values(ddp_t *d);
int case_no_plan(ddp_t *d);
int case_leave(ddp_t *d);
int case_abort(ddp_t *d);
int case_check(ddp_t *d);
int case_fork(ddp_t *d);

/* Steps whose outcome is computed once more. */
int case_diverged(ddp_t *d);
int case_nan(ddp_t *d);
int case_slow(ddp_t *d);
int case_moves(ddp_t *d);
int case_join(ddp_t *d);
int case_join_stop(ddp_t *d);
int case_join_rest(ddp_t *d);

#endif
