#include "t/lib/memboot.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/clock.h"

enum { MAX_VALUES = 256, MAX_BYTES = 2048 };

struct value {
    int rank;
    size_t n;
    char key[BOOT_KEY_MAX + 1], data[MAX_BYTES];
};

struct memboot {
    int size;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int n_in_fence, generation;
    size_t n_values;
    struct value values[MAX_VALUES];
};

struct memboot *memboot_create(int size)
{
    struct memboot *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        abort();
    pthread_mutexattr_t ma;
    pthread_condattr_t ca;
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&ca);
    pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, &ma);
    pthread_cond_init(&m->turn, &ca);
    m->size = size;
    return m;
}

void memboot_destroy(struct memboot *m)
{
    munmap(m, sizeof *m);
}

static int mem_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    struct memboot *m = b->state;
    if (n > MAX_BYTES)
        return error_set(errp, DDP_E_BOOT, E2BIG, "memboot: %zu bytes", n);
    pthread_mutex_lock(&m->lock);
    struct value *v = &m->values[m->n_values++];
    v->rank = b->rank;
    v->n = n;
    strncpy(v->key, key, BOOT_KEY_MAX);
    memcpy(v->data, data, n);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

static int mem_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    struct memboot *m = b->state;
    struct timespec t = {.tv_sec = (time_t)(deadline / NS_PER_S), .tv_nsec = (long)(deadline % NS_PER_S)};
    pthread_mutex_lock(&m->lock);
    int generation = m->generation, rc = 0;
    if (++m->n_in_fence == m->size) {
        m->n_in_fence = 0;
        m->generation++;
        pthread_cond_broadcast(&m->turn);
    }
    while (generation == m->generation && rc == 0)
        rc = pthread_cond_timedwait(&m->turn, &m->lock, &t);
    pthread_mutex_unlock(&m->lock);
    return rc == 0 ? 0 : error_set(errp, DDP_E_TIMEOUT, rc, "memboot: not every rank came to the fence");
}

static int mem_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
                   ddp_error_t *errp)
{
    struct memboot *m = b->state;
    int rc = -1;
    (void)deadline;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->n_values && rc < 0; i++) {
        struct value *v = &m->values[i];
        if (v->rank != rank || strcmp(v->key, key) != 0)
            continue;
        *ret_data = malloc(v->n + 1);
        memcpy(*ret_data, v->data, v->n);
        *ret_n = v->n;
        rc = 0;
    }
    pthread_mutex_unlock(&m->lock);
    return rc == 0 ? 0 : error_set(errp, DDP_E_BOOT, ENOENT, "memboot: rank %d has no %s", rank, key);
}

static int mem_close(boot_t *b, ddp_error_t *errp)
{
    (void)b;
    (void)errp;
    return 0;
}

static const struct boot_ops ops = {mem_put, mem_fence, mem_get, mem_close};

boot_t *memboot_open(struct memboot *m, int rank)
{
    boot_t *b = malloc(sizeof *b);
    *b = (boot_t){.ops = &ops, .rank = rank, .size = m->size, .state = m};
    return b;
}
