#define _GNU_SOURCE /* sched_getaffinity */
#include "kernels/model/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define SPINS 2000 /* looks at a variable before sleeping: some 50 us, what lies between two kernels of a step */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t go, done;
    pthread_t worker[POOL_MAX_THREADS];
    int n_threads;           /* 0: not read from the environment yet */
    int n_workers;           /* threads started */
    int n_spins;             /* SPINS, or 0 where threads would take each other's core */
    atomic_int n_busy;       /* workers that have not finished this round */
    atomic_int n_asleep;     /* workers that wait for go; changed under the lock */
    atomic_bool is_asleep;   /* the caller waits for done; changed under the lock */
    atomic_uint_least64_t round; /* a worker runs once per round */
    atomic_bool quit;
    pool_task_f *task;       /* this round's work */
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

static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* takes about as long; "yield" does nothing where a core has one thread */
#endif
}

static bool is_new(uint64_t seen)
{
    return atomic_load(&pool.round) != seen || atomic_load(&pool.quit);
}

/* Whoever goes to sleep says so before it looks a last time, whoever changes something looks for sleepers afterwards:
 * one of the two sees the other. */
static void wait_for_round(uint64_t seen)
{
    for (int i = 0; i < pool.n_spins && !is_new(seen); i++)
        relax();
    if (is_new(seen))
        return;
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.n_asleep, 1);
    while (!is_new(seen))
        pthread_cond_wait(&pool.go, &pool.lock);
    atomic_fetch_sub(&pool.n_asleep, 1);
    pthread_mutex_unlock(&pool.lock);
}

static void wake_workers(void)
{
    if (atomic_load(&pool.n_asleep) == 0)
        return;
    pthread_mutex_lock(&pool.lock);
    pthread_cond_broadcast(&pool.go);
    pthread_mutex_unlock(&pool.lock);
}

static void *work(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (uint64_t seen = 0;;) {
        wait_for_round(seen);
        if (atomic_load(&pool.quit))
            return NULL;
        seen = atomic_load(&pool.round);
        take_tasks(me);
        if (atomic_fetch_sub(&pool.n_busy, 1) == 1 && atomic_load(&pool.is_asleep)) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_signal(&pool.done);
            pthread_mutex_unlock(&pool.lock);
        }
    }
}

static void wait_for_workers(void)
{
    for (int i = 0; i < pool.n_spins && atomic_load(&pool.n_busy) > 0; i++)
        relax();
    if (atomic_load(&pool.n_busy) == 0)
        return;
    pthread_mutex_lock(&pool.lock);
    atomic_store(&pool.is_asleep, true);
    while (atomic_load(&pool.n_busy) > 0)
        pthread_cond_wait(&pool.done, &pool.lock);
    atomic_store(&pool.is_asleep, false);
    pthread_mutex_unlock(&pool.lock);
}

/* Is there a core for every thread? A process bound to some of the machine's cores has them for itself; unbound ones
 * share them with the node's other ranks. */
static bool have_cores(int n_threads)
{
    cpu_set_t set;
    const char *text = getenv("LOCAL_WORLD_SIZE");
    long n_ranks = text ? strtol(text, NULL, 10) : 1;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return false;
    if (CPU_COUNT(&set) < sysconf(_SC_NPROCESSORS_ONLN) || n_ranks < 1)
        n_ranks = 1;
    return n_threads * n_ranks <= CPU_COUNT(&set);
}

/* A thread that cannot be had is no error: the others take its tasks. */
static void start_workers(void)
{
    atomic_store(&pool.round, 0);
    pool.n_spins = have_cores(pool_threads()) ? SPINS : 0;
    while (pool.n_workers < pool_threads() - 1 &&
           !pthread_create(&pool.worker[pool.n_workers], NULL, work, (void *)(intptr_t)(pool.n_workers + 1)))
        pool.n_workers++;
}

void pool_set_threads(int n)
{
    atomic_store(&pool.quit, true);
    wake_workers();
    for (int i = 0; i < pool.n_workers; i++)
        pthread_join(pool.worker[i], NULL);
    pool.n_workers = 0;
    atomic_store(&pool.quit, false);
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
    pool.task = task;
    pool.arg = arg;
    pool.n_tasks = n_tasks;
    atomic_store(&pool.n_busy, pool.n_workers);
    atomic_store(&pool.next, 0);
    atomic_fetch_add(&pool.round, 1);
    wake_workers();
    take_tasks(0);
    wait_for_workers();
}
