/* handle.h - the data structure of a ddp_t. Private to the files that implement ddp.h.
 *
 * PHASE: a handle moves OPEN -> COMMITTED -> IDLE (data open, between steps) -> MICRO (between ddp_batch_next and
 * ddp_backward_end) -> IDLE (more micro-steps) or SUMMED (gradients are sums, ddp_step is due) -> IDLE. Or OPEN ->
 * STATE (ddp_state_open), to its end. Once its team is broken, ddp_finalize alone may follow. */
#ifndef DDP_RUNTIME_HANDLE_H
#define DDP_RUNTIME_HANDLE_H

#include "runtime/core/config.h"
#include "runtime/core/state.h"
#include "runtime/core/team.h"
#include "runtime/ddp.h"
#include "runtime/device/device.h"
#include "runtime/events.h"
#include "runtime/gpu/gpu.h"
#include "runtime/optimizer/zero_gpu.h"
#include "runtime/pace.h"
#include "runtime/parts_gpu.h"
#include "runtime/save/save.h"
#include "runtime/verify.h"

/* Marks what ddp.h declares; everything else is hidden. */
#define EXPORT __attribute__((visibility("default")))

/* Values of a parameter are kept in 16 bits, too. */
#define KEEP_ANY (DDP_KEEP_BF16 | DDP_KEEP_F16)

enum phase { PHASE_OPEN, PHASE_COMMITTED, PHASE_IDLE, PHASE_MICRO, PHASE_SUMMED, PHASE_STATE };
#define PHASES_ALL (~0u)

struct ddp {
    enum phase phase;
    struct config config;
    struct team team;
    struct state state;
    ddp_error_t add_error;   /* first error of ddp_param_add; code 0: none */
    struct ddp_hook hook;    /* encode NULL: none */
    device_t *device;        /* the GPU that ddp_device found; NULL: the processor */
    bool shares_gpus;        /* two ranks have one */
    void *stream;            /* that the program computes on, on a GPU (ddp_stream) */
    struct zero_gpu spread;    /* on a GPU: who owns which part of the optimizer's state */
    unsigned stop_signals;   /* to be caught (stop_parse) */
    bool has_stray_mark;     /* a gradient was marked outside a micro-step */
    bool has_saved;          /* ddp_checkpoint was called, and neither ddp_step nor ddp_checkpoint_wait since */
    struct save save;
    struct verify verify;
    struct parts parts;      /* where this rank's time goes */
    struct parts_gpu parts_gpu; /* on a GPU: its clock */
    double computed_s;       /* of parts, before the present step */
    struct pace pace;
    struct events events;    /* what the run's record has */
    struct trace trace;
    ddp_work_t *works;       /* all-reduces of the caller's that nobody waited for yet */
};

/* 0 when d is whole and in one of the phases (bit mask of 1 << PHASE_...), else -1 with an error that says what must
 * come first. */
int handle_expect(const ddp_t *d, unsigned phases, const char *call, ddp_error_t *errp);

/* -1 with an error in a process that the rank has forked. */
int handle_expect_rank(const ddp_t *d, const char *call, ddp_error_t *errp);

void handle_free_works(ddp_t *d);

#endif
