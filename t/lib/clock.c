#include "t/lib/clock.h"

#include "runtime/base/clock.h"

time_t clock_ahead_s;
_Thread_local const uint64_t *clock_stands_at;

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    if (id == CLOCK_MONOTONIC && clock_stands_at) {
        uint64_t ns = *clock_stands_at;
        *ret = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
        return 0;
    }
    int rc = __real_clock_gettime(id, ret);
    ret->tv_sec += id == CLOCK_MONOTONIC ? clock_ahead_s : 0;
    return rc;
}
