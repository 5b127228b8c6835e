#include <config.h> /* pthread_clockjoin_np */

#include "runtime/ckpt/writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"
#include "runtime/ckpt/copy.h"
#include "runtime/ckpt/outfile.h"
#include "runtime/ckpt/snapshot.h"

#define MEMORY_ALIGN ((size_t)2 << 20) /* a huge page */
#define WRITE_BYTES ((size_t)16 << 20)
#define LARGEST_PAGE 65536 /* a write ends with a page, whatever its size */

struct ckpt_writer {
    const struct files *files;
    struct snapshot plan;
    struct writer_source source; /* fetch NULL: none */
    char *memory; /* the writer's own, or NULL */
    struct writer_target target; /* of the present save, and: */
    struct writer_folder folder;
    uint64_t *sum; /* [n_tensors] */
    struct savedir dir; /* the thread's: open while it writes */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_leaving;
    _Atomic uint64_t progress;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    _Atomic enum writer_state state; /* read without the lock too */
    bool has_heads;
    struct writer_times times;
    ddp_error_t error;
};

static void set_state(ckpt_writer_t *w, enum writer_state state)
{
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->state, state);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* ---- the thread ---- */

static int copy(ckpt_writer_t *w, ddp_error_t *errp)
{
    uint64_t began = clock_ns();
    const struct copy_job job = {&w->plan, &w->source, w->files->n_tensors, &w->is_leaving};
    int rc = copy_pieces(&job, w->target.memory, w->sum, errp);
    w->times.copy_s = (double)(clock_ns() - began) / 1e9;
    if (rc == 0 && w->target.copied && !atomic_load(&w->is_leaving))
        w->target.copied(w->target.ctx, w->sum);
    return rc;
}

static int write_run(ckpt_writer_t *w, struct outfile *out, const struct snapshot_run *run, ddp_error_t *errp)
{
    const char *from = w->target.memory + run->offset;
    for (size_t at = 0, n; at < run->n; at += n) {
        n = run->n - at < WRITE_BYTES ? run->n - at : WRITE_BYTES - (run->at + at) % LARGEST_PAGE;
        if (atomic_load(&w->is_leaving))
            return error_set(errp, DDP_E_USAGE, ECANCELED, "the job ends");
        if (outfile_write(out, from + at, n, run->at + at, errp) < 0)
            return -1;
        atomic_fetch_add(&w->progress, n);
    }
    return 0;
}

/* This rank's part of file i, whose first run is *at; leaves *at behind its last. */
static int write_file(ckpt_writer_t *w, int i, size_t *at, ddp_error_t *errp)
{
    const struct files_file *file = &w->files->file[i];
    const struct snapshot_run *run = w->plan.run;
    size_t first = *at;
    struct outfile out;
    while (*at < w->plan.n_runs && run[*at].file == i)
        ++*at;
    if (*at == first && !w->has_heads)
        return 0;
    if (outfile_open(&out, &w->dir, file->name, file->n_bytes, errp) < 0)
        return -1;
    int rc = w->has_heads ? outfile_write(&out, file->head, file->head_bytes, 0, errp) : 0;
    for (size_t r = first; rc == 0 && r < *at; r++)
        rc = write_run(w, &out, &run[r], errp);
    if (rc < 0) {
        outfile_drop(&out);
        return -1;
    }
    rc = outfile_close(&out, errp);
    atomic_fetch_add(&w->progress, 1);
    return rc;
}

static int write_small(const ckpt_writer_t *w, ddp_error_t *errp)
{
    for (int i = 0; w->has_heads && i < w->files->n_small; i++) {
        const struct files_small *s = &w->files->small[i];
        struct outfile out;
        if (outfile_open(&out, &w->dir, s->name, s->n_bytes, errp) < 0)
            return -1;
        if (outfile_write(&out, s->text, s->n_bytes, 0, errp) < 0) {
            outfile_drop(&out);
            return -1;
        }
        if (outfile_close(&out, errp) < 0)
            return -1;
    }
    return 0;
}

static int write_all(ckpt_writer_t *w, ddp_error_t *errp)
{
    uint64_t began = clock_ns();
    size_t at = 0;
    int rc = w->folder.enter(w->folder.ctx, &w->dir, errp);
    if (rc == 0)
        atomic_fetch_add(&w->progress, 1);
    for (int i = 0; rc == 0 && i < w->files->n_files; i++)
        rc = write_file(w, i, &at, errp);
    if (rc == 0)
        rc = write_small(w, errp);
    savedir_close(&w->dir);
    w->times.write_s = (double)(clock_ns() - began) / 1e9;
    return rc;
}

static void *run(void *arg)
{
    ckpt_writer_t *w = arg;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        while (atomic_load(&w->state) != WRITER_COPYING && !atomic_load(&w->is_leaving))
            pthread_cond_wait(&w->changed, &w->lock);
        pthread_mutex_unlock(&w->lock);
        if (atomic_load(&w->is_leaving))
            return NULL;
        int rc = copy(w, &w->error);
        if (rc == 0) {
            set_state(w, WRITER_WRITING);
            rc = write_all(w, &w->error);
        }
        set_state(w, rc < 0 ? WRITER_FAILED : WRITER_WRITTEN);
    }
}

static int start_thread(ckpt_writer_t *w, ddp_error_t *errp)
{
    int rc = thread_start(&w->thread, run, w);
    w->has_thread = rc == 0;
    return rc == 0 ? 0 : error_set(errp, DDP_E_SYSTEM, rc, "no thread to write checkpoints " THREAD_LIMITS ": %s",
                                        strerror(rc));
}

/* ---- the caller ---- */

static size_t round_up(size_t n)
{
    return (n / MEMORY_ALIGN + 1) * MEMORY_ALIGN;
}

size_t writer_bytes(const struct files *f, const struct writer_piece *piece, size_t n)
{
    struct snapshot s;
    if (snapshot_plan(&s, f, piece, n, NULL) < 0)
        return SIZE_MAX;
    size_t bytes = round_up(s.n_bytes);
    snapshot_clear(&s);
    return bytes;
}

static int allocate(ckpt_writer_t *w, bool has_memory, ddp_error_t *errp)
{
    size_t bytes = round_up(w->plan.n_bytes);
    w->sum = calloc(w->files->n_tensors + 1, sizeof *w->sum);
    if (w->sum && !has_memory)
        return 0;
    w->memory = aligned_alloc(MEMORY_ALIGN, bytes);
    if (!w->sum || !w->memory)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a snapshot of %zu bytes", bytes);
    madvise(w->memory, bytes, MADV_HUGEPAGE); /* a wish */
    memset(w->memory, 0, bytes);
    return 0;
}

ckpt_writer_t *writer_create(const struct files *f, const struct writer_piece *piece, size_t n,
                             const struct writer_source *source, bool has_memory, ddp_error_t *errp)
{
    ckpt_writer_t *w = calloc(1, sizeof *w);
    if (!w) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a writer");
        return NULL;
    }
    thread_cond_init(&w->changed);
    pthread_mutex_init(&w->lock, NULL);
    w->files = f;
    w->dir.fd = -1;
    if (source)
        w->source = *source;
    if (snapshot_plan(&w->plan, f, piece, n, errp) < 0 || allocate(w, has_memory, errp) < 0 ||
        start_thread(w, errp) < 0) {
        writer_destroy(w);
        return NULL;
    }
    w->times.n_bytes = w->plan.data_bytes;
    return w;
}

int writer_end(ckpt_writer_t *w, uint64_t deadline)
{
    struct timespec until = {(time_t)(deadline / NS_PER_S), (long)(deadline % NS_PER_S)};
    if (!w->has_thread)
        return 0;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->is_leaving, true);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (pthread_clockjoin_np(w->thread, NULL, CLOCK_MONOTONIC, &until) != 0)
        return -1;
    w->has_thread = false;
    return 0;
}

void writer_destroy(ckpt_writer_t *w)
{
    if (!w)
        return;
    int saved = errno;
    while (writer_end(w, deadline_in(60)) < 0)
        ;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    snapshot_clear(&w->plan);
    free(w->memory);
    free(w->sum);
    free(w);
    errno = saved;
}

int writer_start(ckpt_writer_t *w, const struct writer_folder *folder, bool has_heads,
                 const struct writer_target *target, ddp_error_t *errp)
{
    if (writer_state(w) != WRITER_IDLE)
        return error_set(errp, DDP_E_USAGE, EBUSY, "a checkpoint is being written already");
    w->folder = *folder;
    w->has_heads = has_heads;
    w->target = target ? *target : (struct writer_target){.memory = w->memory};
    w->times = (struct writer_times){.n_bytes = w->times.n_bytes};
    w->error = (ddp_error_t){0};
    set_state(w, WRITER_COPYING);
    return 0;
}

enum writer_state writer_state(const ckpt_writer_t *w)
{
    return atomic_load(&w->state);
}

uint64_t writer_progress(const ckpt_writer_t *w)
{
    return atomic_load(&w->progress);
}

void writer_wait_copied(ckpt_writer_t *w)
{
    if (writer_state(w) != WRITER_COPYING)
        return;
    uint64_t began = clock_ns();
    pthread_mutex_lock(&w->lock);
    while (atomic_load(&w->state) == WRITER_COPYING)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    w->times.waited_s += (double)(clock_ns() - began) / 1e9;
}

int writer_wait(ckpt_writer_t *w, uint64_t deadline, ddp_error_t *errp)
{
    int rc = 0;
    pthread_mutex_lock(&w->lock);
    while ((atomic_load(&w->state) == WRITER_COPYING || atomic_load(&w->state) == WRITER_WRITING) && rc == 0)
        rc = thread_wait_until(&w->changed, &w->lock, deadline);
    bool is_busy = atomic_load(&w->state) == WRITER_COPYING || atomic_load(&w->state) == WRITER_WRITING;
    pthread_mutex_unlock(&w->lock);
    if (is_busy)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "this rank's part was not written in time");
    return 0;
}

const uint64_t *writer_sums(const ckpt_writer_t *w)
{
    return w->sum;
}

const ddp_error_t *writer_error(const ckpt_writer_t *w)
{
    return &w->error;
}

void writer_reset(ckpt_writer_t *w)
{
    set_state(w, WRITER_IDLE);
}

void writer_times(const ckpt_writer_t *w, struct writer_times *ret)
{
    *ret = w->times;
}
