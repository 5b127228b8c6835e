#include "runtime/base/handover.h"

#include <stddef.h>

#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/io.h"

static _Thread_local struct handover put;

void handover_put(const struct handover *h)
{
    handover_close(&put);
    put = *h;
}

struct handover handover_take(void)
{
    struct handover h = put;
    put = (struct handover){0};
    return h;
}

void handover_keep(const struct handover *h, int memory)
{
    if (h->is_there)
        frame_send_fd(h->guard, DOOR_KEEP, NULL, 0, memory);
}

void handover_close(struct handover *h)
{
    if (!h->is_there)
        return;
    io_close(h->guard);
    io_close(h->memory);
    *h = (struct handover){0};
}
