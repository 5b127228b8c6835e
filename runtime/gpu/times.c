/* times.c - when buckets travelled on a GPU, for a trace. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/gpu/impl.h"

int gpu_times_open(gpu_t *g, ddp_error_t *errp)
{
    struct gpu_times *t = &g->times;
    size_t n = (size_t)g->cfg.layout->n + 1;
    if (!g->cfg.is_traced)
        return 0;
    t->from = calloc(n, sizeof(device_event_t *));
    t->to = calloc(n, sizeof(device_event_t *));
    if (!t->from || !t->to)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a trace of %zu parameters", n - 1);
    return 0;
}

void gpu_times_close(gpu_t *g)
{
    struct gpu_times *t = &g->times;
    for (int i = 0; t->from && t->to && i < g->cfg.layout->n; i++) {
        device_event_destroy(t->from[i]);
        device_event_destroy(t->to[i]);
    }
    device_event_destroy(t->done);
    free(t->from);
    free(t->to);
}

/* Records *e, which is made where it is not there yet. */
static int record(gpu_t *g, device_event_t **e, device_stream_t *s, ddp_error_t *errp)
{
    *e = *e ? *e : device_event_create(g->cfg.device, true, errp);
    return *e ? device_event_record(*e, s, errp) : -1;
}

int gpu_times_depart(gpu_t *g, ddp_error_t *errp)
{
    struct gpu_times *t = &g->times;
    if (!g->cfg.is_traced)
        return 0;
    return record(g, &t->done, g->program, errp) < 0 ? -1 : record(g, &t->from[t->n++], g->travel, errp);
}

/* At once, although NCCL may take a moment until its work is on the stream: later it would be said too late. */
int gpu_times_come(gpu_t *g, ddp_error_t *errp)
{
    if (!g->cfg.is_traced)
        return 0;
    if (g->nccl && nccl_settle(g->nccl, errp) < 0)
        return -1;
    return record(g, &g->times.to[g->times.n - 1], g->travel, errp);
}

/* The GPU has a clock of its own: what it did is placed by how long before the end of the sums it was. */
static bool at(const gpu_t *g, const device_event_t *e, uint64_t *ret_ns)
{
    double ms = 0;
    if (!e || device_event_ms(e, g->summed, &ms, NULL) < 0)
        return false;
    *ret_ns = g->times.summed_ns - (uint64_t)(ms > 0 ? ms * 1e6 : 0);
    return true;
}

bool gpu_times_span(void *ctx, int b, uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
    const gpu_t *g = ctx;
    return at(g, g->times.from[b], ret_from_ns) && at(g, g->times.to[b], ret_to_ns);
}

bool gpu_times_done(void *ctx, uint64_t *ret_ns)
{
    const gpu_t *g = ctx;
    return at(g, g->times.done, ret_ns);
}
