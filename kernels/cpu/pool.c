#include "kernels/cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t go, done;
    pthread_t worker[POOL_MAX_THREADS];
    int n_threads;       /* 0: not read from the environment yet */
    int n_workers;       /* threads started */
    int n_busy;          /* workers that have not finished this round */
    uint64_t round;      /* a worker runs once per round */
    bool quit;
    pool_task_f *task;   /* this round's work */
    void *arg;
    size_t n_tasks;
    atomic_size_t next;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .go = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static int threads_wanted(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    char *end;
    long n = text ? strtol(text, &end, 10) : 1;
    if (n < 1 || (text && *end && *end != ','))
        return 1;
    return n > POOL_MAX_THREADS ? POOL_MAX_THREADS : (int)n;
}

int pool_threads(void)
{
    if (!pool.n_threads)
        pool.n_threads = threads_wanted();
    return pool.n_threads;
}

static void take_tasks(int worker)
{
    for (;;) {
        size_t i = atomic_fetch_add(&pool.next, 1);
        if (i >= pool.n_tasks)
            return;
        pool.task(pool.arg, i, worker);
    }
}

static void *work(void *arg)
{
    int me = (int)(intptr_t)arg;
    pthread_mutex_lock(&pool.lock);
    for (uint64_t seen = 0;;) {
        while (pool.round == seen && !pool.quit)
            pthread_cond_wait(&pool.go, &pool.lock);
        if (pool.quit)
            break;
        seen = pool.round;
        pthread_mutex_unlock(&pool.lock);
        take_tasks(me);
        pthread_mutex_lock(&pool.lock);
        if (--pool.n_busy == 0)
            pthread_cond_signal(&pool.done);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* A thread that cannot be had is no error: the others take its tasks. */
static void start_workers(void)
{
    pool.round = 0;
    while (pool.n_workers < pool_threads() - 1 &&
           !pthread_create(&pool.worker[pool.n_workers], NULL, work, (void *)(intptr_t)(pool.n_workers + 1)))
        pool.n_workers++;
}

void pool_set_threads(int n)
{
    pthread_mutex_lock(&pool.lock);
    pool.quit = true;
    pthread_cond_broadcast(&pool.go);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.n_workers; i++)
        pthread_join(pool.worker[i], NULL);
    pool.n_workers = 0;
    pool.quit = false;
    pool.n_threads = n < 1 ? 1 : n > POOL_MAX_THREADS ? POOL_MAX_THREADS : n;
}

void pool_run(size_t n_tasks, pool_task_f *task, void *arg)
{
    if (n_tasks > 1 && pool_threads() > 1 && pool.n_workers == 0)
        start_workers();
    if (n_tasks <= 1 || pool.n_workers == 0) {
        for (size_t i = 0; i < n_tasks; i++)
            task(arg, i, 0);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    pool.task = task;
    pool.arg = arg;
    pool.n_tasks = n_tasks;
    pool.n_busy = pool.n_workers;
    atomic_store(&pool.next, 0);
    pool.round++;
    pthread_cond_broadcast(&pool.go);
    pthread_mutex_unlock(&pool.lock);
    take_tasks(0);
    pthread_mutex_lock(&pool.lock);
    while (pool.n_busy > 0)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}
