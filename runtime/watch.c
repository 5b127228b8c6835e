#include "runtime/watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/watch_board.h"

enum { FRAME_MAGIC = 0x64647077, FRAME_CAUSE = 1, FRAME_LEFT, FRAME_WAITS };

/* What leaders tell each other. */
struct frame {
    uint32_t magic, type;
    uint64_t cause;         /* FRAME_CAUSE */
    int32_t rank, suspect;  /* FRAME_LEFT, FRAME_WAITS */
    char text[WATCH_TEXT_MAX + 1];
};

struct link {
    struct watch_peer peer;
    bool is_open; /* read by the watch thread only; the descriptor is closed in watch_destroy */
    struct frame in;
    size_t n_in;
};

struct watch {
    const struct world *world;
    struct watch_board *board;
    int rank, node, local, local_size;
    struct link *local_links, *remote_links;
    size_t n_local, n_remote;
    struct pollfd *polls;
    int wake_fd, event_fd;
    struct {
        uint64_t deadline, since; /* of the present late wait; when its culprit was last another */
        int culprit;
    } late;
    pthread_t thread;
    bool has_thread;
    atomic_bool stop;
    pthread_mutex_t lock; /* over what follows: who was told what */
    bool told_cause;
    bool *told_left;     /* [local_size] */
    int32_t *told_waits; /* [local_size] */
};

static void fd_signal(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one); /* fails only when full: then it is readable already */
    (void)n;
}

static void fd_clear(int fd)
{
    uint64_t n;
    ssize_t r = read(fd, &n, sizeof n);
    (void)r;
}

static bool left(const watch_t *w, int rank)
{
    return atomic_load_explicit(board_left(w->board, w->world, rank), memory_order_acquire) != 0;
}

/* A peer whose buffer is full or gone learns from its own end of the connection. */
static void send_frame(watch_t *w, const struct frame *f)
{
    for (size_t i = 0; i < w->n_remote; i++)
        send(w->remote_links[i].peer.fd, f, sizeof *f, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void poke_node(watch_t *w)
{
    for (size_t i = 0; i < w->n_local; i++)
        send(w->local_links[i].peer.fd, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    fd_signal(w->event_fd);
}

static bool tell_cause(watch_t *w)
{
    uint64_t word = atomic_load(&w->board->cause);
    if (!word || w->told_cause)
        return false;
    w->told_cause = true;
    struct frame f = {.magic = FRAME_MAGIC, .type = FRAME_CAUSE, .cause = word};
    memcpy(f.text, board_text(w->board, w->world, cause_unpack(word).slot), sizeof f.text);
    send_frame(w, &f);
    return true;
}

static bool tell_left(watch_t *w)
{
    bool is_new = false;
    for (int l = 0; l < w->local_size; l++) {
        int rank = world_rank_at(w->world, w->node, l);
        if (w->told_left[l] || !left(w, rank))
            continue;
        w->told_left[l] = is_new = true;
        struct frame f = {.magic = FRAME_MAGIC, .type = FRAME_LEFT, .rank = rank};
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
        struct frame f = {.magic = FRAME_MAGIC, .type = FRAME_WAITS, .rank = rank, .suspect = waits_for - 1};
        send_frame(w, &f);
    }
    return is_new;
}

/* Passes on what is new on the board. Both threads call it: whoever acts on news has first passed it on. */
static void sync_board(watch_t *w)
{
    pthread_mutex_lock(&w->lock);
    bool cause = tell_cause(w), gone = tell_left(w), waits = tell_waits(w); /* causes go before their consequences */
    pthread_mutex_unlock(&w->lock);
    if (cause || gone || waits)
        poke_node(w);
}

static void raise_cause(watch_t *w, struct cause c, const char *text)
{
    if (board_raise(w->board, w->world, c, text))
        board_ring(w->board);
    sync_board(w);
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
    if (!paren || strncmp(paren, ") Z", 3) != 0 || !last)
        return WATCH_STATUS_UNKNOWN;
    return atoi(last + 1);
}

static void local_ended(watch_t *w, struct link *l)
{
    l->is_open = false;
    if (!left(w, l->peer.rank))
        raise_cause(w, (struct cause){.kind = WATCH_DIED, .rank = l->peer.rank, .arg = exit_status(l->peer.pid)}, NULL);
}

/* The socket of a dying process closes a little before its pidfd reports, and only then is its status known. A child
 * that it forked may hold the socket open for ever, so both are watched. */
static void local_readable(watch_t *w, struct link *l)
{
    char bytes[64];
    ssize_t n = recv(l->peer.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
        fd_signal(w->event_fd);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (l->peer.pidfd >= 0 && !left(w, l->peer.rank))
        poll(&(struct pollfd){.fd = l->peer.pidfd, .events = POLLIN}, 1, 100);
    local_ended(w, l);
}

static void handle_frame(watch_t *w, const struct frame *f)
{
    if (f->type == FRAME_CAUSE) {
        struct cause c = cause_unpack(f->cause);
        char text[sizeof f->text];
        memcpy(text, f->text, sizeof text);
        text[sizeof text - 1] = 0;
        c.slot = w->local_size;
        raise_cause(w, c, text);
        return;
    }
    if (f->rank < 0 || f->rank >= w->world->size || f->suspect < -1 || f->suspect >= w->world->size)
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

static void remote_readable(watch_t *w, struct link *l)
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
            if (!left(w, l->peer.rank))
                raise_cause(w, c, NULL);
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

static int open_fd(const struct link *l, int fd)
{
    return l->is_open ? fd : -1; /* poll ignores -1 */
}

static void *watch_thread(void *arg)
{
    watch_t *w = arg;
    struct pollfd *p = w->polls, *locals = p + 1, *remotes = locals + 2 * w->n_local;
    size_t n_polls = 1 + 2 * w->n_local + w->n_remote;
    while (!atomic_load(&w->stop)) {
        p[0] = (struct pollfd){.fd = w->wake_fd, .events = POLLIN};
        for (size_t i = 0; i < w->n_local; i++) {
            struct link *l = &w->local_links[i];
            locals[2 * i] = (struct pollfd){.fd = open_fd(l, l->peer.pidfd), .events = POLLIN};
            locals[2 * i + 1] = (struct pollfd){.fd = open_fd(l, l->peer.fd), .events = POLLIN};
        }
        for (size_t i = 0; i < w->n_remote; i++)
            remotes[i] = (struct pollfd){.fd = open_fd(&w->remote_links[i], w->remote_links[i].peer.fd), .events = POLLIN};
        if (poll(p, n_polls, -1) < 0)
            continue;
        if (p[0].revents)
            fd_clear(w->wake_fd);
        for (size_t i = 0; i < w->n_local; i++) {
            if (locals[2 * i].revents)
                local_ended(w, &w->local_links[i]);
            else if (locals[2 * i + 1].revents)
                local_readable(w, &w->local_links[i]);
        }
        for (size_t i = 0; i < w->n_remote; i++)
            if (remotes[i].revents)
                remote_readable(w, &w->remote_links[i]);
        sync_board(w);
    }
    return NULL;
}

static int start_thread(watch_t *w, ddp_error_t *errp)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&w->thread, NULL, watch_thread, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        return error_set(errp, DDP_E_SYSTEM, err, "watch thread: %s", strerror(err));
    w->has_thread = true;
    return 0;
}

static struct link *links_create(const struct watch_peer *peers, size_t n)
{
    struct link *l = calloc(n + 1, sizeof *l);
    for (size_t i = 0; l && i < n; i++)
        l[i] = (struct link){.peer = peers[i], .is_open = true};
    return l;
}

static void links_close(struct link *l, size_t n)
{
    for (size_t i = 0; l && i < n; i++) {
        io_close(l[i].peer.fd);
        io_close(l[i].peer.pidfd);
    }
}

static void watch_free(watch_t *w)
{
    io_close(w->wake_fd);
    io_close(w->event_fd);
    free(w->local_links);
    free(w->remote_links);
    free(w->polls);
    free(w->told_left);
    free(w->told_waits);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

watch_t *watch_create(const struct watch_config *cfg, ddp_error_t *errp)
{
    watch_t *w = calloc(1, sizeof *w);
    if (!w) {
        error_errno(errp, "watch");
        return NULL;
    }
    w->world = cfg->world;
    w->board = cfg->board;
    w->rank = cfg->world->rank;
    w->node = cfg->world->node_of[w->rank];
    w->local = cfg->world->local_of[w->rank];
    w->local_size = world_local_size(cfg->world, w->node);
    w->n_local = cfg->n_local;
    w->n_remote = cfg->n_remote;
    pthread_mutex_init(&w->lock, NULL);
    w->local_links = links_create(cfg->local, w->n_local);
    w->remote_links = links_create(cfg->remote, w->n_remote);
    w->polls = calloc(1 + 2 * w->n_local + w->n_remote, sizeof *w->polls);
    w->told_left = calloc((size_t)w->local_size, sizeof *w->told_left);
    w->told_waits = calloc((size_t)w->local_size, sizeof *w->told_waits);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool has_memory = w->local_links && w->remote_links && w->polls && w->told_left && w->told_waits;
    if (!has_memory || w->wake_fd < 0 || w->event_fd < 0) {
        error_errno(errp, "watch");
        watch_free(w);
        return NULL;
    }
    if (start_thread(w, errp) < 0) {
        watch_free(w);
        return NULL;
    }
    return w;
}

void watch_destroy(watch_t *w)
{
    if (!w)
        return;
    int saved = errno;
    atomic_store(&w->stop, true);
    fd_signal(w->wake_fd);
    pthread_join(w->thread, NULL);
    links_close(w->local_links, w->n_local);
    links_close(w->remote_links, w->n_remote);
    watch_free(w);
    errno = saved;
}

bool watch_is_broken(const watch_t *w)
{
    return atomic_load_explicit(&w->board->cause, memory_order_acquire) != 0;
}

bool watch_has_left(const watch_t *w, int rank)
{
    return left(w, rank);
}

int watch_left_on_node(const watch_t *w, int node)
{
    for (int l = 0; l < world_local_size(w->world, node); l++)
        if (left(w, world_rank_at(w->world, node, l)))
            return world_rank_at(w->world, node, l);
    return -1;
}

int watch_error(watch_t *w, ddp_error_t *errp)
{
    sync_board(w);
    struct cause c = cause_unpack(atomic_load(&w->board->cause));
    return cause_error(w->world, c, board_text(w->board, w->world, c.slot), errp);
}

void watch_raise(watch_t *w, enum watch_kind kind, int rank, int arg, enum watch_what what)
{
    raise_cause(w, (struct cause){.kind = kind, .rank = rank, .arg = arg, .what = what}, NULL);
}

void watch_abort(watch_t *w, const char *why)
{
    raise_cause(w, (struct cause){.kind = WATCH_ABORT, .rank = w->rank, .slot = w->local}, why);
}

void watch_waits_for(watch_t *w, int suspect)
{
    _Atomic int32_t *mine = &w->board->waits_for[w->rank];
    if (!atomic_load_explicit(&w->board->census, memory_order_relaxed) || atomic_load(mine) == suspect + 1)
        return;
    atomic_store(mine, suspect + 1);
    sync_board(w);
}

bool watch_is_late(watch_t *w, int suspect, uint64_t deadline, double timeout_s, enum watch_what what)
{
    uint64_t now = clock_ns(), grace_ns = (uint64_t)((timeout_s < 4 ? timeout_s / 4 : 1) * NS_PER_S);
    if (!atomic_exchange(&w->board->census, 1))
        board_ring(w->board);
    watch_waits_for(w, suspect);
    int culprit = board_culprit(w->board, w->world, suspect);
    if (w->late.deadline != deadline || w->late.culprit != culprit) { /* things still move */
        w->late.deadline = deadline;
        w->late.culprit = culprit;
        w->late.since = now;
    }
    uint64_t still_ns = now - w->late.since;
    if (still_ns < grace_ns || (culprit < 0 && still_ns < 4 * grace_ns)) /* a circle dissolves, unless the calls differ */
        return false;
    watch_raise(w, WATCH_LATE, culprit < 0 ? suspect : culprit, w->rank, what);
    return true;
}

uint64_t watch_alarm(uint64_t deadline)
{
    uint64_t soon = deadline_in(0.02);
    return deadline > soon ? deadline : soon;
}

void watch_leave(watch_t *w)
{
    atomic_store(board_left(w->board, w->world, w->rank), 1);
    board_ring(w->board);
    sync_board(w);
}

uint32_t watch_bell(const watch_t *w)
{
    return atomic_load(&w->board->bell);
}

void watch_bell_wait(watch_t *w, uint32_t seen, uint64_t deadline)
{
    board_wait(w->board, seen, deadline);
}

void watch_bell_ring(watch_t *w)
{
    board_ring(w->board);
}

int watch_event_fd(const watch_t *w)
{
    return w->event_fd;
}

void watch_event_clear(watch_t *w)
{
    fd_clear(w->event_fd);
}
