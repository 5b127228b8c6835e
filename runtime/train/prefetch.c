#include "runtime/train/prefetch.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/thread.h"

enum state { IDLE, STARTED, DONE };

struct prefetch {
    const tokens_t *tokens;
    size_t max, window, vocab;
    int32_t *taken, *filled; /* [max, window]; filled is the thread's while STARTED */
    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t started, done;
    enum state state;
    bool is_ending;
    uint64_t *first; /* [n] windows of filled */
    size_t n;
    int rc; /* of reading them, and why */
    ddp_error_t error;
};

static bool is_ending(prefetch_t *p)
{
    pthread_mutex_lock(&p->lock);
    bool ending = p->is_ending;
    pthread_mutex_unlock(&p->lock);
    return ending;
}

/* The device gets all requests before anyone waits for the first. */
static void ask(const prefetch_t *p, const uint64_t *first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tokens_ahead(p->tokens, first[i], p->window);
}

static int read_window(const prefetch_t *p, uint64_t first, size_t i, int32_t *to, ddp_error_t *errp)
{
    return tokens_copy(p->tokens, first, p->window, p->vocab, to + i * p->window, errp);
}

static int fill(prefetch_t *p, ddp_error_t *errp)
{
    ask(p, p->first, p->n);
    for (size_t i = 0; i < p->n && !is_ending(p); i++)
        if (read_window(p, p->first[i], i, p->filled, errp) < 0)
            return -1;
    return 0;
}

static void *thread_main(void *ctx)
{
    prefetch_t *p = ctx;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->state != STARTED && !p->is_ending)
            pthread_cond_wait(&p->started, &p->lock);
        if (p->is_ending)
            break;
        pthread_mutex_unlock(&p->lock);
        ddp_error_t error = {0};
        int rc = fill(p, &error);
        pthread_mutex_lock(&p->lock);
        p->rc = rc;
        p->error = error;
        p->state = DONE;
        pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int start_thread(prefetch_t *p, ddp_error_t *errp)
{
    p->is_running = thread_start(&p->thread, thread_main, p) == 0;
    return p->is_running ? 0 : error_errno(errp, "no thread to read data with " THREAD_LIMITS);
}

prefetch_t *prefetch_create(const tokens_t *tokens, size_t max, size_t window, size_t vocab, ddp_error_t *errp)
{
    prefetch_t *p = calloc(1, sizeof *p);
    if (!p) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to read data into");
        return NULL;
    }
    *p = (struct prefetch){.tokens = tokens, .max = max, .window = window, .vocab = vocab};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->started, NULL);
    pthread_cond_init(&p->done, NULL);
    p->taken = calloc(max, window * sizeof *p->taken);
    p->filled = calloc(max, window * sizeof *p->filled);
    p->first = calloc(max, sizeof *p->first);
    int rc = p->taken && p->filled && p->first ? start_thread(p, errp)
                                               : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu samples: "
                                                           "take a smaller --batch", max);
    if (rc == 0)
        return p;
    prefetch_destroy(p);
    return NULL;
}

void prefetch_destroy(prefetch_t *p)
{
    int saved = errno;
    if (p && p->is_running) {
        pthread_mutex_lock(&p->lock);
        p->is_ending = true;
        pthread_cond_signal(&p->started);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    if (p) {
        pthread_cond_destroy(&p->started);
        pthread_cond_destroy(&p->done);
        pthread_mutex_destroy(&p->lock);
        free(p->taken);
        free(p->filled);
        free(p->first);
        free(p);
    }
    errno = saved;
}

/* With the lock held: the thread is not filling. */
static void wait_filled(prefetch_t *p)
{
    while (p->state == STARTED)
        pthread_cond_wait(&p->done, &p->lock);
}

void prefetch_start(prefetch_t *p, const uint64_t *first, size_t n)
{
    pthread_mutex_lock(&p->lock);
    wait_filled(p);
    memcpy(p->first, first, n * sizeof *first);
    p->n = n;
    p->state = STARTED;
    pthread_cond_signal(&p->started);
    pthread_mutex_unlock(&p->lock);
}

/* Are first[0..n) what the thread has filled? Then it is the caller's. */
static bool take_filled(prefetch_t *p, const uint64_t *first, size_t n, int *ret_rc, ddp_error_t *errp)
{
    pthread_mutex_lock(&p->lock);
    wait_filled(p);
    bool is_it = p->state == DONE && p->n == n && !memcmp(p->first, first, n * sizeof *first);
    p->state = IDLE;
    if (is_it) {
        int32_t *taken = p->taken;
        p->taken = p->filled;
        p->filled = taken;
        *ret_rc = p->rc;
        if (p->rc < 0 && errp)
            *errp = p->error;
    }
    pthread_mutex_unlock(&p->lock);
    return is_it;
}

int prefetch_take(prefetch_t *p, const uint64_t *first, size_t n, const int32_t **ret, ddp_error_t *errp)
{
    int rc = 0;
    if (!take_filled(p, first, n, &rc, errp)) {
        ask(p, first, n);
        for (size_t i = 0; i < n && rc == 0; i++)
            rc = read_window(p, first[i], i, p->taken, errp);
    }
    if (rc == 0)
        *ret = p->taken;
    return rc;
}
