#include "runtime/base/call.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "runtime/base/thread.h"

/* The caller and the thread both hold it; the last one to let go frees it. */
struct call {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool is_done, is_left; /* by the thread, by the caller */
    call_f *f, *drop;
    void *state;
};

static void call_destroy(struct call *c)
{
    pthread_cond_destroy(&c->cond);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static struct call *call_create(call_f *f, call_f *drop, void *state)
{
    struct call *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c = (struct call){.f = f, .drop = drop, .state = state};
    pthread_mutex_init(&c->lock, NULL);
    thread_cond_init(&c->cond);
    return c;
}

static void *run(void *arg)
{
    struct call *c = arg;
    c->f(c->state);
    pthread_mutex_lock(&c->lock);
    bool is_left = c->is_left;
    c->is_done = true;
    pthread_cond_signal(&c->cond);
    pthread_mutex_unlock(&c->lock);
    if (is_left) {
        c->drop(c->state);
        free(c->state);
        call_destroy(c);
    }
    return NULL;
}

/* Whether the call has returned. */
static bool wait_done(struct call *c, uint64_t deadline)
{
    pthread_mutex_lock(&c->lock);
    while (!c->is_done && thread_wait_until(&c->cond, &c->lock, deadline) == 0)
        ;
    bool is_done = c->is_done;
    c->is_left = !is_done;
    pthread_mutex_unlock(&c->lock);
    return is_done;
}

int call_within(call_f *f, call_f *drop, void *state, uint64_t deadline, ddp_error_t *errp)
{
    pthread_t thread;
    struct call *c = call_create(f, drop, state);
    if (!c || thread_start(&thread, run, c) != 0) {
        error_errno(errp, "a thread for a call with a deadline " THREAD_LIMITS);
        if (c)
            call_destroy(c);
        return -1;
    }
    if (!wait_done(c, deadline)) {
        pthread_detach(thread);
        return 1;
    }
    pthread_join(thread, NULL);
    call_destroy(c);
    return 0;
}
