#include "runtime/base/thread.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "runtime/base/clock.h"

int thread_start(pthread_t *ret, void *(*f)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(ret, NULL, f, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e)
        errno = e;
    return e;
}

void thread_cond_init(pthread_cond_t *ret)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(ret, &attr);
    pthread_condattr_destroy(&attr);
}

int thread_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t deadline)
{
    struct timespec t = {.tv_sec = (time_t)(deadline / NS_PER_S), .tv_nsec = (long)(deadline % NS_PER_S)};
    return pthread_cond_timedwait(c, lock, &t);
}
