#include "config.h" /* fallocate */

#include "runtime/base/handover.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "runtime/base/bytes.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/io.h"

_Static_assert(HANDOVER_KINDS == DOOR_MEMORIES, "guards keep all kinds");

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

void handover_keep(const struct handover *h, enum handover_kind kind, int memory)
{
    unsigned char body[4];
    bytes_put32(body, kind);
    if (h->is_there)
        frame_send_fd(h->guard, DOOR_KEEP, body, sizeof body, memory);
}

void handover_forget(struct handover *h, enum handover_kind kind)
{
    struct stat s;
    if (!h->is_there)
        return;
    if (h->memory[kind] >= 0 && fstat(h->memory[kind], &s) == 0) /* at once, whenever the guard closes its own */
        fallocate(h->memory[kind], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, s.st_size);
    handover_keep(h, kind, -1);
    io_close(h->memory[kind]);
    h->memory[kind] = -1;
}

void handover_close(struct handover *h)
{
    if (!h->is_there)
        return;
    io_close(h->guard);
    for (int i = 0; i < HANDOVER_KINDS; i++)
        io_close(h->memory[i]);
    *h = (struct handover){0};
}
