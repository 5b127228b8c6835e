#include "runtime/ckpt/copier.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/thread.h"
#include "runtime/ckpt/copy.h"

struct copier {
    struct writer_source source;
    struct copy_job job;
    uint64_t *sum; /* [n_tensors] */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_leaving;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool is_copying;
    struct writer_target target;
    double cpu_s;
};

static double thread_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void copy(copier_t *c)
{
    double began = thread_s();
    int rc = copy_pieces(&c->job, c->target.memory, c->sum, NULL);
    if (rc == 0 && !atomic_load(&c->is_leaving))
        c->target.copied(c->target.ctx, c->sum);
    c->cpu_s = thread_s() - began;
}

static void *run(void *arg)
{
    copier_t *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!atomic_load(&c->is_leaving)) {
        if (!c->is_copying) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        copy(c);
        pthread_mutex_lock(&c->lock);
        c->is_copying = false;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

copier_t *copier_create(const struct snapshot *plan, size_t n_tensors, const struct writer_source *source,
                        ddp_error_t *errp)
{
    copier_t *c = calloc(1, sizeof *c);
    if (!c) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a copier");
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    if (source)
        c->source = *source;
    c->job = (struct copy_job){plan, &c->source, n_tensors, &c->is_leaving};
    c->sum = calloc(n_tensors + 1, sizeof *c->sum);
    int rc = c->sum ? thread_start(&c->thread, run, c) : ENOMEM;
    c->has_thread = rc == 0;
    if (rc == 0)
        return c;
    error_set(errp, DDP_E_SYSTEM, rc, "no thread to copy snapshots " THREAD_LIMITS ": %s", strerror(rc));
    copier_destroy(c);
    return NULL;
}

void copier_destroy(copier_t *c)
{
    if (!c)
        return;
    int saved = errno;
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->is_leaving, true);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (c->has_thread)
        pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->sum);
    free(c);
    errno = saved;
}

void copier_start(copier_t *c, const struct writer_target *target)
{
    pthread_mutex_lock(&c->lock);
    c->target = *target;
    c->is_copying = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void copier_wait(copier_t *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->is_copying)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

double copier_cpu_s(const copier_t *c)
{
    return c->cpu_s;
}
