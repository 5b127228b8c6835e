/* runtime_streams.c - the emulated CUDA runtime: streams, events and what is done on them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "t/lib/cudaemu/runtime_impl.h"
#include "t/lib/cudaemu/script.h"

struct CUstream_st *cudaemu_stream_of(cudaStream_t s)
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

/* w is done, or never will be. */
static void finish(const struct work *w)
{
    if (w->of)
        cudaemu_recording_drop(w->of);
    else if (w->release)
        w->release(w->arg);
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
    finish(w);
    free(w);
    return true;
}

void cudaemu_drain(struct CUstream_st *s)
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

void cudaemu_stream_clear(struct CUstream_st *s)
{
    for (struct work *w = s->first, *next; w; w = next) {
        next = w->next;
        finish(w);
        free(w);
    }
    cudaemu_recording_drop(s->recording);
}

cudaError_t cudaemu_queue(struct CUstream_st *s, const struct work *asked)
{
    if (cudaemu_all.mode == MODE_NOW) {
        do_work(asked);
        finish(asked);
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

/* What the program asks for; a captured stream keeps it. */
cudaError_t cudaemu_ask(cudaStream_t stream, const struct work *asked)
{
    struct CUstream_st *s = cudaemu_stream_of(stream);
    if (!stream)
        REFUSE(cudaemu_refuse_implicit());
    return s->recording ? cudaemu_record(s, asked) : cudaemu_queue(s, asked);
}

int cudaemu_enqueue(void *stream, void (*run)(void *arg), void (*release)(void *arg), void *arg)
{
    HOLD();
    cudaError_t e = cudaemu_begin(__func__);
    struct work w = {.what = WORK_RUN, .run = run, .release = release, .arg = arg};
    return (int)(e ? e : cudaemu_ask(stream, &w));
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
    BEGIN_ON_GPU();
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s || priority > 0 || priority < -5) {
        free(s);
        return cudaemu_keep(cudaErrorInvalidValue);
    }
    s->device = cudaemu_mine.device;
    s->priority = priority;
    s->is_blocking = !(flags & cudaStreamNonBlocking);
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

bool cudaemu_is_stream(cudaStream_t stream)
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
            cudaemu_drain(stream); /* as CUDA: what was asked for is done */
            for (struct CUevent_st *e = cudaemu_all.events; e; e = e->next)
                if (e->stream == stream) {
                    e->stream = &cudaemu_all.standard;
                    e->capture = 0;
                }
            forget_stream(&cudaemu_all.standard, stream);
            for (struct CUstream_st *s = cudaemu_all.streams; s; s = s->next)
                forget_stream(s, stream);
            *at = stream->next;
            cudaemu_stream_clear(stream);
            free(stream);
            return cudaSuccess;
        }
    return cudaemu_keep(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    BEGIN_ON_GPU();
    if (!cudaemu_is_stream(stream))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    REFUSE(cudaemu_refuse_captured(cudaemu_stream_of(stream)));
    REFUSE(cudaemu_refuse_unsafe());
    step(cudaemu_stream_of(stream));
    return cudaemu_keep(cudaemu_stream_of(stream)->first ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    BEGIN_ON_GPU();
    if (!cudaemu_is_stream(stream))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    REFUSE(cudaemu_refuse_captured(cudaemu_stream_of(stream)));
    REFUSE(cudaemu_refuse_unsafe());
    cudaemu_drain(cudaemu_stream_of(stream));
    return cudaSuccess;
}

void cudaemu_drain_all(void)
{
    cudaemu_drain(&cudaemu_all.standard);
    for (struct CUstream_st *s = cudaemu_all.streams; s; s = s->next)
        cudaemu_drain(s);
}

cudaError_t cudaDeviceSynchronize(void)
{
    BEGIN_ON_GPU();
    REFUSE(cudaemu_refuse_all_captured());
    cudaemu_drain_all();
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    (void)flags;
    BEGIN_ON_GPU();
    if (!cudaemu_is_stream(stream) || !is_event(event))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    if (event->capture || cudaemu_stream_of(stream)->recording)
        return cudaemu_keep(cudaemu_captured_wait(cudaemu_stream_of(stream), event));
    return cudaemu_ask(stream, &(struct work){.what = WORK_AFTER,
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
    if (!cudaemu_is_stream(stream) || !is_event(event))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    event->stream = cudaemu_stream_of(stream);
    event->capture = event->stream->recording ? event->stream->n_captures : 0;
    if (event->capture) /* a place in the graph, which nobody outside of it comes to know */
        return cudaemu_keep(event->stream->is_invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
    event->asked++;
    return cudaemu_ask(stream, &(struct work){.what = WORK_RECORD, .event = event, .point = event->asked});
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    BEGIN_ON_GPU();
    if (!is_event(event))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    REFUSE(cudaemu_refuse_captured_event(event));
    REFUSE(cudaemu_refuse_unsafe());
    if (event->reached < event->asked)
        step(event->stream);
    return cudaemu_keep(event->reached < event->asked ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    BEGIN_ON_GPU();
    if (!is_event(event))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    REFUSE(cudaemu_refuse_captured_event(event));
    REFUSE(cudaemu_refuse_unsafe());
    drain_to(event, event->asked, event->stream);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    BEGIN_ON_GPU();
    if (!is_event(start) || !is_event(end) || !start->timed || !end->timed || !start->asked || !end->asked)
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    REFUSE(cudaemu_refuse_captured_event(start));
    REFUSE(cudaemu_refuse_captured_event(end));
    if (start->reached < start->asked || end->reached < end->asked)
        return cudaemu_keep(cudaErrorNotReady);
    *ms = (float)(end->at_ms - start->at_ms);
    return cudaSuccess;
}
