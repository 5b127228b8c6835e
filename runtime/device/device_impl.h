/* device_impl.h - what device.c and its backend share: cuda.c, or cuda_stub.c in a build without CUDA. */
#ifndef DDP_RUNTIME_DEVICE_DEVICE_IMPL_H
#define DDP_RUNTIME_DEVICE_DEVICE_IMPL_H

#include <stdatomic.h>

#include "runtime/device/device.h"

/* The backend's functions, by whose names errors report them. */
enum device_call {
    CALL_ENTER,
    CALL_MEMORY_FREE,
    CALL_MALLOC,
    CALL_HOST_MALLOC,
    CALL_STREAM_CREATE,
    CALL_STREAM_QUERY,
    CALL_STREAM_AFTER,
    CALL_EVENT_CREATE,
    CALL_EVENT_RECORD,
    CALL_EVENT_QUERY,
    CALL_EVENT_MS,
    CALL_COPY,
    CALL_FILL,
    CALL_COUNT
};

/* What an error code means. */
struct device_fault {
    const char *name;    /* "cudaErrorIllegalAddress"; NULL: no name that would help the user */
    const char *meaning; /* what it means, and the cure */
    bool is_fatal;       /* this process can use the device no more */
    bool is_no_memory;
};

#define DEVICE_NOT_YET (-1) /* returned by the query functions */

/* Functions return 0 or an error code of the backend's own; outputs are untouched then. */
struct device_ops {
    const char *call[CALL_COUNT];
    void (*explain)(int code, struct device_fault *ret);
    int (*enter)(const device_t *d); /* called before each function below, in the thread that calls it */
    int (*memory_free)(size_t *ret);
    int (*malloc)(size_t n, void **ret);
    void (*free)(void *p);
    int (*host_malloc)(size_t n, void **ret);
    void (*host_free)(void *p);
    int (*stream_create)(bool urgent, void **ret);
    void (*stream_destroy)(void *stream);
    int (*stream_query)(void *stream);
    int (*stream_after)(void *stream, void *event);
    int (*event_create)(bool timed, void **ret);
    void (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_ms)(void *from, void *to, double *ret);
    int (*copy)(void *to, const void *from, size_t n, enum device_way way, void *stream);
    int (*fill)(void *to, int byte, size_t n, void *stream);
};

struct device {
    const struct device_ops *ops;
    struct device_info info;
    int rank;
    atomic_bool has_cause; /* set by the one thread that fills `cause` */
    atomic_bool is_broken;
    ddp_error_t cause; /* valid once is_broken is set */
};

/* Fills d->info and d->ops, and makes the device ready. 0, or -1 with *errp. */
int device_cuda_open(device_t *d, int ordinal, ddp_error_t *errp);

/* ---- device_fault.c ---- */

/* "GPU 0 (NVIDIA H200, 0000:18:00.0)" */
const char *device_title(const device_t *d, char *buf, size_t size);

/* *errp becomes the cause for which d is broken. Returns -1. */
int device_cause(const device_t *d, ddp_error_t *errp);

/* Marks d as broken, with this cause unless it has one already; *errp becomes the cause that d has. Returns -1. */
int device_break(device_t *d, const ddp_error_t *cause, ddp_error_t *errp);

/* *errp becomes the error code as a text: "rank 3: GPU 0 (NVIDIA H200, 0000:18:00.0): CALL DETAIL: ..."; a fatal code
 * breaks d. Returns -1. */
int device_fail(device_t *d, int code, const char *call, const char *detail, ddp_error_t *errp);

#endif
