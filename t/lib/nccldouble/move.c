/* collectives.c - how the double moves data: through a mapped file, in chunks, with barriers. Simple and slow. */
#include "t/lib/nccldouble/double.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels/reduce.h"

enum { SLOT = 64 << 10, LETTER = 16 << 10, MAX_RANKS = 64 };

struct letter { /* from one rank to another; n > 0: full */
    _Atomic size_t n;
    char data[LETTER];
};

struct shared {
    _Atomic int joined;
    _Atomic uint64_t turn[MAX_RANKS]; /* how many barriers a rank has come to */
    char slot[MAX_RANKS][SLOT];
    struct letter letter[MAX_RANKS][MAX_RANKS]; /* [from][to] */
};

struct mapped {
    struct shared *shared;
    int rank, size;
    const atomic_bool *is_aborted;
    bool was_whole;
    char path[512];
};

static const struct {
    const char *name;
    enum ddp_dtype ours;
    size_t size;
} types[ncclNumTypes] = {
    [ncclInt32] = {"int32", DDP_I32, 4},     [ncclInt64] = {"int64", DDP_I64, 8},
    [ncclFloat16] = {"float16", DDP_F16, 2}, [ncclBfloat16] = {"bfloat16", DDP_BF16, 2},
    [ncclFloat32] = {"float32", DDP_F32, 4}, [ncclFloat64] = {"float64", DDP_F64, 8},
};

size_t type_size(ncclDataType_t t)
{
    return types[t].size;
}

const char *type_name(ncclDataType_t t)
{
    return types[t].name;
}

static void path_of(const char *name, char *buf, size_t size)
{
    const char *dir = getenv("NCCLDOUBLE_DIR");
    dir = dir ? dir : getenv("TMPDIR");
    snprintf(buf, size, "%s/%s", dir ? dir : "/tmp", name);
}

bool mapped_create(const char *name)
{
    char path[512], own[560];
    path_of(name, path, sizeof path);
    snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
    int fd = open(own, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0 && link(own, path) == 0; /* it appears whole */
    close(fd);
    unlink(own);
    return ok;
}

struct mapped *mapped_open(const char *name, int rank, int size, const atomic_bool *is_aborted)
{
    struct mapped *m = calloc(1, sizeof *m);
    path_of(name, m->path, sizeof m->path);
    int fd = open(m->path, O_RDWR | O_CLOEXEC);
    void *at = fd < 0 || size > MAX_RANKS
                   ? MAP_FAILED
                   : mmap(NULL, sizeof *m->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) {
        free(m);
        return NULL;
    }
    m->shared = at;
    m->rank = rank;
    m->size = size;
    m->is_aborted = is_aborted;
    if (atomic_fetch_add(&m->shared->joined, 1) == size - 1)
        unlink(m->path);
    return m;
}

void mapped_close(struct mapped *m)
{
    if (!m)
        return;
    munmap(m->shared, sizeof *m->shared);
    free(m);
}

bool mapped_all_joined(struct mapped *m)
{
    return atomic_load(&m->shared->joined) >= m->size;
}

/* false: aborted */
static bool breathe(const struct mapped *m)
{
    struct timespec t = {.tv_nsec = 20000};
    nanosleep(&t, NULL);
    return !atomic_load(m->is_aborted);
}

static bool barrier(struct mapped *m)
{
    uint64_t mine = atomic_fetch_add(&m->shared->turn[m->rank], 1) + 1;
    for (int r = 0; r < m->size; r++)
        while (atomic_load(&m->shared->turn[r]) < mine)
            if (!breathe(m))
                return false;
    return true;
}

bool mapped_same(struct mapped *m, uint64_t number)
{
    bool is_same = true;
    memcpy(m->shared->slot[m->rank], &number, sizeof number);
    if (!barrier(m))
        return false;
    for (int r = 0; r < m->size; r++)
        is_same = is_same && !memcmp(m->shared->slot[r], &number, sizeof number);
    return barrier(m) && is_same;
}

/* out[0..n) = the sum over the ranks of what is in their slots, in float32 where that is needed, rank 0 first. */
static void sum_slots(struct mapped *m, void *out, size_t n_bytes, ncclDataType_t t)
{
    const void *in[MAX_RANKS];
    bool is_back = getenv("NCCLDOUBLE_BACKWARDS");
    for (int r = 0; r < m->size; r++)
        in[r] = m->shared->slot[is_back ? m->size - 1 - r : r];
    kernel_reduce_tree(&out, 1, in, m->size, n_bytes / types[t].size, types[t].ours, DDP_SUM);
}

/* Every rank in `from` shows n_bytes at `in`; then use() takes them, chunk by chunk. */
typedef void use_f(struct mapped *m, const struct op *o, size_t at, size_t n);

static bool show(struct mapped *m, const struct op *o, const char *in, size_t n_bytes, use_f *use)
{
    for (size_t at = 0, n; at < n_bytes; at += n) {
        n = n_bytes - at < SLOT ? n_bytes - at : SLOT;
        if (in)
            memcpy(m->shared->slot[m->rank], in + at, n);
        if (!barrier(m))
            return false;
        use(m, o, at, n);
        if (!barrier(m))
            return false;
    }
    return true;
}

static void use_sum(struct mapped *m, const struct op *o, size_t at, size_t n)
{
    if (o->out)
        sum_slots(m, (char *)o->out + at, n, o->type);
}

static void use_all(struct mapped *m, const struct op *o, size_t at, size_t n)
{
    for (int r = 0; r < m->size; r++)
        memcpy((char *)o->out + (size_t)r * o->n * types[o->type].size + at, m->shared->slot[r], n);
}

static void use_root(struct mapped *m, const struct op *o, size_t at, size_t n)
{
    memcpy((char *)o->out + at, m->shared->slot[o->peer], n);
}

/* What symmetric kernels take for granted. */
static void check_offset(ncclComm_t c, const struct op *o)
{
    const void *at = o->kind == ALLGATHER ? o->out : o->in;
    if (atomic_load(&c->n_registered) > 0 && o->kind != BROADCAST &&
        !mapped_same(c->mapped, (uint64_t)memory_offset(c, at)) && !atomic_load(&c->is_aborted)) {
        script_say(ncclInvalidUsage, "an operation begins at different offsets of a window");
        atomic_store(&c->async_code, ncclInvalidUsage);
    }
}

static void move_collective(struct mapped *m, const struct op *o)
{
    size_t n = o->n * types[o->type].size;
    if (o->kind == ALLREDUCE)
        show(m, o, o->in, n, use_sum);
    else if (o->kind == ALLGATHER)
        show(m, o, o->in, n, use_all);
    else if (o->kind == BROADCAST)
        show(m, o, m->rank == o->peer ? o->in : NULL, n, use_root);
    for (int r = 0; o->kind == REDUCE_SCATTER && r < m->size; r++) {
        struct op part = *o;
        part.out = r == m->rank ? o->out : NULL;
        if (!show(m, &part, (const char *)o->in + (size_t)r * n, n, use_sum))
            return;
    }
}

/* Moves a letter of a SEND or RECV if there is room, or one has come. */
static void move_letter(struct mapped *m, struct op *o)
{
    size_t left = o->n * types[o->type].size - o->done, n = left < LETTER ? left : LETTER;
    bool is_send = o->kind == SEND;
    struct letter *l = is_send ? &m->shared->letter[m->rank][o->peer] : &m->shared->letter[o->peer][m->rank];
    if ((atomic_load(&l->n) == 0) != is_send)
        return;
    if (is_send)
        memcpy(l->data, (const char *)o->in + o->done, n);
    else
        memcpy((char *)o->out + o->done, l->data, n);
    atomic_store(&l->n, is_send ? n : 0);
    o->done += n;
}

static bool is_over(const struct op *o)
{
    return o->done == o->n * types[o->type].size;
}

/* Is there an unfinished one before it, of the same kind with the same peer? */
static bool is_behind(const struct op *ops, const struct op *o)
{
    for (; ops != o; ops = ops->next)
        if (ops->kind == o->kind && ops->peer == o->peer && !is_over(ops))
            return true;
    return false;
}

void move_group(ncclComm_t c, struct op *ops)
{
    struct mapped *m = c->mapped;
    bool is_busy = true;
    for (struct op *o = ops; o; o = o->next) {
        if (o->kind == WINDOW)
            memory_window(c, o);
        if (o->kind >= WINDOW || atomic_load(m->is_aborted))
            continue;
        check_offset(c, o);
        if (!atomic_load(m->is_aborted)) /* else others would take what it shows for its offset */
            move_collective(m, o);
    }
    while (is_busy && !atomic_load(m->is_aborted)) {
        is_busy = false;
        for (struct op *o = ops; o; o = o->next) {
            if (o->kind < SEND || is_over(o))
                continue;
            if (!is_behind(ops, o))
                move_letter(m, o);
            is_busy = is_busy || !is_over(o);
        }
        if (is_busy)
            breathe(m);
    }
}
