#include "runtime/comm/watch_board.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/notice.h"
#include "runtime/base/plain.h"

enum { ARG_BITS = 20, RANK_BITS = 20, SLOT_BITS = 12, WHAT_BITS = 4 };

static uint64_t low(uint64_t v, int bits)
{
    return v & ((1ull << bits) - 1);
}

static uint64_t cause_pack(struct cause c)
{
    uint64_t word = (uint64_t)c.kind;
    word = word << WHAT_BITS | low((uint64_t)c.what, WHAT_BITS);
    word = word << SLOT_BITS | low((uint64_t)c.slot, SLOT_BITS);
    word = word << ARG_BITS | low((uint64_t)c.arg, ARG_BITS);
    return word << RANK_BITS | low((uint64_t)c.rank, RANK_BITS);
}

struct cause cause_unpack(uint64_t word)
{
    struct cause c = {.rank = (int)low(word, RANK_BITS)};
    c.arg = (int)low(word >>= RANK_BITS, ARG_BITS);
    c.slot = (int)low(word >>= ARG_BITS, SLOT_BITS);
    c.what = (enum watch_what)low(word >>= SLOT_BITS, WHAT_BITS);
    c.kind = (enum watch_kind)(word >> WHAT_BITS);
    return c;
}

const char *watch_what_name(enum watch_what what)
{
    static const char *const names[] = {"barrier",
                                        "all-reduce",
                                        "broadcast",
                                        "all-gather",
                                        "reduce-scatter",
                                        "all-to-all",
                                        "segment creation",
                                        "wire-up",
                                        "the wire-up of NCCL",
                                        "an operation of NCCL",
                                        "the registration of memory with NCCL",
                                        "the registration of a window with NCCL",
                                        "the end of NCCL"};
    return (size_t)what < sizeof names / sizeof *names ? names[what] : "a collective";
}

static const char *how_it_died(int status, char *buf, size_t size)
{
    if (status != WATCH_STATUS_UNKNOWN && WIFSIGNALED(status))
        snprintf(buf, size, " (signal %d, %s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (status != WATCH_STATUS_UNKNOWN)
        snprintf(buf, size, " (exit code %d)", WEXITSTATUS(status));
    else
        buf[0] = 0;
    return buf;
}

int cause_error(const struct world *w, struct cause c, const char *text, const flight_t *flight, ddp_error_t *errp)
{
    char who[96], how[64], where[80];
    world_rank_name(w, c.rank, who, sizeof who);
    switch (c.kind) {
    case WATCH_DIED:
        return error_set(errp, DDP_E_PEER, ECONNRESET, "%s died%s", who, how_it_died(c.arg, how, sizeof how));
    case WATCH_LOST:
        return error_set(errp, DDP_E_PEER, c.arg, "%s cannot be reached (%s)", who, strerror(c.arg));
    case WATCH_LEFT:
        return error_set(errp, DDP_E_PEER, ESHUTDOWN, "%s left the job while rank %d waits in %s", who, c.arg,
                         watch_what_name(c.what));
    case WATCH_LATE:
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%s did not come before the deadline; rank %d waited in %s%s "
                         "for %s", who, c.arg, watch_what_name(c.what), flight_where(flight, where, sizeof where),
                         text);
    case WATCH_ABORT:
        return error_set(errp, DDP_E_PEER, ECONNABORTED, "%s aborted: %s", who, text);
    case WATCH_LEFT_ABORT:
        return error_set(errp, DDP_E_PEER, ECONNABORTED, "%s left the job" NOTICE_THEN "rank %d aborted: %s", who,
                         c.arg, text);
    case WATCH_NOTICE:
        return error_set(errp, DDP_E_PEER, ECONNRESET, "%s", text);
    case WATCH_DIFFERS:
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s %s", who, text);
    case WATCH_STUCK:
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "all ranks wait in %s, and nothing moves: %s; NCCL_DEBUG=INFO "
                         "tells more", watch_what_name(c.what),
                         c.what == WATCH_IN_NCCL_WINDOW
                             ? "NCCL_WIN_ENABLE=0, on all ranks, goes without windows"
                             : "the network may not carry it (NCCL_SOCKET_IFNAME), or ranks made different calls");
    }
    return error_set(errp, DDP_E_COMM, EPROTO, "%s ended for an unknown cause", who);
}

char *board_text(struct watch_board *b, const struct world *w, int slot)
{
    return (char *)(b->waits_for + w->size) + (size_t)slot * (WATCH_TEXT_MAX + 1);
}

_Atomic uint8_t *board_left(struct watch_board *b, const struct world *w, int rank)
{
    int local_size = world_local_size(w, w->node_of[w->rank]);
    return (_Atomic uint8_t *)board_text(b, w, BOARD_TEXTS(local_size)) + rank;
}

size_t watch_board_bytes(int size, int local_size)
{
    size_t per_rank = sizeof(_Atomic int32_t) + sizeof(_Atomic uint8_t);
    size_t n_texts = (size_t)BOARD_TEXTS(local_size);
    return sizeof(struct watch_board) + (size_t)size * per_rank + n_texts * (WATCH_TEXT_MAX + 1);
}

static bool is_suspected(struct watch_board *b, const struct world *w, int rank)
{
    for (int r = 0; r < w->size; r++)
        if (atomic_load(&b->waits_for[r]) == rank + 1)
            return true;
    return false;
}

/* The lowest rank that does not wait, which is a node's leader before it is another of that node; -1: all wait. */
static int first_idle(struct watch_board *b, const struct world *w)
{
    for (int r = 0; r < w->size; r++)
        if (atomic_load(&b->waits_for[r]) == 0)
            return r;
    return -1;
}

int board_culprit(struct watch_board *b, const struct world *w, int suspect)
{
    int at = suspect, steps = 0, next = 0;
    while (at != WATCH_ANYONE && (next = atomic_load(&b->waits_for[at])) != 0 && steps++ < w->size)
        at = next - 1;
    if (at == WATCH_ANYONE)
        return first_idle(b, w);
    if (next != 0)
        return -1;
    int leader = world_rank_at(w, w->node_of[at], 0); /* a silent leader tells nothing of its node's waits either */
    return is_suspected(b, w, leader) && atomic_load(&b->waits_for[leader]) == 0 ? leader : at;
}

bool board_raise(struct watch_board *b, const struct world *w, struct cause c, const char *text)
{
    uint64_t none = atomic_load_explicit(&b->cause, memory_order_acquire);
    if (none != 0)
        return false;
    if (text)
        plain_fit(board_text(b, w, c.slot), WATCH_TEXT_MAX + 1, text);
    return atomic_compare_exchange_strong(&b->cause, &none, cause_pack(c));
}

void board_ring(struct watch_board *b)
{
    atomic_fetch_add(&b->bell, 1);
    if (atomic_load(&b->sleepers) > 0)
        syscall(SYS_futex, &b->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void board_wait(struct watch_board *b, uint32_t seen, uint64_t deadline)
{
    uint64_t left = deadline_left_ns(deadline);
    struct timespec t = {.tv_sec = (time_t)(left / NS_PER_S), .tv_nsec = (long)(left % NS_PER_S)};
    atomic_fetch_add(&b->sleepers, 1);
    syscall(SYS_futex, &b->bell, FUTEX_WAIT, seen, &t, NULL, 0);
    atomic_fetch_sub(&b->sleepers, 1);
}
