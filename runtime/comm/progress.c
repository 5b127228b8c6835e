/* Who drives the engine: a caller that waits, or the thread.
 *
 * Whoever waits inside a call drives, in both modes, so that small calls pay no hand-over. The thread drives between
 * calls only. AUTO takes it where the node has more cores for its ranks than ranks, else the caller. Measured with
 * t/lib/commbench on 2 cores, float32 sums as eight works, each after 1 ms of something else in which comm_progress is
 * called four times; medians in ms, caller / thread:
 *
 *   ranks = cores (arithmetic), one node, 25 MiB     2 ranks 15.2 / 15.4, 4 ranks 30.7 / 31.8
 *   the same, 2 nodes (network namespaces), 8 MiB    18.0 / 20.1; link shaped to 8 Gbit/s, 4 MiB 15.6 / 16.7
 *   ranks < cores (1 ms asleep: a core is free)      one node, 25 MiB 12.7 / 11.3; 2 nodes, 8 MiB 17.3 / 12.2
 *
 * Where all cores compute, the thread's share of one is taken from the computing, with a switch on top. So a program
 * whose own threads fill the cores that its ranks leave should ask for CALLER. The thread leaves works to callers that
 * wait for them at once (idle.h): 4 bytes between two nodes take 0.013 ms so, and 0.049 where each start wakes it. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"
#include "runtime/comm/wireup.h"

void progress_lock(comm_t *c)
{
    struct engine *e = &c->engine;
    atomic_fetch_add(&e->n_wanting, 1);
    pthread_mutex_lock(&e->lock);
    atomic_fetch_sub(&e->n_wanting, 1);
}

void progress_unlock(comm_t *c)
{
    if (c->engine.is_polite) /* the thread stepped back for this one */
        pthread_cond_signal(&c->engine.turn);
    pthread_mutex_unlock(&c->engine.lock);
}

/* For the thread's looks: are there works that no caller drives or has driven since the last look? */
static bool is_left(void *arg)
{
    struct engine *e = &((comm_t *)arg)->engine;
    uint64_t before = e->drives_seen;
    e->drives_seen = atomic_load(&e->drives);
    return atomic_load(&e->n_works) > 0 && !atomic_load(&e->is_driven) && e->drives_seen == before;
}

/* The thread, without the lock, waits until it is to drive, and takes it. */
static void rest(comm_t *c)
{
    struct engine *e = &c->engine;
    idle_wait(&e->idle, is_left, c);
    pthread_mutex_lock(&e->lock);
    e->drives_seen = e->drives;
}

/* After a sleep. The thread keeps away from a caller who drives. */
static void take_lock(comm_t *c, bool is_thread)
{
    struct engine *e = &c->engine;
    if (is_thread)
        e->is_asleep = false;
    if (is_thread && e->is_driven)
        rest(c);
    else
        pthread_mutex_lock(&e->lock);
}

/* Releases the lock, sleeps until the bell has rung since it was read, and takes the lock again. It does not look
 * at what rang the bell: the caller's next engine_step does. */
static void sleep_on_bell(comm_t *c, bool is_thread, uint32_t bell, uint64_t deadline)
{
    if (engine_step(c) || watch_is_broken(c->watch))
        return;
    pthread_mutex_unlock(&c->engine.lock);
    watch_bell_wait(c->watch, bell, deadline);
    take_lock(c, is_thread);
}

static void sleep_in_poll(comm_t *c, bool is_thread, uint64_t deadline)
{
    struct engine *e = &c->engine;
    struct pollfd *p = e->polls[is_thread];
    size_t n = (size_t)c->n_nodes;
    _Atomic uint32_t *in_poll = &c->shm.control->slots[c->local].in_poll;
    atomic_store(in_poll, 1);
    if (!engine_step(c) && !watch_is_broken(c->watch)) {
        tcp_polls(c->tcp, p);
        p[n] = (struct pollfd){.fd = watch_event_fd(c->watch), .events = POLLIN};
        p[n + 1] = (struct pollfd){.fd = c->shm.door, .events = POLLIN};
        pthread_mutex_unlock(&e->lock);
        poll(p, (nfds_t)n + 2, deadline_left_ms(deadline));
        take_lock(c, is_thread);
    }
    if (!is_thread || !e->is_driven) /* else the flag is the driver's */
        atomic_store(in_poll, 0);
}

/* Before the engine is looked at again: what rang is silenced first, so that nothing is missed. */
static void take_rings(comm_t *c)
{
    if (!c->tcp)
        return;
    watch_event_clear(c->watch);
    shm_doorbell_clear(&c->shm);
}

/* bell: read before engine_look, which would not hear of a rank that leaves in between. */
static void doze(comm_t *c, bool is_thread, uint32_t bell, uint64_t deadline)
{
    if (c->tcp)
        sleep_in_poll(c, is_thread, deadline);
    else
        sleep_on_bell(c, is_thread, bell, deadline);
}

/* ---- a caller that waits ---- */

static bool is_over(const comm_t *c, const comm_work_t *w)
{
    return w ? atomic_load(&w->is_done) : c->engine.n_works == 0;
}

static enum watch_what what_of(const comm_work_t *w)
{
    return w ? w->what : WATCH_IN_ALLREDUCE;
}

/* Nothing has moved for a while: looks for who will never come, and sleeps. */
static void wait_longer(comm_t *c, const comm_work_t *w, uint64_t deadline)
{
    uint32_t bell = watch_bell(c->watch);
    engine_look(c);
    int suspect = engine_suspect(c);
    if (watch_is_broken(c->watch))
        return;
    watch_waits_for(c->watch, suspect);
    if (suspect >= 0 && deadline_left_ns(deadline) == 0 &&
        watch_is_late(c->watch, suspect, deadline, c->shm.timeout_s, what_of(w)))
        return;
    doze(c, false, bell, watch_alarm(deadline));
    take_rings(c);
}

/* Ends the thread's sleep amid works. */
static void rouse(comm_t *c)
{
    if (!c->engine.is_asleep)
        return;
    if (c->tcp)
        watch_event_signal(c->watch);
    else
        watch_bell_ring(c->watch);
}

/* The thread may sleep without having heard of what the last driver left: it is woken wherever it is. */
void progress_wake(comm_t *c)
{
    if (!c->engine.has_thread)
        return;
    idle_wake(&c->engine.idle);
    rouse(c);
}

void progress_wake_soon(comm_t *c)
{
    if (!c->engine.has_thread)
        return;
    idle_wake_soon(&c->engine.idle);
    rouse(c);
}

static void drive(comm_t *c, const comm_work_t *w)
{
    uint64_t deadline = 0; /* of the present standstill: a slow link is not a dead one */
    struct shm_pause pause = {0};
    while (!is_over(c, w) && !watch_is_broken(c->watch)) {
        if (engine_step(c)) {
            pause.n = 0;
            deadline = 0;
        } else if (!shm_pause(&c->shm, &pause, c->tcp != NULL)) {
            deadline = deadline ? deadline : deadline_in(c->shm.timeout_s);
            wait_longer(c, w, deadline);
        }
    }
    watch_waits_for(c->watch, -1);
}

int progress_wait(comm_t *c, const comm_work_t *w, ddp_error_t *errp)
{
    struct engine *e = &c->engine;
    progress_lock(c);
    e->is_driven = true;
    e->drives++;
    drive(c, w);
    e->is_driven = false;
    bool is_done = is_over(c, w);
    if (e->n_works > 0)
        progress_wake(c);
    else
        rouse(c); /* from here on it is not to wake for what arrives */
    progress_unlock(c);
    if (!w && watch_is_broken(c->watch))
        return watch_error(c->watch, errp);
    return is_done ? 0 : watch_error(c->watch, errp);
}

int comm_begin(comm_t *c, enum watch_what what, uint64_t args, ddp_error_t *errp)
{
    if (progress_wait(c, NULL, errp) < 0)
        return -1;
    uint64_t call = comm_number(c, what, args);
    if (!c->engine.net)
        return 0;
    net_compare(c, call);
    return watch_is_broken(c->watch) ? watch_error(c->watch, errp) : 0;
}

/* ---- the thread ---- */

/* Once a caller has driven, the thread waits until it is told again: two that look for each other's gaps would take
 * turns at every work. */
static bool has_turn(const comm_t *c)
{
    const struct engine *e = &c->engine;
    return e->n_works > 0 && !e->is_driven && e->drives == e->drives_seen && !watch_is_broken(c->watch);
}

static void *thread_main(void *arg)
{
    comm_t *c = arg;
    struct engine *e = &c->engine;
    pthread_mutex_lock(&e->lock);
    while (!e->stop) {
        if (!has_turn(c)) {
            pthread_mutex_unlock(&e->lock);
            rest(c);
            continue;
        }
        e->is_polite = atomic_load(&e->n_wanting) > 0; /* a mutex alone would let the thread take it again */
        if (e->is_polite) {
            pthread_cond_wait(&e->turn, &e->lock);
            continue;
        }
        take_rings(c);
        uint32_t bell = watch_bell(c->watch);
        if (!engine_step(c)) {
            engine_look(c);
            e->is_asleep = true;
            doze(c, true, bell, deadline_in(3600));
            e->is_asleep = false;
        }
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

int progress_start(comm_t *c, enum comm_progress_mode mode, ddp_error_t *errp)
{
    struct engine *e = &c->engine;
    for (int i = 0; i < 2; i++)
        if (!(e->polls[i] = calloc((size_t)c->n_nodes + 2, sizeof *e->polls[i])))
            return error_errno(errp, "communicator");
    bool has_spare = c->world->size > 1 && c->shm.n_cores > (size_t)c->local_size;
    if (mode == COMM_PROGRESS_CALLER || (mode == COMM_PROGRESS_AUTO && !has_spare))
        return 0;
    int err = thread_start(&e->thread, thread_main, c);
    if (err)
        return error_set(errp, DDP_E_SYSTEM, err, "progress thread " THREAD_LIMITS ": %s", strerror(err));
    e->has_thread = true;
    return 0;
}

void progress_stop(comm_t *c)
{
    struct engine *e = &c->engine;
    if (e->has_thread) {
        progress_lock(c);
        e->stop = true;
        progress_wake(c);
        progress_unlock(c);
        pthread_join(e->thread, NULL);
        e->has_thread = false;
    }
    for (int i = 0; i < 2; i++) {
        free(e->polls[i]);
        e->polls[i] = NULL;
    }
}
