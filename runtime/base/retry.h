/* retry.h - how long to wait before the next try: 10 ms, then twice as long each time, up to 200 ms. So a server that
 * was only busy is reached soon, and one that is not there yet costs no processor time. */
#ifndef DDP_BASE_RETRY_H
#define DDP_BASE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

struct retry {
    uint64_t deadline; /* clock.h */
    int wait_ms;       /* 0 before the first try */
};

/* Waits after a try that failed. Returns false, at once, when the deadline has passed. */
bool retry_wait(struct retry *r);

#endif
