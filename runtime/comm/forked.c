#include "runtime/comm/forked.h"

#include <pthread.h>

#include "runtime/comm/wireup.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held over a fork: the child finds the list whole */
static comm_t *first;

static void begin_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void go_on(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child may do what a signal handler may: other threads' locks and memory stay as they were. */
static void in_child(void)
{
    for (comm_t *c = first; c; c = c->next_heeded) {
        c->is_parents = true;
        tcp_disown(c->tcp);
        watch_disown(c->watch);
        shm_disown(&c->shm);
    }
    go_on();
}

static void install(void)
{
    pthread_atfork(begin_fork, go_on, in_child);
}

void forked_heed(comm_t *c)
{
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    c->next_heeded = first;
    first = c;
    pthread_mutex_unlock(&lock);
}

bool comm_is_parents(const comm_t *c)
{
    return c && c->is_parents;
}

void forked_forget(comm_t *c)
{
    pthread_mutex_lock(&lock);
    for (comm_t **p = &first; *p; p = &(*p)->next_heeded)
        if (*p == c) {
            *p = c->next_heeded;
            break;
        }
    pthread_mutex_unlock(&lock);
}
