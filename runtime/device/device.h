/* device.h - the GPU that a rank computes on: memory, copies, streams and events.
 *
 * The GPU is used through CUDA's runtime library, if configure has found it. That library is linked statically and
 * opens the driver, libcuda, at run time, so the same build runs on machines without a driver. A rank that computes on
 * the processor opens no device.
 *
 * Work on a stream runs in order, asynchronously to the caller. Every wait here has a deadline, except that
 * device_open, device_close and the allocations wait as long as the driver does.
 *
 * Any thread may call, also several at once, but a stream or an event may be used by one thread at a time. A device
 * that is broken for one thread is broken for all.
 *
 * An error is one line that names rank, device, call and cure. The device is broken after an error from which the
 * driver knows no recovery (a kernel that faulted, memory errors, a GPU that fell off the bus), and after a wait that
 * reached its deadline or that the caller's question ended. Every call then fails with the first cause, except the
 * free, destroy and close functions: these do not call the driver, since freeing memory may wait for the very kernel
 * that hangs; the process's end frees what the driver holds. */
#ifndef DDP_RUNTIME_DEVICE_DEVICE_H
#define DDP_RUNTIME_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

enum device_kind { DEVICE_CPU, DEVICE_CUDA };

typedef struct device device_t;
typedef struct device_stream device_stream_t;
typedef struct device_event device_event_t;

struct device_info {
    enum device_kind kind;
    int ordinal;       /* as cudaSetDevice counts; 0 for the cpu */
    char name[128];    /* "NVIDIA H200"; "" for the cpu */
    char bus_id[16];   /* PCI, "0000:18:00.0"; "" for the cpu */
    char uuid[48];     /* "GPU-6f1c..."; a MIG instance has its own; "" for the cpu, and where there is none */
    int major, minor;  /* compute capability; 0 for the cpu */
    double peak_flops; /* dense bfloat16 FLOP/s (device_peak); 0: not known */
};

/* The number of GPUs that this process sees, or 0; then *errp says why none can be used: a build without CUDA, no
 * driver, a driver that is older than the build's toolkit, no visible GPU. Creates no context. */
int device_cuda_count(ddp_error_t *errp);

/* Describes GPU `ordinal` (below device_cuda_count). Creates no context. */
int device_cuda_info(int ordinal, struct device_info *ret, ddp_error_t *errp);

/* Opens a GPU. rank is for errors. The caller closes it, after it has freed the streams, events and memory. */
device_t *device_open(int ordinal, int rank, ddp_error_t *errp);
void device_close(device_t *d); /* NULL is allowed, as for all that destroys or frees here */

const struct device_info *device_info(const device_t *d);

/* Makes d current in the calling thread, for libraries that work on the current device. device_open does this for its
 * calling thread. */
int device_enter(device_t *d, ddp_error_t *errp);

/* Bytes of the device's memory that are free now. */
int device_memory_free(device_t *d, size_t *ret_bytes, ddp_error_t *errp);

/* The same for the processor's memory: what the node has available (MemAvailable), or the process's control group if
 * that is less; 0: not known. */
size_t device_cpu_memory_free(void);

bool device_is_broken(const device_t *d);

/* Allocates memory of the device, 256-byte aligned, with undefined content; the caller frees it. n 0 gives memory, too.
 * The error names `what` it was for ("activations") and the options that need less. Both calls may wait for the work of
 * all streams. */
void *device_malloc(device_t *d, size_t n, const char *what, ddp_error_t *errp);
void device_free(device_t *d, void *p);

/* Allocates pinned memory of the processor, which a GPU reads and writes directly, at least 64-byte aligned. */
void *device_host_malloc(device_t *d, size_t n, const char *what, ddp_error_t *errp);
void device_host_free(device_t *d, void *p);

/* A stream that does not wait for other streams. DEVICE_URGENT is for communication: where two streams have work, the
 * blocks of the urgent one's kernels are scheduled first. */
enum device_priority { DEVICE_NORMAL, DEVICE_URGENT };
device_stream_t *device_stream_create(device_t *d, enum device_priority priority, ddp_error_t *errp);
void device_stream_destroy(device_stream_t *s);
/* A device_stream_t for a stream of the caller's: a cudaStream_t, NULL for the default one. That stream must outlive
 * the result, which device_stream_destroy frees. */
device_stream_t *device_stream_borrow(device_t *d, void *native, ddp_error_t *errp);
void *device_native_stream(const device_stream_t *s); /* the cudaStream_t, for kernels/cuda */

/* An event: a point in a stream's work. timed: for device_event_ms; other events are cheaper. An event that was never
 * recorded counts as reached. */
device_event_t *device_event_create(device_t *d, bool timed, ddp_error_t *errp);
void device_event_destroy(device_event_t *e);
int device_event_record(device_event_t *e, device_stream_t *s, ddp_error_t *errp);
/* What is enqueued on s from now on runs after the point that e has recorded last. The caller does not wait. */
int device_stream_after(device_stream_t *s, const device_event_t *e, ddp_error_t *errp);
/* Milliseconds from `from` to `to`; both are timed and reached. */
int device_event_ms(const device_event_t *from, const device_event_t *to, double *ret_ms, ddp_error_t *errp);

/* Enqueues a copy of n bytes on stream s. The processor's side should be pinned memory (else the call may wait), and
 * the caller leaves it unchanged until the copy is done; the ranges do not overlap. */
enum device_way { DEVICE_TO, DEVICE_FROM, DEVICE_WITHIN };
int device_copy(device_stream_t *s, void *to, const void *from, size_t n, enum device_way way, ddp_error_t *errp);
/* Enqueues on s: every one of the n bytes becomes `byte`. */
int device_fill(device_stream_t *s, void *to, int byte, size_t n, ddp_error_t *errp);

/* The waiter's question, called about every millisecond during a wait. 0: go on; -1 with *errp filled: end the wait (a
 * peer died). */
typedef int device_ask_f(void *ctx, ddp_error_t *errp);

/* Wait until all work that was enqueued on the stream is done, or until the event's point is reached; at most until
 * `deadline` (clock.h). ask may be NULL. -1 with DDP_E_TIMEOUT at the deadline, with the error of `ask`, or with the
 * error of the work; the device is then broken. */
int device_stream_wait(device_stream_t *s, uint64_t deadline, device_ask_f *ask, void *ctx, ddp_error_t *errp);
int device_event_wait(device_event_t *e, uint64_t deadline, device_ask_f *ask, void *ctx, ddp_error_t *errp);

/* 1: reached, 0: not yet, -1: failed. Never waits. */
int device_event_query(device_event_t *e, ddp_error_t *errp);

/* Turns what a function of kernels/cuda returned into 0, or -1 with an error like those of the calls here. `call`: the
 * function's name. */
int device_result(device_t *d, int code, const char *call, ddp_error_t *errp);

/* Dense bfloat16 FLOP/s of the GPU with that name; 0: not known. */
double device_peak(const char *name);

#endif
