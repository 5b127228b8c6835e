/* handle.h - the data structure of a ddp_t. Private to the files that implement ddp.h.
 *
 * PHASE: a handle moves OPEN -> COMMITTED -> IDLE (data open, between steps) -> MICRO (between ddp_batch_next and
 * ddp_backward_end) -> IDLE (more micro-steps) or SUMMED (gradients are sums, ddp_step is due) -> IDLE. Once its team
 * is broken, ddp_finalize alone may follow. */
#ifndef DDP_RUNTIME_HANDLE_H
#define DDP_RUNTIME_HANDLE_H

#include "runtime/core/config.h"
#include "runtime/core/team.h"
#include "runtime/data/data.h"
#include "runtime/ddp.h"
#include "runtime/device/device.h"
#include "runtime/gpu/gpu.h"
#include "runtime/grads/layout.h"
#include "runtime/grads/reducer.h"
#include "runtime/optimizer/loss_scale.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/optimizer/shards.h"
#include "runtime/optimizer/zero_cpu.h"
#include "runtime/optimizer/zero_gpu.h"
#include "runtime/save/checkpoint.h"
#include "runtime/save/cut.h"
#include "runtime/save/scheduler.h"
#include "runtime/sched/stop.h"

/* Marks what ddp.h declares; everything else is hidden. */
#define EXPORT __attribute__((visibility("default")))

enum phase { PHASE_OPEN, PHASE_COMMITTED, PHASE_IDLE, PHASE_MICRO, PHASE_SUMMED };
#define PHASES_ALL (~0u)

struct ddp {
    enum phase phase;
    struct config config;
    struct team team;
    struct layout layout;
    ddp_error_t add_error;   /* first error of ddp_param_add; code 0: none */
    struct ddp_hook hook;    /* encode NULL: none */
    device_t *device;        /* the GPU that ddp_device found; NULL: the processor */
    bool shares_gpus;        /* two ranks have one */
    gpu_t *gpu;              /* from ddp_commit on, where device is */
    void *stream;            /* that the program computes on, on a GPU (ddp_stream) */
    float *values;           /* arena of layout.n_bytes: own_values, zero's segment, or gpu's */
    float *own_values;       /* NULL where the optimizer is spread */
    struct reducer reducer;
    struct optimizer optimizer;
    struct zero zero;        /* nothing without optimizer sharding, and */
    struct spread spread;    /* its counterpart on a GPU */
    struct data data;
    struct partials partials; /* of this rank's shards; nothing without shards */
    struct stop stop;
    unsigned stop_signals;   /* to be caught (stop_parse) */
    struct wish wish;
    struct window window;
    struct {
        double loss;
        double items;
        int index;           /* of the present micro-step in its step */
        uint64_t began_ns;   /* the step, with its first micro-step */
        bool sync;
        bool is_unfinished;  /* the present step has more micro-steps */
    } micro;                 /* loss and items: sums over the micro-steps of the present step */
    bool has_stray_mark;     /* a gradient was marked outside a micro-step */
    int n_skipped;           /* steps skipped in a row */
    struct scaler scaler;
    struct checkpoint checkpoint;
    struct trace trace;
    ddp_work_t *works;       /* all-reduces of the caller's that nobody waited for yet */
};

/* Each rank keeps moments of its own slices alone, which are not whole parameters. */
static inline bool handle_is_spread(const ddp_t *d)
{
    return d->zero.values || d->spread.plan.n_buckets;
}

/* 0 when d is whole and in one of the phases (bit mask of 1 << PHASE_...), else -1 with an error that says what must
 * come first. */
int handle_expect(const ddp_t *d, unsigned phases, const char *call, ddp_error_t *errp);

void handle_free_works(ddp_t *d);

/* Settings, layout and optimizer are the same on all ranks; else an error that names the first difference.
 * Collective. */
int handle_compare(ddp_t *d, ddp_error_t *errp);

/* ---- arena.c: values and optimizer state, which lie in the processor's memory or in a GPU's ----
 *
 * from, to and at lie in one of the arenas (values, moments), host is the processor's memory; n in bytes, a multiple
 * of 4. They wait until it is done, after all that the program's stream was asked before. -1: the device failed. */
int handle_read(ddp_t *d, void *host, const void *from, size_t n, ddp_error_t *errp);
int handle_write(ddp_t *d, void *to, const void *host, size_t n, ddp_error_t *errp); /* nothing, where host is `to` */

/* Every rank's bytes become root's. Collective. */
int handle_bcast(ddp_t *d, void *at, size_t n, int root, ddp_error_t *errp);

/* After values were written by these: what is derived from them is made anew. */
int handle_values_changed(ddp_t *d, ddp_error_t *errp);

/* Where bytes for `to` are put together before handle_write: there, where the processor can, else in buffer. */
void *handle_staging(const ddp_t *d, void *to, void *buffer);

#endif
