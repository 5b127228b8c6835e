#include "runtime/device/device.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/device/device_impl.h"

#define SPIN_NS (200 * 1000ull) /* a wait that is soon over does not sleep */
#define NAP_NS (50 * 1000l)
#define ASK_NS NS_PER_MS

struct device_stream {
    device_t *device;
    void *native;
    bool is_borrowed;
};
struct device_event {
    device_t *device;
    void *native;
};

/* 0: ready for a call. */
int device_enter(device_t *d, ddp_error_t *errp)
{
    if (d->is_broken)
        return device_cause(d, errp);
    int code = d->ops->enter(d);
    return code ? device_fail(d, code, d->ops->call[CALL_ENTER], "", errp) : 0;
}

/* The result of a call of the backend's. */
static int settle(device_t *d, int code, enum device_call call, ddp_error_t *errp)
{
    return code ? device_fail(d, code, d->ops->call[call], "", errp) : 0;
}

/* May a free or destroy call go to the backend? */
static bool may_release(device_t *d)
{
    return !d->is_broken && d->ops->enter(d) == 0;
}

device_t *device_open(int ordinal, int rank, ddp_error_t *errp)
{
    device_t *d = calloc(1, sizeof *d);
    if (!d) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for a device", rank);
        return NULL;
    }
    d->rank = rank;
    if (device_cuda_open(d, ordinal, errp) == 0)
        return d;
    free(d);
    return NULL;
}

void device_close(device_t *d)
{
    free(d); /* the driver's context is the process's, which may open the device again */
}

const struct device_info *device_info(const device_t *d)
{
    return &d->info;
}

bool device_is_broken(const device_t *d)
{
    return d->is_broken;
}

int device_memory_free(device_t *d, size_t *ret_bytes, ddp_error_t *errp)
{
    return device_enter(d, errp) < 0 ? -1 : settle(d, d->ops->memory_free(ret_bytes), CALL_MEMORY_FREE, errp);
}

/* Out of memory: how much was wanted and is there, and what lowers it. Everything else as ever. */
static int fail_malloc(device_t *d, int code, enum device_call call, size_t n, const char *what, ddp_error_t *errp)
{
    char who[96], detail[80];
    struct device_fault f;
    size_t left = 0;
    d->ops->explain(code, &f);
    snprintf(detail, sizeof detail, " of %zu bytes for %.40s", n, what);
    if (!f.is_no_memory)
        return device_fail(d, code, d->ops->call[call], detail, errp);
    int rc = call == CALL_MALLOC ? d->ops->memory_free(&left) : 0;
    left = call == CALL_MALLOC ? left : device_cpu_memory_free();
    bool is_known = rc == 0 && left > 0;
    char there[64] = "";
    if (is_known)
        snprintf(there, sizeof there, ", %zu free", left);
    return error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: %s: %s%s: out of memory%s: %s", d->rank,
                     device_title(d, who, sizeof who), d->ops->call[call], detail, there,
                     call != CALL_MALLOC ? "raise the limit on locked memory (ulimit -l) or the job's memory (--mem)"
                                             : "take a smaller --batch, --recompute or --ddp-zero=1");
}

static void *allocate(device_t *d, size_t n, const char *what, enum device_call call, ddp_error_t *errp)
{
    void *p = NULL;
    if (device_enter(d, errp) < 0)
        return NULL;
    int code = (call == CALL_MALLOC ? d->ops->malloc : d->ops->host_malloc)(n ? n : 1, &p);
    if (!code)
        return p;
    fail_malloc(d, code, call, n, what, errp);
    return NULL;
}

void *device_malloc(device_t *d, size_t n, const char *what, ddp_error_t *errp)
{
    return allocate(d, n, what, CALL_MALLOC, errp);
}

void *device_host_malloc(device_t *d, size_t n, const char *what, ddp_error_t *errp)
{
    return allocate(d, n, what, CALL_HOST_MALLOC, errp);
}

void device_free(device_t *d, void *p)
{
    int saved = errno;
    if (p && may_release(d))
        d->ops->free(p);
    errno = saved;
}

void device_host_free(device_t *d, void *p)
{
    int saved = errno;
    if (p && may_release(d))
        d->ops->host_free(p);
    errno = saved;
}

device_stream_t *device_stream_create(device_t *d, enum device_priority priority, ddp_error_t *errp)
{
    if (device_enter(d, errp) < 0)
        return NULL;
    device_stream_t *s = malloc(sizeof *s);
    if (!s) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for a stream", d->rank);
        return NULL;
    }
    *s = (device_stream_t){.device = d};
    if (settle(d, d->ops->stream_create(priority == DEVICE_URGENT, &s->native), CALL_STREAM_CREATE, errp) == 0)
        return s;
    free(s);
    return NULL;
}

device_stream_t *device_stream_borrow(device_t *d, void *native, ddp_error_t *errp)
{
    device_stream_t *s = malloc(sizeof *s);
    if (s)
        *s = (device_stream_t){.device = d, .native = native, .is_borrowed = true};
    else
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for a stream", d->rank);
    return s;
}

void device_stream_destroy(device_stream_t *s)
{
    int saved = errno;
    if (s && !s->is_borrowed && may_release(s->device))
        s->device->ops->stream_destroy(s->native);
    free(s);
    errno = saved;
}

void *device_native_stream(const device_stream_t *s)
{
    return s->native;
}

device_event_t *device_event_create(device_t *d, bool timed, ddp_error_t *errp)
{
    if (device_enter(d, errp) < 0)
        return NULL;
    device_event_t *e = malloc(sizeof *e);
    if (!e) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for an event", d->rank);
        return NULL;
    }
    *e = (device_event_t){.device = d};
    if (settle(d, d->ops->event_create(timed, &e->native), CALL_EVENT_CREATE, errp) == 0)
        return e;
    free(e);
    return NULL;
}

void device_event_destroy(device_event_t *e)
{
    int saved = errno;
    if (e && may_release(e->device))
        e->device->ops->event_destroy(e->native);
    free(e);
    errno = saved;
}

int device_event_record(device_event_t *e, device_stream_t *s, ddp_error_t *errp)
{
    device_t *d = e->device;
    if (device_enter(d, errp) < 0)
        return -1;
    return settle(d, d->ops->event_record(e->native, s->native), CALL_EVENT_RECORD, errp);
}

int device_stream_after(device_stream_t *s, const device_event_t *e, ddp_error_t *errp)
{
    device_t *d = s->device;
    if (device_enter(d, errp) < 0)
        return -1;
    return settle(d, d->ops->stream_after(s->native, e->native), CALL_STREAM_AFTER, errp);
}

int device_event_ms(const device_event_t *from, const device_event_t *to, double *ret_ms, ddp_error_t *errp)
{
    device_t *d = from->device;
    if (device_enter(d, errp) < 0)
        return -1;
    return settle(d, d->ops->event_ms(from->native, to->native, ret_ms), CALL_EVENT_MS, errp);
}

int device_copy(device_stream_t *s, void *to, const void *from, size_t n, enum device_way way, ddp_error_t *errp)
{
    static const char *const where[] = {" to the device", " from the device", " on the device"};
    device_t *d = s->device;
    char detail[64];
    if (device_enter(d, errp) < 0)
        return -1;
    int code = n ? d->ops->copy(to, from, n, way, s->native) : 0;
    snprintf(detail, sizeof detail, " of %zu bytes%s", n, where[way]);
    return code ? device_fail(d, code, d->ops->call[CALL_COPY], detail, errp) : 0;
}

int device_fill(device_stream_t *s, void *to, int byte, size_t n, ddp_error_t *errp)
{
    device_t *d = s->device;
    char detail[64];
    if (device_enter(d, errp) < 0)
        return -1;
    int code = n ? d->ops->fill(to, byte, n, s->native) : 0;
    snprintf(detail, sizeof detail, " of %zu bytes", n);
    return code ? device_fail(d, code, d->ops->call[CALL_FILL], detail, errp) : 0;
}

static int query(device_t *d, int (*f)(void *), void *native, enum device_call call, ddp_error_t *errp)
{
    if (device_enter(d, errp) < 0)
        return -1;
    int code = f(native);
    return code == DEVICE_NOT_YET ? 0 : settle(d, code, call, errp) < 0 ? -1 : 1;
}

int device_event_query(device_event_t *e, ddp_error_t *errp)
{
    return query(e->device, e->device->ops->event_query, e->native, CALL_EVENT_QUERY, errp);
}

static int late(device_t *d, uint64_t began, ddp_error_t *errp)
{
    char who[96];
    ddp_error_t e = {0};
    error_set(&e, DDP_E_TIMEOUT, ETIMEDOUT, "rank %d: %s: its work was not done within %.1f s: a kernel hangs, or "
              "waits for another rank: raise --ddp-timeout if it is only slow", d->rank,
              device_title(d, who, sizeof who), (double)(clock_ns() - began) / (double)NS_PER_S);
    return device_break(d, &e, errp);
}

static void pause_since(uint64_t began)
{
    if (clock_ns() - began < SPIN_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static int wait_for(device_t *d, int (*f)(void *), void *native, enum device_call call, uint64_t deadline,
                    device_ask_f *ask, void *ctx, ddp_error_t *errp)
{
    uint64_t began = clock_ns(), asked = began;
    int rc;
    while ((rc = query(d, f, native, call, errp)) == 0) {
        uint64_t now = clock_ns();
        if (now >= deadline)
            return late(d, began, errp);
        ddp_error_t e = {0};
        if (ask && now - asked >= ASK_NS && ask(ctx, &e) < 0)
            return device_break(d, &e, errp);
        asked = now - asked >= ASK_NS ? now : asked;
        pause_since(began);
    }
    return rc < 0 ? -1 : 0;
}

int device_stream_wait(device_stream_t *s, uint64_t deadline, device_ask_f *ask, void *ctx, ddp_error_t *errp)
{
    return wait_for(s->device, s->device->ops->stream_query, s->native, CALL_STREAM_QUERY, deadline, ask, ctx, errp);
}

int device_event_wait(device_event_t *e, uint64_t deadline, device_ask_f *ask, void *ctx, ddp_error_t *errp)
{
    return wait_for(e->device, e->device->ops->event_query, e->native, CALL_EVENT_QUERY, deadline, ask, ctx, errp);
}

int device_result(device_t *d, int code, const char *call, ddp_error_t *errp)
{
    if (d->is_broken)
        return device_cause(d, errp);
    return code ? device_fail(d, code, call, "", errp) : 0;
}
