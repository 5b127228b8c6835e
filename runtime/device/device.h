/* device.h - the GPU that a rank computes on: memory, copies, streams and events.
 *
 * Through CUDA's runtime library, where it was found at configure time (linked statically; the driver, libcuda, is
 * opened by it at run time, so that one build runs with and without one). A rank that computes on the processor opens
 * none.
 *
 * Work on a stream is done in order, beside the caller. Nothing here waits without a deadline but device_open,
 * device_close and the allocations, as far as the driver does.
 *
 * Any thread may call, several at once; a stream and an event belong to one at a time. What ends a device for one ends
 * it for all.
 *
 * Errors are one line that names rank, device, call and cure. After an error from which the driver says that no
 * recovery exists (a kernel that faulted, memory errors, a GPU that fell off the bus), and after a wait that reached
 * its deadline or was called off, the device is broken: every call but device_free, destroy and close functions then
 * fails with the first cause, and those leave the driver alone: what it holds goes with the process, since freeing
 * memory may wait for the very kernel that hangs. */
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
    char uuid[48];     /* "GPU-6f1c...", of a MIG instance its own; "" for the cpu, and where there is none */
    int major, minor;  /* compute capability; 0 for the cpu */
    double peak_flops; /* dense bfloat16 FLOP/s (device_peak); 0: not known */
};

/* GPUs that this process sees, at least 1; or 0, and *errp says why none can be used: no GPU in this build, no
 * driver, one that is older than the build's toolkit, none visible. Makes no context. */
int device_cuda_count(ddp_error_t *errp);

/* What GPU `ordinal` is, below device_cuda_count; makes no context. */
int device_cuda_info(int ordinal, struct device_info *ret, ddp_error_t *errp);

/* Opens a GPU. rank is for errors. The caller closes, after streams, events and memory. */
device_t *device_open(int ordinal, int rank, ddp_error_t *errp);
void device_close(device_t *d); /* NULL is allowed, as for all that destroys or frees here */

const struct device_info *device_info(const device_t *d);

/* Makes d current in the calling thread, for libraries that work on the current device; device_open has done so in its
 * caller's. */
int device_enter(device_t *d, ddp_error_t *errp);

/* Bytes free for this process now. */
int device_memory_free(device_t *d, size_t *ret_bytes, ddp_error_t *errp);

/* The same for the processor: of the node (MemAvailable), or of its control group if that is less; 0: not known. */
size_t device_cpu_memory_free(void);

bool device_is_broken(const device_t *d);

/* Memory of the device, 256-byte aligned, its content undefined; the caller frees. n 0 gives memory, too. `what`
 * ("activations") and the knobs that lower it stand in the error. Both may wait for the work of all streams. */
void *device_malloc(device_t *d, size_t n, const char *what, ddp_error_t *errp);
void device_free(device_t *d, void *p);

/* The processor's memory that a GPU reads and writes directly (pinned), 64-byte aligned at least. */
void *device_host_malloc(device_t *d, size_t n, const char *what, ddp_error_t *errp);
void device_host_free(device_t *d, void *p);

/* A stream that waits for no other. URGENT: for communication; where both have work, its kernels' blocks go first. */
enum device_priority { DEVICE_NORMAL, DEVICE_URGENT };
device_stream_t *device_stream_create(device_t *d, enum device_priority priority, ddp_error_t *errp);
void device_stream_destroy(device_stream_t *s);
/* A stream of the caller's: a cudaStream_t, NULL for the default one. It outlives the result, which is destroyed as
 * others are. */
device_stream_t *device_stream_borrow(device_t *d, void *native, ddp_error_t *errp);
void *device_native_stream(const device_stream_t *s); /* the cudaStream_t, for kernels/cuda */

/* A point in a stream's work. timed: for device_event_ms; others are cheaper. Before it is recorded it counts as
 * reached. */
device_event_t *device_event_create(device_t *d, bool timed, ddp_error_t *errp);
void device_event_destroy(device_event_t *e);
int device_event_record(device_event_t *e, device_stream_t *s, ddp_error_t *errp);
/* What is asked of s from now on comes after the point that e recorded last. The caller does not wait. */
int device_stream_after(device_stream_t *s, const device_event_t *e, ddp_error_t *errp);
/* Milliseconds from `from` to `to`, both timed and reached. */
int device_event_ms(const device_event_t *from, const device_event_t *to, double *ret_ms, ddp_error_t *errp);

/* n bytes on stream s. The processor's side is pinned memory (else the call may wait), and stays as it is until
 * the stream has come past; ranges do not overlap. */
enum device_way { DEVICE_TO, DEVICE_FROM, DEVICE_WITHIN };
int device_copy(device_stream_t *s, void *to, const void *from, size_t n, enum device_way way, ddp_error_t *errp);
/* Every byte becomes `byte`. */
int device_fill(device_stream_t *s, void *to, int byte, size_t n, ddp_error_t *errp);

/* Asked about every millisecond while a wait lasts: 0 to go on, or -1 with *errp filled, which ends it (a peer
 * died). */
typedef int device_ask_f(void *ctx, ddp_error_t *errp);

/* Until all that was asked of the stream is done, or the event's point is reached; at most until `deadline`
 * (clock.h). ask may be NULL. -1: DDP_E_TIMEOUT at the deadline, what ask said, or what the work failed with; the
 * device is then broken. */
int device_stream_wait(device_stream_t *s, uint64_t deadline, device_ask_f *ask, void *ctx, ddp_error_t *errp);
int device_event_wait(device_event_t *e, uint64_t deadline, device_ask_f *ask, void *ctx, ddp_error_t *errp);

/* 1: reached, 0: not yet, -1: failed. Never waits. */
int device_event_query(device_event_t *e, ddp_error_t *errp);

/* What a function of kernels/cuda returned: 0, or -1 with its error, as from a call here. `call` names it. */
int device_result(device_t *d, int code, const char *call, ddp_error_t *errp);

/* Dense bfloat16 FLOP/s of the GPU that calls itself `name`; 0: not known. */
double device_peak(const char *name);

#endif
