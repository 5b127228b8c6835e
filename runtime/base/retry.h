/* retry.h - how long to wait before the next try: 10 ms, twice that, up to 200 ms, so that a server that a flood hides
 * is found soon and one that is not there costs nothing. */
#ifndef DDP_BASE_RETRY_H
#define DDP_BASE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

struct retry {
    uint64_t deadline; /* clock.h */
    int wait_ms;       /* 0 before the first try */
};

/* After a try that failed: waits. False, and at once, when the deadline has passed. */
bool retry_wait(struct retry *r);

#endif
