/* runtime_streams.c - the emulated CUDA runtime: streams, events and what is done on them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "t/lib/cudaemu/runtime_impl.h"
#include "t/lib/cudaemu/script.h"

static struct CUstream_st *stream_of(cudaStream_t s)
{
    return s ? s : &cudaemu_all.standard;
}

static void drain_to(struct CUevent_st *e, uint64_t point, struct CUstream_st *where);

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void do_work(const struct work *w)
{
    if (w->what == WORK_COPY)
        memmove(w->to, w->from, w->n);
    else if (w->what == WORK_FILL)
        memset(w->to, w->byte, w->n);
    else if (w->what == WORK_RUN)
        w->run(w->arg);
    else if (w->what == WORK_AFTER) {
        if (w->event)
            drain_to(w->event, w->point, w->where);
    } else if (w->event->reached < w->point) { /* else a later record, on another stream, was faster */
        w->event->reached = w->point;
        w->event->at_ms = now_ms();
    }
}

static bool step(struct CUstream_st *s)
{
    struct work *w = s->first;
    if (!w || cudaemu_all.mode == MODE_STUCK)
        return false;
    s->first = w->next;
    if (!s->first)
        s->last = NULL;
    do_work(w);
    free(w->staged);
    free(w);
    return true;
}

static void drain(struct CUstream_st *s)
{
    while (step(s))
        ;
}

static bool has(const struct CUstream_st *s, const struct CUevent_st *e, uint64_t point)
{
    const struct work *w = s ? s->first : NULL;
    while (w && (w->what != WORK_RECORD || w->event != e || w->point != point))
        w = w->next;
    return w != NULL;
}

/* A later record may have been done already, of another stream: that is not the one to wait for. */
static void drain_to(struct CUevent_st *e, uint64_t point, struct CUstream_st *where)
{
    while (has(where, e, point) && step(where))
        ;
}

static cudaError_t ask(cudaStream_t stream, const struct work *asked)
{
    struct CUstream_st *s = stream_of(stream);
    if (cudaemu_all.mode == MODE_NOW) {
        do_work(asked);
        return cudaSuccess;
    }
    struct work *w = malloc(sizeof *w);
    if (!w)
        return cudaemu_keep(cudaErrorMemoryAllocation);
    *w = *asked;
    w->next = NULL;
    if (s->last)
        s->last->next = w;
    else
        s->first = w;
    s->last = w;
    return cudaSuccess;
}

int cudaemu_enqueue(void *stream, void (*run)(void *arg), void *arg)
{
    HOLD();
    cudaError_t e = cudaemu_begin(__func__);
    return (int)(e ? e : ask(stream, &(struct work){.what = WORK_RUN, .run = run, .arg = arg}));
}

bool cudaemu_is_device(const void *p, size_t n)
{
    return cudaemu_block_of(p, n, false) != NULL;
}

/* Does p lie in a GPU's memory at all? */
static bool is_device(const void *p)
{
    return cudaemu_is_device(p, 0);
}

/* A kind is what the caller says of the two sides; a range must end where its block does. */
static cudaError_t check_copy(const void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
    bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) {
        to = is_device(dst);
        from = is_device(src);
    }
    if (to != is_device(dst) || from != is_device(src))
        return cudaErrorInvalidValue;
    if ((to && !cudaemu_block_of(dst, n, false)) || (from && !cudaemu_block_of(src, n, false)))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    BEGIN_ON_GPU();
    cudaError_t e = check_copy(dst, src, n, kind);
    return e ? cudaemu_keep(e) : ask(stream, &(struct work){.what = WORK_COPY, .to = dst, .from = src, .n = n});
}

/* To device memory, from pageable or device memory: as with CUDA the caller may go on, and have its memory back, before
 * the copy is done on the default stream, for which a stream that is non-blocking does not wait. */
static cudaError_t copy_later(void *dst, const void *src, size_t n)
{
    struct work w = {.what = WORK_COPY, .to = dst, .from = src, .n = n};
    if (!is_device(src)) {
        w.from = w.staged = malloc(n + 1);
        if (!w.staged)
            return cudaemu_keep(cudaErrorMemoryAllocation);
        memcpy(w.staged, src, n);
    }
    return ask(NULL, &w);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
    BEGIN_ON_GPU();
    cudaError_t e = check_copy(dst, src, n, kind);
    if (e)
        return cudaemu_keep(e);
    if (cudaemu_all.mode != MODE_NOW && is_device(dst) && !cudaemu_block_of(src, n, true))
        return copy_later(dst, src, n);
    drain(&cudaemu_all.standard);
    memmove(dst, src, n);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t n, cudaStream_t stream)
{
    BEGIN_ON_GPU();
    if (!cudaemu_block_of(devPtr, n, false))
        return cudaemu_keep(cudaErrorInvalidValue);
    return ask(stream, &(struct work){.what = WORK_FILL, .to = devPtr, .byte = value, .n = n});
}

cudaError_t cudaMemset(void *devPtr, int value, size_t n)
{
    return cudaMemsetAsync(devPtr, value, n, NULL);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    BEGIN_ON_GPU();
    *leastPriority = 0;
    *greatestPriority = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
    (void)flags;
    BEGIN_ON_GPU();
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s || priority > 0 || priority < -5) {
        free(s);
        return cudaemu_keep(cudaErrorInvalidValue);
    }
    s->device = cudaemu_mine.device;
    s->priority = priority;
    s->next = cudaemu_all.streams;
    cudaemu_all.streams = s;
    *pStream = s;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(pStream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
    return cudaStreamCreateWithPriority(pStream, 0, 0);
}

static bool is_stream(cudaStream_t stream)
{
    struct CUstream_st *s = cudaemu_all.streams;
    while (stream && s && s != stream)
        s = s->next;
    return s != NULL || !stream;
}

static bool is_event(cudaEvent_t event)
{
    struct CUevent_st *e = cudaemu_all.events;
    while (e && e != event)
        e = e->next;
    return e != NULL;
}

/* What was asked of the stream is done: nobody need wait for it. */
static void forget_stream(struct CUstream_st *s, const struct CUstream_st *gone)
{
    for (struct work *w = s->first; w; w = w->next)
        w->where = w->where == gone ? NULL : w->where;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    BEGIN_ON_GPU();
    for (struct CUstream_st **at = &cudaemu_all.streams; *at; at = &(*at)->next)
        if (*at == stream) {
            drain(stream); /* as CUDA: what was asked for is done */
            for (struct CUevent_st *e = cudaemu_all.events; e; e = e->next)
                e->stream = e->stream == stream ? &cudaemu_all.standard : e->stream;
            forget_stream(&cudaemu_all.standard, stream);
            for (struct CUstream_st *s = cudaemu_all.streams; s; s = s->next)
                forget_stream(s, stream);
            *at = stream->next;
            free(stream);
            return cudaSuccess;
        }
    return cudaemu_keep(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    BEGIN_ON_GPU();
    if (!is_stream(stream))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    step(stream_of(stream));
    return cudaemu_keep(stream_of(stream)->first ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    BEGIN_ON_GPU();
    if (!is_stream(stream))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    drain(stream_of(stream));
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    BEGIN_ON_GPU();
    drain(&cudaemu_all.standard);
    for (struct CUstream_st *s = cudaemu_all.streams; s; s = s->next)
        drain(s);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    (void)flags;
    BEGIN_ON_GPU();
    if (!is_stream(stream) || !is_event(event))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    return ask(stream, &(struct work){.what = WORK_AFTER,
                                      .event = event,
                                      .point = event->asked,
                                      .where = event->stream});
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    BEGIN_ON_GPU();
    struct CUevent_st *e = calloc(1, sizeof *e);
    if (!e)
        return cudaemu_keep(cudaErrorMemoryAllocation);
    e->timed = !(flags & cudaEventDisableTiming);
    e->next = cudaemu_all.events;
    cudaemu_all.events = e;
    *event = e;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

/* The event is destroyed: who waits for it or records it does so no longer. */
static void forget_event(struct CUstream_st *s, const struct CUevent_st *event)
{
    for (struct work *w = s->first; w; w = w->next)
        if (w->event == event) {
            w->event = NULL;
            w->what = WORK_AFTER;
        }
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    BEGIN_ON_GPU();
    for (struct CUevent_st **at = &cudaemu_all.events; *at; at = &(*at)->next)
        if (*at == event) {
            drain_to(event, event->asked, event->stream);
            *at = event->next;
            forget_event(&cudaemu_all.standard, event);
            for (struct CUstream_st *s = cudaemu_all.streams; s; s = s->next)
                forget_event(s, event);
            free(event);
            return cudaSuccess;
        }
    return cudaemu_keep(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    BEGIN_ON_GPU();
    if (!is_stream(stream) || !is_event(event))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    event->stream = stream_of(stream);
    event->asked++;
    return ask(stream, &(struct work){.what = WORK_RECORD, .event = event, .point = event->asked});
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    BEGIN_ON_GPU();
    if (!is_event(event))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    if (event->reached < event->asked)
        step(event->stream);
    return cudaemu_keep(event->reached < event->asked ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    BEGIN_ON_GPU();
    if (!is_event(event))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    drain_to(event, event->asked, event->stream);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    BEGIN_ON_GPU();
    if (!is_event(start) || !is_event(end) || !start->timed || !end->timed || !start->asked || !end->asked)
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    if (start->reached < start->asked || end->reached < end->asked)
        return cudaemu_keep(cudaErrorNotReady);
    *ms = (float)(end->at_ms - start->at_ms);
    return cudaSuccess;
}
