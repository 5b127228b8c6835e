#include "runtime/base/clock.h"

#include <time.h>

uint64_t clock_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t deadline_in(double seconds)
{
    double wait_s = seconds > 0 ? seconds : 0;
    return clock_ns() + (uint64_t)((wait_s < DEADLINE_MAX_S ? wait_s : DEADLINE_MAX_S) * (double)NS_PER_S);
}

uint64_t deadline_left_ns(uint64_t when)
{
    uint64_t now = clock_ns();
    return when > now ? when - now : 0;
}

int deadline_left_ms(uint64_t when)
{
    uint64_t ms = (deadline_left_ns(when) + NS_PER_MS - 1) / NS_PER_MS;
    return ms > 3600000 ? 3600000 : (int)ms;
}

bool deadline_is_past(uint64_t when)
{
    return when && deadline_left_ns(when) == 0;
}
