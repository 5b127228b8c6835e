#include "runtime/ckpt/mirror.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/base/thread.h"

#define ACK 'a'

/* What goes before a slot's bytes. */
struct announce {
    uint64_t n_bytes, slot; /* the same of the guest's slots */
    struct slots_seal seal;
};

/* One direction: the announcement, then the bytes. */
struct stream {
    int fd;
    struct announce head;
    size_t at; /* of both together */
    int slot;
};

struct mirror {
    struct slots *own, *guest;
    struct stream out, in;
    int wake;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_leaving;

    pthread_mutex_t lock; /* of what follows */
    int asked[SLOTS_N], n_asked; /* slots that are to be sent, in this order */
    bool is_done, has_failed;
};

/* Where the stream goes on, and how many bytes lie there; 0: it is at its end. */
static char *rest(struct stream *s, const struct slots *slots, size_t *ret_n)
{
    size_t n_head = sizeof s->head, n_all = n_head + slots->bytes;
    if (s->at < n_head) {
        *ret_n = n_head - s->at;
        return (char *)&s->head + s->at;
    }
    *ret_n = n_all - s->at;
    return slots_data(slots, s->slot) + (s->at - n_head);
}

/* -1: the connection has ended. */
static int moved(struct stream *s, ssize_t n)
{
    if (n > 0)
        s->at += (size_t)n;
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)) ? 0 : -1;
}

/* The slot that was asked for first; -1: none. One that is EMPTY now will be asked for again. */
static int next_asked(mirror_t *m, struct slots_seal *ret)
{
    while (m->n_asked > 0) {
        int slot = m->asked[0];
        memmove(m->asked, m->asked + 1, (size_t)--m->n_asked * sizeof *m->asked);
        if (m->out.fd >= 0 && slots_read(m->own, slot, ret))
            return slot;
    }
    return -1;
}

static void begin_out(mirror_t *m)
{
    struct stream *s = &m->out;
    pthread_mutex_lock(&m->lock);
    s->slot = next_asked(m, &s->head.seal);
    s->at = 0;
    s->head.n_bytes = m->own->bytes;
    s->head.slot = (uint64_t)s->slot;
    m->is_done = s->slot < 0;
    pthread_mutex_unlock(&m->lock);
}

/* A part of what is to be sent, or the answer to all of it. */
static int step_out(mirror_t *m, short events)
{
    struct stream *s = &m->out;
    size_t n;
    char *from = rest(s, m->own, &n), ack;
    if (events & (POLLERR | POLLHUP))
        return -1;
    if (n)
        return events & POLLOUT ? moved(s, send(s->fd, from, n, MSG_DONTWAIT | MSG_NOSIGNAL)) : 0;
    if (!(events & POLLIN))
        return 0;
    if (recv(s->fd, &ack, 1, MSG_DONTWAIT) != 1 || ack != ACK)
        return -1;
    begin_out(m);
    return 0;
}

static int finish_in(mirror_t *m)
{
    struct stream *s = &m->in;
    const char ack = ACK;
    slots_seal(m->guest, s->slot, &s->head.seal);
    s->at = 0;
    return send(s->fd, &ack, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static int step_in(mirror_t *m)
{
    struct stream *s = &m->in;
    bool was_head = s->at < sizeof s->head;
    size_t n;
    char *to = rest(s, m->guest, &n);
    if (moved(s, recv(s->fd, to, n, MSG_DONTWAIT)) < 0)
        return -1;
    if (was_head && s->at == sizeof s->head) {
        if (s->head.n_bytes != m->guest->bytes || s->head.slot >= SLOTS_N)
            return -1;
        s->slot = (int)s->head.slot;
        slots_clear(m->guest, s->slot);
    }
    return s->at == sizeof s->head + m->guest->bytes ? finish_in(m) : 0;
}

static void take_wish(mirror_t *m)
{
    uint64_t n;
    if (read(m->wake, &n, sizeof n) == sizeof n && m->out.slot < 0)
        begin_out(m);
}

static void lose(mirror_t *m, struct stream *s)
{
    io_close(s->fd);
    s->fd = -1;
    pthread_mutex_lock(&m->lock);
    m->has_failed = true;
    pthread_mutex_unlock(&m->lock);
    if (s == &m->out)
        begin_out(m);
}

static void *run(void *arg)
{
    mirror_t *m = arg;
    while (!atomic_load(&m->is_leaving)) {
        size_t n = 0;
        if (m->out.slot >= 0)
            rest(&m->out, m->own, &n);
        struct pollfd p[] = {{.fd = m->wake, .events = POLLIN},
                             {.fd = m->out.fd, .events = n ? POLLOUT : POLLIN},
                             {.fd = m->in.fd, .events = POLLIN}};
        if (poll(p, 3, -1) < 0)
            continue;
        if (p[1].revents && (m->out.slot < 0 || step_out(m, p[1].revents) < 0))
            lose(m, &m->out);
        if (p[0].revents)
            take_wish(m);
        if (p[2].revents && step_in(m) < 0)
            lose(m, &m->in);
    }
    return NULL;
}

mirror_t *mirror_create(struct slots *own, struct slots *guest, int to, int from, ddp_error_t *errp)
{
    mirror_t *m = calloc(1, sizeof *m);
    if (!m) {
        error_errno(errp, "mirror");
        io_close(to);
        io_close(from);
        return NULL;
    }
    m->own = own;
    m->guest = guest;
    m->out = (struct stream){.fd = to, .slot = -1};
    m->in = (struct stream){.fd = from};
    m->is_done = true;
    pthread_mutex_init(&m->lock, NULL);
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->has_thread = m->wake >= 0 && thread_start(&m->thread, run, m) == 0;
    if (m->has_thread)
        return m;
    error_errno(errp, "no thread to mirror snapshots " THREAD_LIMITS);
    mirror_destroy(m);
    return NULL;
}

static void wake(mirror_t *m)
{
    const uint64_t one = 1;
    (void)!write(m->wake, &one, sizeof one);
}

void mirror_destroy(mirror_t *m)
{
    if (!m)
        return;
    int saved = errno;
    atomic_store(&m->is_leaving, true);
    if (m->has_thread) {
        wake(m);
        pthread_join(m->thread, NULL);
    }
    pthread_mutex_destroy(&m->lock);
    io_close(m->wake);
    io_close(m->out.fd);
    io_close(m->in.fd);
    free(m);
    errno = saved;
}

void mirror_send(mirror_t *m, int i)
{
    pthread_mutex_lock(&m->lock);
    int k = 0;
    while (k < m->n_asked && m->asked[k] != i)
        k++;
    if (k == m->n_asked)
        m->asked[m->n_asked++] = i;
    m->is_done = false;
    pthread_mutex_unlock(&m->lock);
    wake(m);
}

bool mirror_is_done(mirror_t *m)
{
    pthread_mutex_lock(&m->lock);
    bool is_done = m->is_done;
    pthread_mutex_unlock(&m->lock);
    return is_done;
}

bool mirror_has_failed(mirror_t *m)
{
    pthread_mutex_lock(&m->lock);
    bool has_failed = m->has_failed;
    pthread_mutex_unlock(&m->lock);
    return has_failed;
}

double mirror_cpu_s(const mirror_t *m)
{
    clockid_t clock;
    struct timespec t;
    if (pthread_getcpuclockid(m->thread, &clock) != 0 || clock_gettime(clock, &t) < 0)
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
