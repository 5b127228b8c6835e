#include "config.h" /* memfd_create */

#include "runtime/base/flight.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/begins.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/plain.h"

#define MEMFD "ddp-flight"

enum { MAGIC = 0x64647066, LAYOUT = 2 };

/* The shared page. */
struct page {
    uint32_t magic, version;
    int32_t rank, size;
    uint64_t opened_ns; /* clock.h */
    _Atomic uint64_t n_steps, n_calls, since_ns; /* clock.h: when waits_for was set */
    _Atomic int32_t waits_for;
    char name[FLIGHT_CALLS][FLIGHT_NAME_MAX];
};

struct flight {
    struct page *page;
    int fd;
};

flight_t *flight_open(int rank, int size)
{
    flight_t *f = malloc(sizeof *f);
    int fd = f ? memfd_create(MEMFD, MFD_CLOEXEC) : -1;
    void *p = MAP_FAILED;
    if (fd >= 0 && io_grow(fd, sizeof *f->page) == 0)
        p = mmap(NULL, sizeof *f->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        free(f);
        return NULL;
    }
    *f = (struct flight){p, fd};
    f->page->version = LAYOUT;
    f->page->rank = rank;
    f->page->size = size;
    f->page->opened_ns = clock_ns();
    f->page->waits_for = FLIGHT_NOBODY;
    f->page->magic = MAGIC;
    return f;
}

void flight_close(flight_t *f)
{
    if (!f)
        return;
    munmap(f->page, sizeof *f->page);
    close(f->fd);
    free(f);
}

void flight_call(flight_t *f, const char *name)
{
    if (!f)
        return;
    uint64_t number = atomic_load_explicit(&f->page->n_calls, memory_order_relaxed) + 1;
    strncpy(f->page->name[number % FLIGHT_CALLS], name, FLIGHT_NAME_MAX - 1); /* readers end it */
    atomic_store_explicit(&f->page->n_calls, number, memory_order_release);
}

void flight_waits(flight_t *f, int rank)
{
    if (!f || atomic_load_explicit(&f->page->waits_for, memory_order_relaxed) == rank)
        return;
    atomic_store_explicit(&f->page->since_ns, clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&f->page->waits_for, rank, memory_order_release);
}

void flight_step(flight_t *f, uint64_t n_steps)
{
    if (f)
        atomic_store_explicit(&f->page->n_steps, n_steps, memory_order_relaxed);
}

const char *flight_where(const flight_t *f, char *buf, size_t size)
{
    unsigned long long call = f ? atomic_load(&f->page->n_calls) : 0;
    buf[0] = 0;
    if (call > 0)
        snprintf(buf, size, " (%llu collectives begun, %llu steps done)", call,
                 (unsigned long long)atomic_load(&f->page->n_steps));
    return buf;
}

/* ---- the reader ---- */

/* True if it was opened before *oldest_ns, which it then is. */
static bool read_page(const char *path, uint64_t *oldest_ns, struct flight_view *ret)
{
    struct page p;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, &p, sizeof p, 0);
    if (fd >= 0)
        close(fd);
    if (n != (ssize_t)sizeof p || p.magic != MAGIC || p.version != LAYOUT || p.opened_ns >= *oldest_ns)
        return false;
    *oldest_ns = p.opened_ns;
    *ret = (struct flight_view){.rank = p.rank, .size = p.size, .waits_for = p.waits_for, .n_steps = p.n_steps,
                                .n_calls = p.n_calls};
    if (p.waits_for != FLIGHT_NOBODY)
        ret->waits_s = (double)(clock_ns() - p.since_ns) / 1e9;
    memcpy(ret->name, p.name, sizeof ret->name);
    for (int i = 0; i < FLIGHT_CALLS; i++) {
        ret->name[i][FLIGHT_NAME_MAX - 1] = 0;
        plain_line(ret->name[i]);
    }
    return true;
}

bool flight_read(pid_t pid, struct flight_view *ret)
{
    char folder[64], path[sizeof folder + 256], to[64];
    bool is_found = false;
    uint64_t oldest_ns = UINT64_MAX;
    snprintf(folder, sizeof folder, "/proc/%ld/fd", (long)pid);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ssize_t n = readlink(path, to, sizeof to - 1);
        to[n > 0 ? n : 0] = 0;
        is_found |= begins(to, "/memfd:" MEMFD " ") && read_page(path, &oldest_ns, ret);
    }
    if (d)
        closedir(d);
    return is_found;
}
