#include "runtime/comm/idle.h"

#include <errno.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"

/* A work that nobody drives may lose two of the longest; 32 of them take 0.1 s, in which the thread of a program that
 * calls ten times a second is never woken. */
enum { LOOKS = 32, LOOK_NS = 100000, LOOK_NS_MAX = 3200000 };

void idle_init(struct idle *i)
{
    *i = (struct idle){.ns = LOOK_NS};
    pthread_mutex_init(&i->lock, NULL);
    thread_cond_init(&i->changed);
}

void idle_clear(struct idle *i)
{
    pthread_cond_destroy(&i->changed);
    pthread_mutex_destroy(&i->lock);
}

void idle_wake(struct idle *i)
{
    pthread_mutex_lock(&i->lock);
    i->is_called = true;
    pthread_cond_signal(&i->changed);
    pthread_mutex_unlock(&i->lock);
}

void idle_wake_soon(struct idle *i)
{
    pthread_mutex_lock(&i->lock);
    i->looks = LOOKS;
    if (!i->is_looking)
        pthread_cond_signal(&i->changed);
    pthread_mutex_unlock(&i->lock);
}

/* Has it been time for a look? */
static bool wait_for_look(struct idle *i)
{
    if (i->looks == 0) {
        pthread_cond_wait(&i->changed, &i->lock);
        return false;
    }
    i->is_looking = true;
    int rc = thread_wait_until(&i->changed, &i->lock, clock_ns() + i->ns);
    i->is_looking = false;
    return rc == ETIMEDOUT;
}

void idle_wait(struct idle *i, bool (*is_left)(void *arg), void *arg)
{
    bool has_found = false;
    pthread_mutex_lock(&i->lock);
    while (!i->is_called && !has_found) {
        if (!wait_for_look(i))
            continue;
        i->looks--;
        has_found = is_left(arg);
        if (has_found)
            i->ns = LOOK_NS;
        else if (i->ns < LOOK_NS_MAX)
            i->ns *= 2;
    }
    i->is_called = false;
    pthread_mutex_unlock(&i->lock);
}
