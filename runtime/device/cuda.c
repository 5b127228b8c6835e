/* cuda.c - the GPU of device.h, through CUDA's runtime library.
 *
 * That keeps an error for cudaGetLastError even when the call that made it has returned it, and a launch asks there: so
 * each is taken out again where it is seen (taken). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/device/cuda_impl.h"

static int taken(cudaError_t e)
{
    if (e != cudaSuccess)
        (void)cudaGetLastError();
    return (int)e;
}

static int not_yet(cudaError_t e)
{
    int code = taken(e);
    return code == cudaErrorNotReady ? DEVICE_NOT_YET : code;
}

static int enter(const device_t *d)
{
    return taken(cudaSetDevice(d->info.ordinal));
}

static int memory_free(size_t *ret)
{
    size_t left, total;
    int code = taken(cudaMemGetInfo(&left, &total));
    if (!code)
        *ret = left;
    return code;
}

static int allocate(size_t n, void **ret)
{
    return taken(cudaMalloc(ret, n));
}

static void release(void *p)
{
    (void)taken(cudaFree(p));
}

static int host_malloc(size_t n, void **ret)
{
    return taken(cudaHostAlloc(ret, n, cudaHostAllocPortable));
}

static void host_free(void *p)
{
    (void)taken(cudaFreeHost(p));
}

static int stream_create(bool urgent, void **ret)
{
    int least = 0, greatest = 0; /* the greatest priority is the smallest number */
    cudaStream_t s;
    int code = taken(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    code = code ? code : taken(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, urgent ? greatest : least));
    if (!code)
        *ret = s;
    return code;
}

static void stream_destroy(void *stream)
{
    (void)taken(cudaStreamDestroy(stream));
}

static int stream_query(void *stream)
{
    return not_yet(cudaStreamQuery(stream));
}

static int stream_after(void *stream, void *event)
{
    return taken(cudaStreamWaitEvent(stream, event, 0));
}

static int event_create(bool timed, void **ret)
{
    cudaEvent_t e;
    int code = taken(cudaEventCreateWithFlags(&e, timed ? cudaEventDefault : cudaEventDisableTiming));
    if (!code)
        *ret = e;
    return code;
}

static void event_destroy(void *event)
{
    (void)taken(cudaEventDestroy(event));
}

static int event_record(void *event, void *stream)
{
    return taken(cudaEventRecord(event, stream));
}

static int event_query(void *event)
{
    return not_yet(cudaEventQuery(event));
}

static int event_ms(void *from, void *to, double *ret)
{
    float ms;
    int code = taken(cudaEventElapsedTime(&ms, from, to));
    if (!code)
        *ret = (double)ms;
    return code;
}

static int copy(void *to, const void *from, size_t n, enum device_way way, void *stream)
{
    static const enum cudaMemcpyKind kind[] = {[DEVICE_TO] = cudaMemcpyHostToDevice,
                                               [DEVICE_FROM] = cudaMemcpyDeviceToHost,
                                               [DEVICE_WITHIN] = cudaMemcpyDeviceToDevice};
    return taken(cudaMemcpyAsync(to, from, n, kind[way], stream));
}

static int fill(void *to, int byte, size_t n, void *stream)
{
    return taken(cudaMemsetAsync(to, byte, n, stream));
}

static const struct device_ops ops = {
    .call = {[CALL_ENTER] = "cudaSetDevice",
             [CALL_MEMORY_FREE] = "cudaMemGetInfo",
             [CALL_MALLOC] = "cudaMalloc",
             [CALL_HOST_MALLOC] = "cudaHostAlloc",
             [CALL_STREAM_CREATE] = "cudaStreamCreateWithPriority",
             [CALL_STREAM_QUERY] = "cudaStreamQuery",
             [CALL_STREAM_AFTER] = "cudaStreamWaitEvent",
             [CALL_EVENT_CREATE] = "cudaEventCreateWithFlags",
             [CALL_EVENT_RECORD] = "cudaEventRecord",
             [CALL_EVENT_QUERY] = "cudaEventQuery",
             [CALL_EVENT_MS] = "cudaEventElapsedTime",
             [CALL_COPY] = "cudaMemcpyAsync",
             [CALL_FILL] = "cudaMemsetAsync"},
    .explain = cuda_explain,
    .enter = enter,
    .memory_free = memory_free,
    .malloc = allocate,
    .free = release,
    .host_malloc = host_malloc,
    .host_free = host_free,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .stream_after = stream_after,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_ms = event_ms,
    .copy = copy,
    .fill = fill,
};

int device_cuda_count(ddp_error_t *errp)
{
    int n = 0;
    int code = taken(cudaGetDeviceCount(&n));
    if (code == cudaSuccess && n > 0)
        return n;
    cuda_explain_absence(code, errp);
    return 0;
}

static void write_uuid(const cudaUUID_t *uuid, char *ret, size_t size)
{
    static const char zero[sizeof uuid->bytes];
    size_t at = 0;
    ret[0] = 0;
    if (!memcmp(uuid->bytes, zero, sizeof zero))
        return;
    at += (size_t)snprintf(ret, size, "GPU-");
    for (size_t i = 0; i < sizeof zero; i++)
        at += (size_t)snprintf(ret + at, size - at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                               (unsigned char)uuid->bytes[i]);
}

int device_cuda_info(int ordinal, struct device_info *ret, ddp_error_t *errp)
{
    struct cudaDeviceProp p;
    struct device_info i = {.kind = DEVICE_CUDA, .ordinal = ordinal};
    int code = taken(cudaGetDeviceProperties(&p, ordinal));
    if (code)
        return cuda_refuse(code, "cudaGetDeviceProperties", errp);
    code = taken(cudaDeviceGetPCIBusId(i.bus_id, sizeof i.bus_id, ordinal));
    if (code)
        return cuda_refuse(code, "cudaDeviceGetPCIBusId", errp);
    snprintf(i.name, sizeof i.name, "%.*s", (int)sizeof i.name - 1, p.name);
    write_uuid(&p.uuid, i.uuid, sizeof i.uuid);
    i.major = p.major;
    i.minor = p.minor;
    i.peak_flops = device_peak(i.name);
    *ret = i;
    return 0;
}

int device_cuda_open(device_t *d, int ordinal, ddp_error_t *errp)
{
    if (device_cuda_info(ordinal, &d->info, errp) < 0)
        return error_prefix(errp, "rank %d: GPU %d", d->rank, ordinal);
    d->ops = &ops;
    int code = enter(d);
    if (code)
        return device_fail(d, code, "cudaSetDevice", "", errp);
    code = taken(cudaFree(NULL)); /* the context, where cudaSetDevice did not make it (before CUDA 12) */
    return code ? device_fail(d, code, "cudaFree(NULL)", ", which opens it", errp) : 0;
}
