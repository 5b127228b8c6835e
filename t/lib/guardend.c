#include "t/lib/guardend.h"

#include <string.h>
#include <sys/socket.h>

#include "runtime/base/bytes.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/notice.h"

int guardend_open(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    notice_heed(pair[1]);
    return pair[0];
}

bool guardend_has(int guard, int rank, const char *text)
{
    struct frame in = {0};
    int kind;
    size_t n;
    bool is_there = frame_next(&in, guard, &kind, &n) == 1 && kind == DOOR_CAUSE;
    return is_there && (int)bytes_get32(in.bytes + FRAME_HEAD) == rank && n == 4 + strlen(text) &&
           !memcmp(in.bytes + FRAME_HEAD + 4, text, n - 4);
}
