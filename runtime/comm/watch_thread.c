/* What the watch thread does: hears of ends, and passes them on. */
#include "runtime/base/begins.h"
#include "runtime/comm/watch_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"

#define REST_S 1.0

void watch_fd_signal(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one); /* fails only when full: then it is readable already */
    (void)n;
}

void watch_fd_clear(int fd)
{
    uint64_t n;
    ssize_t r = read(fd, &n, sizeof n);
    (void)r;
}

bool watch_has_left(const watch_t *w, int rank)
{
    return atomic_load_explicit(board_left(w->board, w->world, rank), memory_order_acquire) != 0;
}

/* A peer whose buffer is full or gone learns from its own end of the connection. Half a frame would garble all that
 * follow: the rest is waited for, and where it cannot go the connection ends. */
static void send_frame(watch_t *w, const struct watch_frame *f)
{
    for (size_t i = 0; i < w->n_remote; i++) {
        int fd = w->remote_links[i].peer.fd;
        ssize_t n = send(fd, f, sizeof *f, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0 && (size_t)n < sizeof *f &&
            io_send_all(fd, (const char *)f + n, sizeof *f - (size_t)n, deadline_in(REST_S), "a leader", NULL) < 0)
            shutdown(fd, SHUT_RDWR);
    }
}

static void poke_node(watch_t *w)
{
    for (size_t i = 0; i < w->n_local; i++)
        send(w->local_links[i].peer.fd, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    watch_fd_signal(w->event_fd);
}

/* What the guard does not know yet. A circle of waits has no cause that could be named. */
static void tell_guard(watch_t *w, struct cause c, const char *text)
{
    ddp_error_t e;
    if (c.kind == WATCH_NOTICE || c.kind == WATCH_STUCK)
        return;
    cause_error(w->world, c, text, w->flight, &e);
    notice_tell(&w->notice, c.rank, e.text);
}

static bool tell_cause(watch_t *w)
{
    uint64_t word = atomic_load(&w->board->cause);
    if (!word || w->told_cause)
        return false;
    w->told_cause = true;
    struct watch_frame f = {.magic = FRAME_MAGIC, .type = FRAME_CAUSE, .cause = word};
    memcpy(f.text, board_text(w->board, w->world, cause_unpack(word).slot), sizeof f.text);
    send_frame(w, &f);
    tell_guard(w, cause_unpack(word), f.text);
    return true;
}

static bool tell_left(watch_t *w)
{
    bool is_new = false;
    for (int l = 0; l < w->local_size; l++) {
        int rank = world_rank_at(w->world, w->node, l);
        if (w->told_left[l] || !watch_has_left(w, rank))
            continue;
        w->told_left[l] = is_new = true;
        struct watch_frame f = {.magic = FRAME_MAGIC, .type = FRAME_LEFT, .rank = rank};
        send_frame(w, &f);
    }
    return is_new;
}

static bool tell_waits(watch_t *w)
{
    bool is_new = false;
    for (int l = 0; l < w->local_size; l++) {
        int rank = world_rank_at(w->world, w->node, l);
        int32_t waits_for = atomic_load(&w->board->waits_for[rank]);
        if (w->told_waits[l] == waits_for)
            continue;
        w->told_waits[l] = waits_for;
        is_new = true;
        struct watch_frame f = {.magic = FRAME_MAGIC, .type = FRAME_WAITS, .rank = rank, .suspect = waits_for - 1};
        send_frame(w, &f);
    }
    return is_new;
}

void watch_sync(watch_t *w)
{
    pthread_mutex_lock(&w->lock);
    bool cause = tell_cause(w), gone = tell_left(w), waits = tell_waits(w); /* causes go before their consequences */
    pthread_mutex_unlock(&w->lock);
    if (cause || gone || waits)
        poke_node(w);
}

void watch_raise_cause(watch_t *w, struct cause c, const char *text)
{
    if (board_raise(w->board, w->world, c, text))
        board_ring(w->board);
    watch_sync(w);
}

/* How a process ended, while its parent has not yet collected it. */
static int exit_status(int pid)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = pid > 0 ? fopen(path, "re") : NULL;
    if (!f)
        return WATCH_STATUS_UNKNOWN;
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[n] = 0;
    const char *paren = strrchr(line, ')'), *last = strrchr(line, ' '); /* the name may hold spaces; status is last */
    if (!paren || !begins(paren, ") Z") || !last)
        return WATCH_STATUS_UNKNOWN;
    return atoi(last + 1);
}

static void local_ended(watch_t *w, struct watch_link *l)
{
    l->is_open = false;
    if (!watch_has_left(w, l->peer.rank))
        watch_raise_cause(w, (struct cause){.kind = WATCH_DIED, .rank = l->peer.rank, .arg = exit_status(l->peer.pid)},
                          NULL);
}

/* The socket of a dying process closes a little before its pidfd reports, and only then is its status known. A child
 * that it forked may hold the socket open for ever, so both are watched. */
static void local_readable(watch_t *w, struct watch_link *l)
{
    char bytes[64];
    ssize_t n = recv(l->peer.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
        watch_fd_signal(w->event_fd);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (l->peer.pidfd >= 0 && !watch_has_left(w, l->peer.rank))
        poll(&(struct pollfd){.fd = l->peer.pidfd, .events = POLLIN}, 1, 100);
    local_ended(w, l);
}

static void handle_frame(watch_t *w, const struct watch_frame *f)
{
    if (f->type == FRAME_CAUSE) {
        struct cause c = cause_unpack(f->cause);
        char text[sizeof f->text];
        memcpy(text, f->text, sizeof text);
        text[sizeof text - 1] = 0;
        c.slot = w->local_size;
        watch_raise_cause(w, c, text);
        return;
    }
    if (f->rank < 0 || f->rank >= w->world->size || f->suspect < WATCH_ANYONE || f->suspect >= w->world->size)
        return;
    if (f->type == FRAME_LEFT)
        atomic_store(board_left(w->board, w->world, f->rank), 1);
    if (f->type == FRAME_WAITS) {
        atomic_store(&w->board->waits_for[f->rank], f->suspect + 1);
        atomic_store(&w->board->census, 1);
    }
    board_ring(w->board);
    poke_node(w);
}

static void remote_readable(watch_t *w, struct watch_link *l)
{
    for (;;) {
        ssize_t n = recv(l->peer.fd, (char *)&l->in + l->n_in, sizeof l->in - l->n_in, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            int err = n == 0 ? ECONNRESET : errno;
            struct cause c = {.kind = err == ECONNRESET ? WATCH_DIED : WATCH_LOST, .rank = l->peer.rank};
            c.arg = err == ECONNRESET ? WATCH_STATUS_UNKNOWN : err;
            l->is_open = false;
            if (!watch_has_left(w, l->peer.rank))
                watch_raise_cause(w, c, NULL);
            return;
        }
        l->n_in += (size_t)n;
        if (l->n_in == sizeof l->in) {
            if (l->in.magic == FRAME_MAGIC)
                handle_frame(w, &l->in);
            l->n_in = 0;
        }
    }
}

static void notice_readable(watch_t *w)
{
    char text[NOTICE_TEXT_MAX + 1];
    int rank, rc = notice_next(&w->notice, &rank, text);
    if (rc > 0 && rank >= 0 && rank < w->world->size)
        watch_raise_cause(w, (struct cause){.kind = WATCH_NOTICE, .rank = rank,
                                           .slot = w->local_size + 1 + w->local}, text);
    if (rc < 0) {
        pthread_mutex_lock(&w->lock); /* others send there */
        io_close(w->notice.fd);
        w->notice.fd = -1;
        pthread_mutex_unlock(&w->lock);
    }
}

static int open_fd(const struct watch_link *l, int fd)
{
    return l->is_open ? fd : -1; /* poll ignores -1 */
}

void *watch_thread(void *arg)
{
    watch_t *w = arg;
    struct pollfd *p = w->polls, *locals = p + 2, *remotes = locals + 2 * w->n_local;
    size_t n_polls = 2 + 2 * w->n_local + w->n_remote;
    while (!atomic_load(&w->stop)) {
        p[0] = (struct pollfd){.fd = w->wake_fd, .events = POLLIN};
        p[1] = (struct pollfd){.fd = w->notice.fd, .events = POLLIN};
        for (size_t i = 0; i < w->n_local; i++) {
            struct watch_link *l = &w->local_links[i];
            locals[2 * i] = (struct pollfd){.fd = open_fd(l, l->peer.pidfd), .events = POLLIN};
            locals[2 * i + 1] = (struct pollfd){.fd = open_fd(l, l->peer.fd), .events = POLLIN};
        }
        for (size_t i = 0; i < w->n_remote; i++)
            remotes[i] =
                (struct pollfd){.fd = open_fd(&w->remote_links[i], w->remote_links[i].peer.fd), .events = POLLIN};
        atomic_store(&w->is_idle, true);
        int n = poll(p, n_polls, -1);
        atomic_store(&w->is_idle, false);
        if (atomic_load(&w->is_left))
            return NULL;
        if (n < 0)
            continue;
        if (p[0].revents)
            watch_fd_clear(w->wake_fd);
        for (size_t i = 0; i < w->n_local; i++) {
            if (locals[2 * i].revents)
                local_ended(w, &w->local_links[i]);
            else if (locals[2 * i + 1].revents)
                local_readable(w, &w->local_links[i]);
        }
        for (size_t i = 0; i < w->n_remote; i++)
            if (remotes[i].revents)
                remote_readable(w, &w->remote_links[i]);
        if (p[1].revents) /* last: what this rank has seen itself says more */
            notice_readable(w);
        watch_sync(w);
    }
    return NULL;
}
