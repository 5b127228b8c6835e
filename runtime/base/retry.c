#include "runtime/base/retry.h"

#include <poll.h>
#include <stddef.h>

#include "runtime/base/clock.h"

enum { FIRST_MS = 10, MOST_MS = 200 };

bool retry_wait(struct retry *r)
{
    int left_ms = deadline_left_ms(r->deadline);
    r->wait_ms = r->wait_ms == 0 ? FIRST_MS : 2 * r->wait_ms < MOST_MS ? 2 * r->wait_ms : MOST_MS;
    if (left_ms == 0)
        return false;
    poll(NULL, 0, r->wait_ms < left_ms ? r->wait_ms : left_ms);
    return true;
}
