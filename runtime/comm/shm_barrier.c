/* How the ranks of a node wait for each other: calls compared, the barrier, doorbells. */
#include <config.h> /* sched_getaffinity */

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "runtime/base/clock.h"
#include "runtime/comm/shm.h"

enum {
    PAUSE_NS = 100000,
    POLLS_NS = 5000000,
    RINGS_MAX = 64, /* taken at once: strangers may ring without end */
};

static int rank_of(const struct shm *s, int local)
{
    return world_rank_at(s->world, s->node, local);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* takes about as long; "yield" does nothing where a core has one thread */
#endif
}

bool shm_pause(const struct shm *s, struct shm_pause *p, bool is_system_call)
{
    uint64_t now = clock_ns();
    if (p->n++ == 0)
        p->since_ns = now;
    if (now - p->since_ns > (is_system_call && s->may_spin ? POLLS_NS : PAUSE_NS))
        return false;
    if (s->may_spin && !is_system_call)
        relax();
    else
        sched_yield();
    return true;
}

/* ---- calls ---- */

void shm_begin(struct shm *s, uint64_t call)
{
    struct shm_slot *mine = &s->control->slots[s->local];
    s->begun++;
    atomic_store(&mine->calls[s->begun % SHM_CALLS], call);
    atomic_store(&mine->begun, s->begun);
}

uint64_t shm_call(const struct shm *s, int local, uint64_t n)
{
    struct shm_slot *slot = &s->control->slots[local];
    if (n == 0 || atomic_load(&slot->begun) < n)
        return 0;
    uint64_t call = atomic_load(&slot->calls[n % SHM_CALLS]);
    return atomic_load(&slot->begun) - n < SHM_CALLS - 1 ? call : 0; /* the next may be about to take its place */
}

int shm_check_calls(struct shm *s, uint64_t n, bool all, ddp_error_t *errp)
{
    uint64_t mine = shm_call(s, s->local, n);
    if (mine == 0) /* too long ago */
        return 0;
    for (int l = 0; l < s->local_size; l++) {
        uint64_t other = shm_call(s, l, n), begun = atomic_load(&s->control->slots[l].begun);
        if (all && begun < n)
            other = shm_call(s, l, begun);
        if (other == 0 || other == mine || l == s->local)
            continue;
        watch_differs(s->watch, rank_of(s, l), other, s->world->rank, mine);
        return watch_error(s->watch, errp);
    }
    return 0;
}

/* ---- doorbells ---- */

static socklen_t door_address(const char *name, struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t n = strnlen(name, SHM_NAME_MAX);
    memcpy(a->sun_path + 1, name, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* The kernel draws a free abstract name. A stranger who rings only wakes us for nothing. */
int shm_doorbell_open(struct shm *s, ddp_error_t *errp)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t n = sizeof a;
    s->door = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->door < 0 || bind(s->door, (struct sockaddr *)&a, sizeof a.sun_family) < 0 ||
        getsockname(s->door, (struct sockaddr *)&a, &n) < 0)
        return error_errno(errp, "unix socket for a doorbell");
    size_t name = n - offsetof(struct sockaddr_un, sun_path) - 1;
    if (name > SHM_NAME_MAX)
        return error_set(errp, DDP_E_SYSTEM, ENAMETOOLONG, "the kernel named a unix socket with %zu bytes", name);
    memcpy(s->control->slots[s->local].doorbell, a.sun_path + 1, name);
    return 0;
}

void shm_doorbell_clear(struct shm *s)
{
    char rings[64];
    for (int i = 0; i < RINGS_MAX && recv(s->door, rings, sizeof rings, MSG_DONTWAIT) >= 0; i++)
        ;
}

void shm_ring(struct shm *s)
{
    watch_bell_ring(s->watch);
    for (int l = 0; s->door >= 0 && l < s->local_size; l++) {
        struct shm_slot *slot = &s->control->slots[l];
        struct sockaddr_un a;
        if (l == s->local || !atomic_load(&slot->in_poll) || !atomic_exchange(&slot->in_poll, 0))
            continue;
        socklen_t n = door_address(slot->doorbell, &a); /* a full queue is a bell that rings already */
        sendto(s->door, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&a, n);
    }
}

/* ---- the barrier ---- */

static bool is_complete(const struct shm *s)
{
    return atomic_load_explicit(&s->control->epoch, memory_order_acquire) >= s->seq;
}

/* A local rank that has not come, or -1. left_only: one that never will. (A rank comes before it leaves, so what is
 * read first is whether it left.) */
static int find_missing(const struct shm *s, bool left_only)
{
    for (int l = 0; l < s->local_size; l++) {
        bool has_left = watch_has_left(s->watch, rank_of(s, l));
        if ((has_left || !left_only) && atomic_load(&s->control->slots[l].n_barriers) < s->seq)
            return l;
    }
    return -1;
}

static int sleep_until_complete(struct shm *s, enum watch_what what, ddp_error_t *errp)
{
    uint64_t deadline = deadline_in(s->timeout_s);
    for (;;) {
        uint32_t bell = watch_bell(s->watch);
        int gone = find_missing(s, true), late = find_missing(s, false);
        if (late < 0 || is_complete(s)) {
            watch_waits_for(s->watch, -1);
            return shm_check_calls(s, s->begun, true, errp);
        }
        if (shm_check_calls(s, s->begun, false, errp) < 0) /* who is late may be in another call */
            return -1;
        if (gone >= 0)
            watch_raise(s->watch, WATCH_LEFT, rank_of(s, gone), s->world->rank, what);
        if (watch_is_broken(s->watch))
            return watch_error(s->watch, errp);
        watch_waits_for(s->watch, rank_of(s, late));
        if (deadline_left_ns(deadline) == 0 && watch_is_late(s->watch, rank_of(s, late), deadline, s->timeout_s, what))
            continue;
        watch_bell_wait(s->watch, bell, watch_alarm(deadline));
    }
}

int shm_barrier(struct shm *s, enum watch_what what, ddp_error_t *errp)
{
    if (watch_is_broken(s->watch))
        return watch_error(s->watch, errp);
    if (s->local_size == 1)
        return 0;
    struct shm_control *c = s->control;
    s->seq++;
    bool is_last = atomic_fetch_add(&c->count, 1) + 1 == s->seq * (uint64_t)s->local_size;
    atomic_store(&c->slots[s->local].n_barriers, s->seq); /* after the count: who sees all arrived may go on */
    if (is_last) {
        if (shm_check_calls(s, s->begun, true, errp) < 0)
            return -1;
        atomic_store_explicit(&c->epoch, s->seq, memory_order_release);
        shm_ring(s); /* others may sleep in poll() for an operation */
        return 0;
    }
    struct shm_pause pause = {0};
    do {
        if (is_complete(s))
            return 0;
    } while (shm_pause(s, &pause, false));
    return sleep_until_complete(s, what, errp);
}

int shm_count_cores(struct shm *s, ddp_error_t *errp)
{
    uint64_t all[SHM_CPU_WORDS] = {0};
    struct shm_slot *slots = s->control->slots;
    size_t cores = 0;
    if (sched_getaffinity(0, sizeof slots->cpus, (cpu_set_t *)slots[s->local].cpus) < 0)
        memset(slots[s->local].cpus, 0, sizeof slots->cpus); /* then nobody spins, which is slower but right */
    if (shm_barrier(s, WATCH_IN_WIRING, errp) < 0)
        return -1;
    for (int l = 0; l < s->local_size; l++)
        for (int i = 0; i < SHM_CPU_WORDS; i++)
            all[i] |= slots[l].cpus[i];
    for (int i = 0; i < SHM_CPU_WORDS; i++)
        cores += (size_t)__builtin_popcountll(all[i]);
    s->n_cores = cores;
    s->may_spin = (size_t)s->local_size <= cores;
    return 0;
}
