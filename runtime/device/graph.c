/* graph.c - work of a stream that is captured, and asked for again as a whole. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/device/device_impl.h"

struct device_graph {
    device_t *device;
    void *native;
};

int device_capture_begin(device_stream_t *s, ddp_error_t *errp)
{
    device_t *d = s->device;
    if (device_enter(d, errp) < 0)
        return -1;
    return device_settle(d, d->ops->capture_begin(s->native), CALL_CAPTURE_BEGIN, errp);
}

device_graph_t *device_capture_end(device_stream_t *s, ddp_error_t *errp)
{
    device_t *d = s->device;
    struct device_graph made = {.device = d};
    void *captured;
    if (device_enter(d, errp) < 0 ||
        device_settle(d, d->ops->capture_end(s->native, &captured), CALL_CAPTURE_END, errp) < 0 ||
        device_settle(d, d->ops->graph_make(captured, &made.native), CALL_GRAPH_MAKE, errp) < 0)
        return NULL;
    device_graph_t *g = malloc(sizeof *g);
    if (!g) {
        d->ops->graph_destroy(made.native);
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "rank %d: no memory for a graph", d->rank);
        return NULL;
    }
    *g = made;
    return g;
}

int device_graph_launch(device_graph_t *g, device_stream_t *s, ddp_error_t *errp)
{
    device_t *d = s->device;
    if (device_enter(d, errp) < 0)
        return -1;
    return device_settle(d, d->ops->graph_launch(g->native, s->native), CALL_GRAPH_LAUNCH, errp);
}

void device_graph_destroy(device_graph_t *g)
{
    int saved = errno;
    if (g && device_may_release(g->device))
        g->device->ops->graph_destroy(g->native);
    free(g);
    errno = saved;
}
