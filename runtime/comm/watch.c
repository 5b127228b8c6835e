#include <config.h> /* pthread_timedjoin_np */

#include "runtime/comm/watch_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/thread.h"

#define END_S 3 /* more than a thread takes that hears of its end */

static int start_thread(watch_t *w, ddp_error_t *errp)
{
    int err = thread_start(&w->thread, watch_thread, w);
    if (err)
        return error_set(errp, DDP_E_SYSTEM, err, "watch thread " THREAD_LIMITS ": %s", strerror(err));
    return 0;
}

static struct watch_link *links_create(const struct watch_peer *peers, size_t n)
{
    struct watch_link *l = calloc(n + 1, sizeof *l);
    for (size_t i = 0; l && i < n; i++)
        l[i] = (struct watch_link){.peer = peers[i], .is_open = true};
    return l;
}

static void links_close(struct watch_link *l, size_t n)
{
    for (size_t i = 0; l && i < n; i++) {
        io_close(l[i].peer.fd);
        io_close(l[i].peer.pidfd);
        l[i].peer.fd = l[i].peer.pidfd = -1;
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
    w->flight = cfg->flight;
    w->timeout_name = cfg->timeout_name;
    w->notice.fd = -1; /* the caller's, unless all goes well */
    pthread_mutex_init(&w->lock, NULL);
    w->local_links = links_create(cfg->local, w->n_local);
    w->remote_links = links_create(cfg->remote, w->n_remote);
    w->polls = calloc(2 + 2 * w->n_local + w->n_remote, sizeof *w->polls);
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
    w->notice.fd = cfg->notice_fd;
    ddp_error_t why;
    if (start_thread(w, &why) < 0) {
        watch_abort(w, why.text); /* else the others would only see that this rank ends */
        watch_free(w);
        error_set(errp, why.domain, why.code, "%s", why.text);
        return NULL;
    }
    return w;
}

/* A program that has closed descriptors which are not its own (closefrom) has taken away what wakes the thread, which
 * polls on: no call ends it then, and other files may have the numbers. False: it is left behind, with w. */
static bool end_thread(watch_t *w)
{
    struct timespec until;
    atomic_store(&w->stop, true);
    watch_fd_signal(w->wake_fd);
    do { /* a thread that does not poll ends by itself */
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += END_S;
        if (pthread_timedjoin_np(w->thread, NULL, &until) == 0) /* not clockjoin: ThreadSanitizer does not know it */
            return true;
        atomic_store(&w->is_left, true);
    } while (!atomic_load(&w->is_idle));
    pthread_detach(w->thread);
    return false;
}

void watch_destroy(watch_t *w)
{
    if (!w)
        return;
    int saved = errno;
    if (end_thread(w)) {
        links_close(w->local_links, w->n_local);
        links_close(w->remote_links, w->n_remote);
        io_close(w->notice.fd);
        watch_free(w);
    }
    errno = saved;
}

void watch_disown(watch_t *w)
{
    links_close(w->local_links, w->n_local);
    links_close(w->remote_links, w->n_remote);
    io_close(w->notice.fd);
    w->notice.fd = -1;
}

bool watch_is_broken(const watch_t *w)
{
    return atomic_load_explicit(&w->board->cause, memory_order_acquire) != 0;
}

int watch_left_on_node(const watch_t *w, int node)
{
    for (int l = 0; l < world_local_size(w->world, node); l++)
        if (watch_has_left(w, world_rank_at(w->world, node, l)))
            return world_rank_at(w->world, node, l);
    return -1;
}

int watch_error(watch_t *w, ddp_error_t *errp)
{
    watch_sync(w);
    struct cause c = cause_unpack(atomic_load(&w->board->cause));
    return cause_error(w->world, c, board_text(w->board, w->world, c.slot), w->flight, errp);
}

void watch_raise(watch_t *w, enum watch_kind kind, int rank, int arg, enum watch_what what)
{
    watch_raise_cause(w, (struct cause){.kind = kind, .rank = rank, .arg = arg, .what = what}, NULL);
}

/* The one rank that has left, and is not this one; -1: none, or several, which may all have been ready. */
static int only_one_left(const watch_t *w)
{
    int one = -1, n = 0;
    for (int r = 0; r < w->world->size; r++)
        if (watch_has_left(w, r)) {
            one = r;
            n++;
        }
    return n == 1 && one != w->rank ? one : -1;
}

/* The rank that an error of another one is about, as team_agree tells it: "rank 5: ..."; else this one. */
static int whose(const watch_t *w, const char *why)
{
    int rank, n = 0;
    bool is_others = sscanf(why, "rank %d: %n", &rank, &n) == 1 && n > 0;
    return is_others && rank >= 0 && rank < w->world->size ? rank : w->rank;
}

void watch_abort(watch_t *w, const char *why)
{
    int rank = whose(w, why), left = rank == w->rank ? only_one_left(w) : -1;
    struct cause c = {.kind = WATCH_ABORT, .rank = rank, .slot = w->local};
    if (left >= 0)
        c = (struct cause){.kind = WATCH_LEFT_ABORT, .rank = left, .arg = rank, .slot = w->local};
    watch_raise_cause(w, c, error_of_rank(why, rank));
}

static const char *call_name(uint64_t call)
{
    return watch_what_name((enum watch_what)((call >> 56) - 1));
}

void watch_differs(watch_t *w, int rank, uint64_t call, int other, uint64_t others_call)
{
    char text[WATCH_TEXT_MAX + 1];
    bool is_same = call >> 56 == others_call >> 56;
    snprintf(text, sizeof text, "calls %s, but rank %d %s%s: all ranks must make the same calls in the same order",
             call_name(call), other, is_same ? "with another size or at another turn" : "calls ",
             is_same ? "" : call_name(others_call));
    watch_raise_cause(w, (struct cause){.kind = WATCH_DIFFERS, .rank = rank, .slot = w->local}, text);
}

void watch_waits_for(watch_t *w, int suspect)
{
    _Atomic int32_t *mine = &w->board->waits_for[w->rank];
    flight_waits(w->flight, suspect);
    if (!atomic_load_explicit(&w->board->census, memory_order_relaxed) || atomic_load(mine) == suspect + 1)
        return;
    atomic_store(mine, suspect + 1);
    watch_sync(w);
}

static void raise_late(watch_t *w, int culprit, double timeout_s, enum watch_what what)
{
    struct cause c = {.kind = WATCH_LATE, .rank = culprit, .arg = w->rank, .what = what, .slot = w->local};
    char text[WATCH_TEXT_MAX + 1];
    int n = snprintf(text, sizeof text, "%.10g s", timeout_s);
    if (w->timeout_name)
        snprintf(text + n, sizeof text - (size_t)n, " (%s)", w->timeout_name);
    watch_raise_cause(w, c, text);
}

/* A waiter sleeps until its deadline at most: one that comes so much later stood still itself, as in a suspended step,
 * and so may have the rank that it waits for. */
#define OVERSLEPT_NS NS_PER_S

bool watch_is_late(watch_t *w, int suspect, uint64_t deadline, double timeout_s, enum watch_what what)
{
    uint64_t now = clock_ns(), grace_ns = (uint64_t)((timeout_s < 4 ? timeout_s / 4 : 1) * NS_PER_S);
    if (!atomic_exchange(&w->board->census, 1))
        board_ring(w->board);
    watch_waits_for(w, suspect);
    if (w->late.deadline != deadline && now > deadline + OVERSLEPT_NS)
        w->late.not_before = deadline_in(timeout_s);
    if (now < w->late.not_before) {
        w->late.deadline = deadline;
        w->late.since = now;
        return false;
    }
    int culprit = board_culprit(w->board, w->world, suspect);
    if (w->late.deadline != deadline || w->late.culprit != culprit) { /* things still move */
        w->late.deadline = deadline;
        w->late.culprit = culprit;
        w->late.since = now;
    }
    uint64_t still_ns = now - w->late.since;
    if (still_ns < grace_ns ||
        (culprit < 0 && still_ns < 4 * grace_ns)) /* a circle dissolves, unless the calls differ */
        return false;
    if (culprit < 0 && suspect == WATCH_ANYONE)
        watch_raise(w, WATCH_STUCK, w->rank, 0, what);
    else
        raise_late(w, culprit < 0 ? suspect : culprit, timeout_s, what);
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
    watch_sync(w);
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

void watch_event_signal(watch_t *w)
{
    watch_fd_signal(w->event_fd);
}

void watch_event_clear(watch_t *w)
{
    watch_fd_clear(w->event_fd);
}
