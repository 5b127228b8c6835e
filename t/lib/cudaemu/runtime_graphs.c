/* runtime_graphs.c - the emulated CUDA runtime: captures and graphs. What a captured stream is asked for becomes a
 * recording, which the graph and all that is made of it share; a launch asks a stream for copies of its work. */
#include <stdlib.h>

#include "t/lib/cudaemu/runtime_impl.h"

void cudaemu_recording_drop(struct recording *r)
{
    if (!r || --r->n_users > 0)
        return;
    for (struct work *w = r->first, *next; w; w = next) {
        next = w->next;
        if (w->release)
            w->release(w->arg);
        free(w);
    }
    free(r);
}

static void end_capture(struct CUstream_st *s)
{
    cudaemu_recording_drop(s->recording);
    s->recording = NULL;
}

cudaError_t cudaemu_record(struct CUstream_st *s, const struct work *asked)
{
    struct work *w = s->is_invalid ? NULL : malloc(sizeof *w);
    if (!w)
        return cudaemu_keep(s->is_invalid ? cudaErrorStreamCaptureInvalidated : cudaErrorMemoryAllocation);
    *w = *asked;
    w->next = NULL;
    if (s->recording->last)
        s->recording->last->next = w;
    else
        s->recording->first = w;
    s->recording->last = w;
    return cudaSuccess;
}

/* ---- what a capture does not stand ---- */

cudaError_t cudaemu_refuse_captured(struct CUstream_st *s)
{
    if (!s->recording)
        return cudaSuccess;
    cudaError_t e = s->is_invalid ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnsupported;
    s->is_invalid = true;
    return e;
}

cudaError_t cudaemu_refuse_all_captured(void)
{
    cudaError_t all = cudaSuccess;
    for (struct CUstream_st *s = cudaemu_all.streams; s; s = s->next) {
        cudaError_t e = cudaemu_refuse_captured(s);
        all = all ? all : e;
    }
    return all;
}

cudaError_t cudaemu_refuse_implicit(void)
{
    cudaError_t e = cudaSuccess;
    for (struct CUstream_st *s = cudaemu_all.streams; s; s = s->next)
        if (s->is_blocking && cudaemu_refuse_captured(s))
            e = cudaErrorStreamCaptureImplicit;
    return e;
}

cudaError_t cudaemu_refuse_unsafe(void)
{
    cudaError_t all = cudaSuccess;
    for (struct CUstream_st *s = cudaemu_all.streams; s; s = s->next) {
        bool forbids = s->capture_mode == cudaStreamCaptureModeGlobal ||
                       (s->capture_mode == cudaStreamCaptureModeThreadLocal && s->captor == &cudaemu_mine);
        cudaError_t e = forbids ? cudaemu_refuse_captured(s) : cudaSuccess;
        all = all ? all : e;
    }
    return all;
}

cudaError_t cudaemu_refuse_captured_event(struct CUevent_st *e)
{
    if (!e->capture)
        return cudaSuccess;
    if (e->stream->recording && e->stream->n_captures == e->capture)
        e->stream->is_invalid = true;
    return cudaErrorCapturedEvent;
}

/* s waits for e, one of the two in a capture: it must be the same one, and then there is nothing to do, as a graph of
 * one stream is done in order. (CUDA would take another stream into the capture.) */
cudaError_t cudaemu_captured_wait(struct CUstream_st *s, const struct CUevent_st *e)
{
    if (!s->recording)
        return cudaErrorNotSupported;
    if (e->capture && e->stream == s && e->capture == s->n_captures)
        return s->is_invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    s->is_invalid = true;
    return cudaErrorStreamCaptureIsolation;
}

/* ---- captures ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    BEGIN_ON_GPU();
    if (!stream)
        return cudaemu_keep(cudaErrorStreamCaptureUnsupported);
    if (!cudaemu_is_stream(stream))
        return cudaemu_keep(cudaErrorInvalidResourceHandle);
    if (stream->recording)
        return cudaemu_keep(cudaErrorIllegalState);
    stream->recording = calloc(1, sizeof *stream->recording);
    if (!stream->recording)
        return cudaemu_keep(cudaErrorMemoryAllocation);
    stream->recording->n_users = 1;
    stream->is_invalid = false;
    stream->capture_mode = mode;
    stream->captor = &cudaemu_mine;
    stream->n_captures++;
    return cudaSuccess;
}

static cudaError_t make(struct CUgraph_st **list, struct CUgraph_st *g, struct recording *r)
{
    if (!g)
        return cudaErrorMemoryAllocation;
    *g = (struct CUgraph_st){*list, r};
    r->n_users++;
    *list = g;
    return cudaSuccess;
}

/* The capture is over, also where its end fails, but for another thread. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    HOLD();
    cudaError_t begun = cudaemu_begin(__func__);
    if (begun) {
        if (stream && cudaemu_is_stream(stream))
            end_capture(stream);
        return begun;
    }
    if (!stream || !cudaemu_is_stream(stream) || !stream->recording)
        return cudaemu_keep(cudaErrorIllegalState);
    if (stream->capture_mode != cudaStreamCaptureModeRelaxed && stream->captor != &cudaemu_mine)
        return cudaemu_keep(cudaErrorStreamCaptureWrongThread);
    struct CUgraph_st *g = stream->is_invalid ? NULL : malloc(sizeof *g);
    cudaError_t e = stream->is_invalid ? cudaErrorStreamCaptureInvalidated
                                       : make(&cudaemu_all.graphs, g, stream->recording);
    end_capture(stream);
    *pGraph = e ? NULL : g;
    return cudaemu_keep(e);
}

/* ---- graphs ---- */

static struct CUgraph_st **place_of(struct CUgraph_st **list, const struct CUgraph_st *g)
{
    while (*list && *list != g)
        list = &(*list)->next;
    return list;
}

static cudaError_t destroy(struct CUgraph_st **list, struct CUgraph_st *g)
{
    struct CUgraph_st **at = place_of(list, g);
    if (!*at)
        return cudaErrorInvalidValue;
    *at = g->next;
    cudaemu_recording_drop(g->recording);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    BEGIN_ON_GPU();
    if (flags || !graph || !*place_of(&cudaemu_all.graphs, graph))
        return cudaemu_keep(cudaErrorInvalidValue);
    struct CUgraphExec_st *x = malloc(sizeof *x);
    cudaError_t e = make(&cudaemu_all.execs, x ? &x->made : NULL, graph->recording);
    if (!e)
        *pGraphExec = x;
    return cudaemu_keep(e);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    BEGIN_ON_GPU();
    if (!graphExec || !*place_of(&cudaemu_all.execs, &graphExec->made) || !cudaemu_is_stream(stream))
        return cudaemu_keep(cudaErrorInvalidValue);
    struct CUstream_st *s = cudaemu_stream_of(stream);
    if (s->recording) /* CUDA: a graph within a graph */
        return cudaemu_keep(cudaErrorNotSupported);
    struct recording *r = graphExec->made.recording;
    cudaError_t e = cudaSuccess;
    for (struct work *w = r->first; w && !e; w = w->next) {
        struct work copy = *w;
        copy.of = r;
        r->n_users++;
        e = cudaemu_queue(s, &copy);
        if (e)
            cudaemu_recording_drop(r);
    }
    return e;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    BEGIN_ON_GPU();
    return cudaemu_keep(graph ? destroy(&cudaemu_all.graphs, graph) : cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    BEGIN_ON_GPU();
    return cudaemu_keep(graphExec ? destroy(&cudaemu_all.execs, &graphExec->made) : cudaErrorInvalidValue);
}
