#include "runtime/parts_gpu.h"

static int mark(void *ctx, unsigned slot)
{
    struct parts_gpu *g = ctx;
    device_event_t **e = &g->event[slot];
    *e = *e ? *e : device_event_create(g->device, true, NULL);
    return *e ? device_event_record(*e, g->program, NULL) : -1;
}

static int is_reached(void *ctx, unsigned slot)
{
    const struct parts_gpu *g = ctx;
    return device_event_query(g->event[slot], NULL);
}

static int between(void *ctx, unsigned from, unsigned to, uint64_t *ret_ns)
{
    const struct parts_gpu *g = ctx;
    double ms;
    if (device_event_ms(g->event[from], g->event[to], &ms, NULL) < 0)
        return -1;
    *ret_ns = ms > 0 ? (uint64_t)(ms * 1e6) : 0;
    return 0;
}

void parts_gpu_open(struct parts_gpu *g, device_t *device, device_stream_t *program)
{
    *g = (struct parts_gpu){.clock = {g, mark, is_reached, between}, .device = device, .program = program};
}

void parts_gpu_close(struct parts_gpu *g)
{
    for (int i = 0; i < PARTS_MARKS; i++)
        device_event_destroy(g->event[i]);
    *g = (struct parts_gpu){0};
}
