#include "runtime/base/notice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/door.h"

static _Thread_local struct notice heeded = {.fd = -1};

int notice_next(struct notice *n, int *ret_rank, char text[NOTICE_TEXT_MAX + 1])
{
    int kind, rc;
    size_t len;
    while ((rc = frame_next(&n->in, n->fd, &kind, &len)) > 0)
        if (kind == DOOR_DEATH && len >= 4) {
            *ret_rank = (int)bytes_get32(n->in.bytes + FRAME_HEAD);
            snprintf(text, NOTICE_TEXT_MAX + 1, "%.*s", (int)len - 4, (char *)n->in.bytes + FRAME_HEAD + 4);
            return 1;
        }
    return rc;
}

void notice_tell(const struct notice *n, int rank, const char *text)
{
    unsigned char body[4 + NOTICE_TEXT_MAX];
    size_t len = strnlen(text, NOTICE_TEXT_MAX);
    if (n->fd < 0)
        return;
    bytes_put32(body, (uint32_t)rank);
    memcpy(body + 4, text, len);
    frame_send(n->fd, DOOR_CAUSE, body, 4 + len);
}

void notice_heed(int fd)
{
    if (heeded.fd >= 0)
        close(heeded.fd);
    heeded = (struct notice){.fd = fd};
}

int notice_take(void)
{
    int fd = heeded.fd;
    heeded = (struct notice){.fd = -1};
    return fd;
}

int notice_fd(void)
{
    return heeded.fd;
}

void notice_tell_early(int rank, const char *text)
{
    notice_tell(&heeded, rank, text);
}

int notice_check(ddp_error_t *errp)
{
    char text[NOTICE_TEXT_MAX + 1];
    int rank, rc = notice_next(&heeded, &rank, text);
    if (rc < 0)
        notice_heed(-1);
    return rc > 0 ? error_set(errp, DDP_E_PEER, ECONNRESET, "%s", text) : 0;
}
