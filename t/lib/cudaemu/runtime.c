/* runtime.c - the emulated CUDA runtime: the script, errors and devices. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "t/lib/cudaemu/runtime_impl.h"
#include "t/lib/cudaemu/script.h"

struct cudaemu cudaemu_all;
__thread struct cudaemu_thread cudaemu_mine;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

int cudaemu_take(void)
{
    return pthread_mutex_lock(&lock);
}

void cudaemu_give(const int *taken)
{
    (void)taken;
    pthread_mutex_unlock(&lock);
}

static const struct {
    cudaError_t error;
    const char *name, *text;
    bool is_sticky;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error", false},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument", false},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory", false},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error", false},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument", false},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy", false},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version", false},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable", false},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected", false},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal", false},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device", false},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered", true},
    {cudaErrorNvlinkUncorrectable, "cudaErrorNvlinkUncorrectable", "uncorrectable NVLink error detected", true},
    {(cudaError_t)226 /* from CUDA 12.8 on */, "cudaErrorContained",
     "Invalid access of peer GPU memory over nvlink or a hardware error", true},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle", false},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready", false},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered", true},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address", true},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure", true},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated", true},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch", false},
    {cudaErrorSystemNotReady, "cudaErrorSystemNotReady", "system not yet initialized", false},
    {cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch",
     "system has unsupported display driver / cuda driver combination", false},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error", true},
};

/* ---- the script ---- */

static long long number(const char *name, long long otherwise)
{
    const char *text = getenv(name);
    char *end;
    long long n = text ? strtoll(text, &end, 10) : otherwise;
    if (text && (*end || end == text)) {
        fprintf(stderr, "cudaemu: %s=%s is no number\n", name, text);
        abort();
    }
    return n;
}

static void read_faults(const char *text)
{
    while (text && *text) {
        struct fault *f = &cudaemu_all.fault[cudaemu_all.n_faults];
        int error;
        if (cudaemu_all.n_faults == FAULTS_MAX || sscanf(text, "%39[^:]:%d:%d", f->call, &f->at, &error) != 3) {
            fprintf(stderr, "cudaemu: EMU_FAIL: \"%s\" is not CALL:N:ERROR\n", text);
            abort();
        }
        f->error = (cudaError_t)error;
        cudaemu_all.n_faults++;
        text += strcspn(text, ",");
        text += *text == ',';
    }
}

static void read_script(void)
{
    static const char *const modes[] = {"now", "deferred", "stuck"};
    const char *mode = getenv("EMU_STREAMS"), *name = getenv("EMU_NAME");
    cudaemu_all.n_devices = (int)number("EMU_DEVICES", 1);
    cudaemu_all.is_same = number("EMU_SAME", 0) != 0;
    cudaemu_all.memory = (size_t)number("EMU_MEMORY", 1 << 30);
    cudaemu_all.driver = (int)number("EMU_DRIVER", cudaemu_all.n_devices > 0 ? RUNTIME_VERSION : 0);
    snprintf(cudaemu_all.name, sizeof cudaemu_all.name, "%s", name ? name : "NVIDIA H200");
    for (int i = 0; i < 3; i++)
        cudaemu_all.mode = mode && !strcmp(mode, modes[i]) ? (enum mode)i : cudaemu_all.mode;
    if (cudaemu_all.n_devices > DEVICES_MAX || (mode && strcmp(mode, modes[cudaemu_all.mode]))) {
        fprintf(stderr, "cudaemu: EMU_DEVICES is above %d, or EMU_STREAMS=%s unknown\n", DEVICES_MAX, mode ? mode : "");
        abort();
    }
    read_faults(getenv("EMU_FAIL"));
    cudaemu_all.is_ready = true;
}

static int count(const char *call)
{
    int i = 0;
    while (i < cudaemu_all.n_counts && strcmp(cudaemu_all.count[i].name, call))
        i++;
    if (i == CALLS_MAX)
        abort();
    cudaemu_all.n_counts += i == cudaemu_all.n_counts;
    cudaemu_all.count[i].name = call;
    return ++cudaemu_all.count[i].n;
}

cudaError_t cudaemu_keep(cudaError_t e)
{
    if (e != cudaSuccess)
        cudaemu_mine.last = e;
    return e;
}

static bool is_sticky(cudaError_t e)
{
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++)
        if (errors[k].error == e)
            return errors[k].is_sticky;
    return false;
}

int cudaemu_raise(int error)
{
    HOLD();
    if (is_sticky((cudaError_t)error) && !cudaemu_all.sticky)
        cudaemu_all.sticky = (cudaError_t)error;
    return (int)cudaemu_keep((cudaError_t)error);
}

bool cudaemu_is_deferred(void)
{
    HOLD();
    if (!cudaemu_all.is_ready)
        read_script();
    return cudaemu_all.mode != MODE_NOW;
}

cudaError_t cudaemu_begin(const char *call)
{
    if (!cudaemu_all.is_ready)
        read_script();
    int n = count(call);
    cudaemu_all.n_all++;
    for (int i = 0; i < cudaemu_all.n_faults && !cudaemu_all.sticky; i++) {
        const struct fault *f = &cudaemu_all.fault[i];
        bool hit = strcmp(f->call, "*") ? !strcmp(f->call, call) && f->at == n : f->at == cudaemu_all.n_all;
        while (hit && (int)f->error == -1)
            pause();
        if (hit)
            return (cudaError_t)cudaemu_raise((int)f->error);
    }
    return cudaemu_keep(cudaemu_all.sticky);
}

/* ---- errors and devices ---- */

cudaError_t cudaGetLastError(void)
{
    HOLD();
    cudaError_t e = cudaemu_all.sticky ? cudaemu_all.sticky : cudaemu_mine.last;
    cudaemu_mine.last = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    HOLD();
    return cudaemu_all.sticky ? cudaemu_all.sticky : cudaemu_mine.last;
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    BEGIN();
    *driverVersion = cudaemu_all.driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    BEGIN();
    *runtimeVersion = RUNTIME_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    BEGIN_ON_GPU();
    if (cudaemu_all.n_devices < 1)
        return cudaemu_keep(cudaErrorNoDevice);
    *n = cudaemu_all.n_devices;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    BEGIN_ON_GPU();
    if (device < 0 || device >= cudaemu_all.n_devices)
        return cudaemu_keep(cudaErrorInvalidDevice);
    cudaemu_mine.device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    BEGIN_ON_GPU();
    *device = cudaemu_mine.device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    BEGIN_ON_GPU();
    if (device < 0 || device >= cudaemu_all.n_devices)
        return cudaemu_keep(cudaErrorInvalidDevice);
    memset(prop, 0, sizeof *prop);
    memcpy(prop->name, cudaemu_all.name, sizeof prop->name);
    for (size_t i = 0; i < sizeof prop->uuid.bytes; i++)
        prop->uuid.bytes[i] = (char)(16 * (cudaemu_all.is_same ? 0 : device) + (int)i + 1);
    prop->totalGlobalMem = cudaemu_all.memory;
    prop->sharedMemPerBlock = 48 << 10;
    prop->sharedMemPerBlockOptin = 227 << 10;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = 1024;
    prop->major = 9;
    prop->multiProcessorCount = 132;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    BEGIN_ON_GPU();
    if (device < 0 || device >= cudaemu_all.n_devices)
        return cudaemu_keep(cudaErrorInvalidDevice);
    if (len < 13)
        return cudaemu_keep(cudaErrorInvalidValue);
    snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", 0x18 + (cudaemu_all.is_same ? 0 : device));
    return cudaSuccess;
}

/* ---- control ---- */

static void clear_stream(struct CUstream_st *s)
{
    for (struct work *w = s->first, *next; w; w = next) {
        next = w->next;
        free(w->staged);
        free(w);
    }
}

void cudaemu_reset(void)
{
    HOLD();
    clear_stream(&cudaemu_all.standard);
    for (struct CUstream_st *s = cudaemu_all.streams, *next; s; s = next) {
        next = s->next;
        clear_stream(s);
        free(s);
    }
    for (struct CUevent_st *e = cudaemu_all.events, *next; e; e = next) {
        next = e->next;
        free(e);
    }
    for (struct block *b = cudaemu_all.blocks, *next; b; b = next) {
        next = b->next;
        free(b->p);
        free(b);
    }
    memset(&cudaemu_all, 0, sizeof cudaemu_all);
    cudaemu_mine = (struct cudaemu_thread){0};
    read_script();
}

struct cudaemu_live cudaemu_live(void)
{
    HOLD();
    struct cudaemu_live live = {0};
    for (int i = 0; i < DEVICES_MAX; i++)
        live.device_bytes += cudaemu_all.used[i];
    for (struct block *b = cudaemu_all.blocks; b; b = b->next) {
        live.allocations += b->device >= 0;
        live.host_allocations += b->device < 0;
    }
    for (struct CUstream_st *s = cudaemu_all.streams; s; s = s->next)
        live.streams++;
    for (struct CUevent_st *e = cudaemu_all.events; e; e = e->next)
        live.events++;
    return live;
}

int cudaemu_last_error(void)
{
    HOLD();
    return (int)(cudaemu_all.sticky ? cudaemu_all.sticky : cudaemu_mine.last);
}

int cudaemu_priority(const void *stream)
{
    return ((const struct CUstream_st *)stream)->priority;
}

int cudaemu_calls(const char *name)
{
    HOLD();
    for (int i = 0; i < cudaemu_all.n_counts; i++)
        if (!strcmp(cudaemu_all.count[i].name, name))
            return cudaemu_all.count[i].n;
    return 0;
}
