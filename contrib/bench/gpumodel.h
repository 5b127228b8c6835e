/* gpumodel.h - what the files of gpumodel share: the calls of a training step, as the trainer makes them.
 *
 * gpumodel is linked so that every call of a kernel or a product, from the model (runtime/train/gmodel_layers.c) and
 * from the step (runtime/gpu), meets gpumodel_wrap.c first, which says what the call must do at least; and here an
 * event is recorded before and behind it. So the table has what the trainer calls, and cannot have anything else. */
#ifndef DDP_CONTRIB_BENCH_GPUMODEL_H
#define DDP_CONTRIB_BENCH_GPUMODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/device/device.h"
#include "runtime/train/gmodel.h"

/* A call that is about to be made. Calls of one name do the same work, and are one entry of the table. */
struct call {
    char what[80];
    double bytes, flops; /* that it must move and compute, whoever does it */
    void *stream;        /* the cudaStream_t */
    char algorithm[120]; /* of a product; "" */
};

/* Before the steps calls are passed on, and that is all. In the trial each is waited for, so that one that breaks the
 * GPU is known by its name. Then they are timed, or not. */
enum calls_mode { CALLS_BEFORE, CALLS_TRIAL, CALLS_UNTIMED, CALLS_TIMED };
void calls_set(enum calls_mode mode);

/* The device, borrowed, for events and errors: before the first trial. */
void calls_open(device_t *device);
/* The stream that a step computes on, a cudaStream_t. Calls on others go on beside it: they are no part of its time. */
void calls_program(void *stream);
void calls_close(void);

/* The parameters, borrowed, for the products' names; tensor[n]: where their values and gradients lie, copied. 0 or
 * -1. */
int calls_name(const struct loop_param *param, const struct ddp_param *tensor, size_t n, ddp_error_t *errp);

/* Calls of this name are not made in the steps; `why` is what the table says of it. */
void calls_leave_out(const char *what, const char *why);

/* For gpumodel_wrap.c. False: the call is not to be made. calls_end takes what it returned (0, a cudaError_t, or -1
 * with *why, else NULL) and, where calls are watched, returns 0: the pass goes on, whatever is wrong with the call. */
bool calls_begin(const struct call *c);
int calls_end(const struct call *c, int code, const ddp_error_t *why);

/* The call that has broken the GPU, and why; NULL: none has. */
const char *calls_broken(const char **ret_why);

/* Takes the times of a pass, beside those of the passes before; waits for its end. 0 or -1. */
int calls_collect(ddp_error_t *errp);

/* Reports all entries (gpureport.h): those first that lose most against their limit in a step; then what failed.
 * bytes_per_s: a copy's; peak_flops 0: not known. Returns how many failed. */
int calls_report(double bytes_per_s, double peak_flops, size_t n_passes);

#endif
