/* memory.c - the double's "device memory": pages at addresses of their own, with one behind that nobody may touch; and
 * what communicators have registered of it. */
#include <config.h> /* MAP_FIXED_NOREPLACE */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "t/lib/cudaemu/foreign.h"
#include "t/lib/nccldouble/double.h"

enum { PAGE = 65536 }; /* or smaller: what is protected begins and ends with one */

struct block { /* lies before the memory, and is the handle or window of what is registered */
    struct block *next;
    size_t n_bytes, n_all; /* n_all: of all pages */
    ncclComm_t comm;       /* where it is registered; NULL: nowhere */
    bool is_window;
};

static struct block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct block *block_of(const void *p)
{
    struct block *b = blocks;
    while (b && (char *)b + PAGE != p)
        b = b->next;
    return b;
}

static void *take(size_t n)
{
    static _Atomic uintptr_t next = CUDAEMU_FOREIGN_BASE;
    size_t inside = PAGE + (n + PAGE - 1) / PAGE * PAGE, all = inside + PAGE;
    void *want = (void *)atomic_fetch_add(&next, all);
    char *p = mmap(want, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    mprotect(p + inside, PAGE, PROT_NONE);
    memset(p + PAGE, 0xff, inside - PAGE); /* NaNs, as device memory may hold */
    struct block *b = (struct block *)(void *)p;
    *b = (struct block){.next = blocks, .n_bytes = n, .n_all = all};
    blocks = b;
    return p + PAGE;
}

static void give(struct block *b)
{
    struct block **at = &blocks;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    munmap(b, b->n_all);
}

ncclResult_t ncclMemAlloc(void **ret, size_t n)
{
    struct answer a = script_call("alloc");
    script_log("alloc %zu", n);
    if (a.what == DO_ERROR)
        return a.n;
    pthread_mutex_lock(&lock);
    *ret = take(n);
    pthread_mutex_unlock(&lock);
    return *ret ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *p)
{
    script_log("free");
    pthread_mutex_lock(&lock);
    struct block *b = block_of(p);
    if (!b || b->comm) { /* nobody asks what a free returns */
        fprintf(stderr, "nccldouble: %p is freed, which is %s\n", p, b ? "still registered" : "not ncclMemAlloc's");
        abort();
    }
    give(b);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/* ---- registration ---- */

/* The memory, where it can be registered now; else NULL, and why. */
static struct block *registrable(ncclComm_t c, const void *p, size_t n)
{
    struct block *b = NULL;
    if (comm_check_ready(c) != ncclSuccess)
        return NULL;
    pthread_mutex_lock(&lock);
    b = block_of(p);
    if (!b || b->comm || n > b->n_bytes) {
        script_say(ncclInvalidArgument, "what is registered is not memory of ncclMemAlloc, or is registered already");
        b = NULL;
    }
    pthread_mutex_unlock(&lock);
    return b;
}

static void set_registered(struct block *b, ncclComm_t c, bool is_window)
{
    pthread_mutex_lock(&lock);
    b->comm = c;
    b->is_window = is_window;
    atomic_fetch_add(&c->n_registered, 1);
    pthread_mutex_unlock(&lock);
}

static ncclResult_t end_registration(ncclComm_t c, struct block *b, bool is_window)
{
    ncclResult_t rc = comm_check_ready(c);
    pthread_mutex_lock(&lock);
    if (rc == ncclSuccess && (!b || b->comm != c || b->is_window != is_window))
        rc = script_say(ncclInvalidUsage, "the end of a registration that there is not");
    if (rc == ncclSuccess) {
        b->comm = NULL;
        atomic_fetch_sub(&c->n_registered, 1);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

ncclResult_t ncclCommRegister(ncclComm_t c, void *p, size_t n, void **handle)
{
    struct answer a = script_call("register");
    script_log("register %zu", n);
    struct block *b = registrable(c, p, n);
    if (!b || a.what == DO_ERROR)
        return b ? (ncclResult_t)a.n : ncclInvalidArgument;
    set_registered(b, c, false);
    *handle = b;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t c, void *handle)
{
    script_log("deregister");
    return end_registration(c, handle, false);
}

void memory_forget(ncclComm_t c)
{
    pthread_mutex_lock(&lock);
    for (struct block *b = blocks; b; b = b->next)
        b->comm = b->comm == c ? NULL : b->comm;
    pthread_mutex_unlock(&lock);
}

/* ---- windows ---- */

int64_t memory_offset(ncclComm_t c, const void *p)
{
    int64_t at = -1;
    pthread_mutex_lock(&lock);
    for (struct block *b = blocks; b; b = b->next) {
        const char *from = (char *)b + PAGE, *end = from + b->n_bytes;
        if (b->comm == c && b->is_window && (const char *)p >= from && (const char *)p < end)
            at = (const char *)p - from;
    }
    pthread_mutex_unlock(&lock);
    return at;
}

void memory_window(ncclComm_t c, const struct op *o)
{
    struct block *b = (struct block *)(void *)((char *)(uintptr_t)o->in - PAGE);
    bool is_same = mapped_same(c->mapped, (uint64_t)o->n << 8 | 0xa5);
    if (atomic_load(&c->is_aborted))
        return;
    if (is_same) {
        set_registered(b, c, true);
        *(void **)o->out = b;
    } else {
        script_say(ncclInvalidArgument, "a window that is not of the same size on all ranks, or not on all");
        atomic_store(&c->async_code, ncclInvalidArgument);
    }
    atomic_store(&c->is_windowing, false);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *p, size_t n, ncclWindow_t *win, int flags)
{
    struct answer a = script_call("window");
    script_log("window %zu", n);
    struct block *b = registrable(c, p, n);
    if (!b || a.what == DO_ERROR)
        return b ? (ncclResult_t)a.n : ncclInvalidArgument;
    if (flags != NCCL_WIN_COLL_SYMMETRIC)
        return script_say(ncclInvalidArgument, "a window with other flags");
    *win = NULL;
    if (a.what == DO_NONE)
        return ncclSuccess;
    struct op *o = malloc(sizeof *o);
    *o = (struct op){.kind = WINDOW, .in = p, .out = win, .n = n};
    atomic_store(&c->is_windowing, true);
    comm_enqueue(c, o);
    return comm_answer(c, a);
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t win)
{
    script_log("unwindow");
    return end_registration(c, (struct block *)win, true);
}
#endif
