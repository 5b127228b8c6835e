#include "runtime/base/thread.h"

#include <errno.h>
#include <signal.h>

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
