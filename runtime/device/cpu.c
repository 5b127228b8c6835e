/* cpu.c - the processor as a device: everything is done when it is asked for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/clock.h"
#include "runtime/device/device_impl.h"

#define ALIGN 256

static void explain(int code, struct device_fault *ret)
{
    *ret = (struct device_fault){.meaning = strerror(code), .is_no_memory = code == ENOMEM};
}

static int enter(const device_t *d)
{
    (void)d;
    return 0;
}

/* MemAvailable of /proc/meminfo; 0 where it is not there. */
static uint64_t memory_available(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib * 1024;
}

size_t device_cpu_memory_free(void)
{
    uint64_t left = cgroup_memory_left(""), there = memory_available();
    return there && there < left ? there : left < UINT64_MAX ? left : there;
}

static int memory_free(size_t *ret)
{
    *ret = device_cpu_memory_free();
    return 0;
}

static int allocate(size_t n, void **ret)
{
    void *p = n <= SIZE_MAX - ALIGN ? aligned_alloc(ALIGN, (n + ALIGN - 1) / ALIGN * ALIGN) : NULL;
    if (!p)
        return ENOMEM;
    *ret = p;
    return 0;
}

static int stream_create(bool urgent, void **ret)
{
    (void)urgent;
    *ret = NULL;
    return 0;
}

static void stream_destroy(void *stream)
{
    (void)stream;
}

static int is_done(void *native)
{
    (void)native;
    return 0;
}

static int stream_after(void *stream, void *event)
{
    (void)stream;
    (void)event;
    return 0;
}

/* An event is the time at which it was recorded. */
static int event_create(bool timed, void **ret)
{
    (void)timed;
    uint64_t *at = calloc(1, sizeof *at);
    if (!at)
        return ENOMEM;
    *ret = at;
    return 0;
}

static int event_record(void *event, void *stream)
{
    (void)stream;
    *(uint64_t *)event = clock_ns();
    return 0;
}

static int event_ms(void *from, void *to, double *ret)
{
    int64_t ns = (int64_t)(*(uint64_t *)to - *(uint64_t *)from);
    *ret = (double)ns / (double)NS_PER_MS;
    return 0;
}

static int copy(void *to, const void *from, size_t n, enum device_way way, void *stream)
{
    (void)way;
    (void)stream;
    memcpy(to, from, n);
    return 0;
}

static int fill(void *to, int byte, size_t n, void *stream)
{
    (void)stream;
    memset(to, byte, n);
    return 0;
}

static const struct device_ops ops = {
    .call = {[CALL_MALLOC] = "aligned_alloc",
             [CALL_HOST_MALLOC] = "aligned_alloc",
             [CALL_EVENT_CREATE] = "calloc"},
    .explain = explain,
    .enter = enter,
    .memory_free = memory_free,
    .malloc = allocate,
    .free = free,
    .host_malloc = allocate,
    .host_free = free,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = is_done,
    .stream_after = stream_after,
    .event_create = event_create,
    .event_destroy = free,
    .event_record = event_record,
    .event_query = is_done,
    .event_ms = event_ms,
    .copy = copy,
    .fill = fill,
};

int device_cpu_open(device_t *d, ddp_error_t *errp)
{
    (void)errp;
    d->ops = &ops;
    d->info.kind = DEVICE_CPU;
    d->info.memory_total_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    return 0;
}
