#include "runtime/save/readback.h"

#include "runtime/base/clock.h"

int readback_open(struct readback *r, device_t *d, double timeout_s, ddp_error_t *errp)
{
    *r = (struct readback){.device = d, .timeout_s = timeout_s};
    bool is_open = (r->stream = device_stream_create(d, DEVICE_NORMAL, errp)) &&
                   (r->begin = device_event_create(d, false, errp));
    for (int slot = 0; is_open && slot < 2; slot++)
        is_open = (r->come[slot] = device_event_create(d, false, errp)) &&
                  (r->buffer[slot] = device_host_malloc(d, WRITER_CHUNK_BYTES, "reading checkpoints back", errp));
    if (is_open)
        return 0;
    readback_close(r);
    return -1;
}

void readback_close(struct readback *r)
{
    for (int slot = 0; slot < 2; slot++) {
        device_event_destroy(r->come[slot]);
        if (r->buffer[slot])
            device_host_free(r->device, r->buffer[slot]);
    }
    device_event_destroy(r->begin);
    device_stream_destroy(r->stream);
    *r = (struct readback){0};
}

int readback_after(struct readback *r, device_stream_t *s, ddp_error_t *errp)
{
    return device_event_record(r->begin, s, errp) < 0 ? -1 : device_stream_after(r->stream, r->begin, errp);
}

/* ---- in the writer's thread ---- */

static int fetch(void *ctx, int slot, const void *from, size_t n, ddp_error_t *errp)
{
    struct readback *r = ctx;
    if (device_copy(r->stream, r->buffer[slot], from, n, DEVICE_FROM, errp) < 0)
        return -1;
    return device_event_record(r->come[slot], r->stream, errp);
}

static const void *fetched(void *ctx, int slot, ddp_error_t *errp)
{
    struct readback *r = ctx;
    return device_event_wait(r->come[slot], deadline_in(r->timeout_s), NULL, NULL, errp) < 0 ? NULL : r->buffer[slot];
}

struct writer_source readback_source(struct readback *r)
{
    return (struct writer_source){fetch, fetched, r};
}
