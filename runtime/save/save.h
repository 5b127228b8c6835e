/* save.h - what the files of this room work on: the job whose checkpoints they take, and how far they are with them. */
#ifndef DDP_RUNTIME_SAVE_SAVE_H
#define DDP_RUNTIME_SAVE_SAVE_H

#include "runtime/core/config.h"
#include "runtime/core/state.h"
#include "runtime/core/team.h"
#include "runtime/save/checkpoint.h"
#include "runtime/save/cut.h"
#include "runtime/save/foreign.h"
#include "runtime/save/recall.h"
#include "runtime/save/scheduler.h"
#include "runtime/sched/stop.h"

struct save {
    struct team *team;           /* borrowed, as are the next two */
    struct state *state;
    const struct config *config;
    struct checkpoint checkpoint;
    struct recall recall;
    struct cut cut;
    struct scheduler scheduler;
    struct foreign foreign;      /* open where the state is another framework's */
    struct stop stop;            /* the signals that stop the job, once they are caught (stop_catch) */
};

#endif
