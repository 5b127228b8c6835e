#include "spank/board.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"

enum once_state { ONCE_NEW, ONCE_RUNS, ONCE_DONE, ONCE_FAILED };

/* Of what one rank does for all. */
struct once {
    _Atomic uint32_t state; /* enum once_state */
    ddp_error_t error;
};

/* All zero at first. What is written before an atomic changes is read after the change is seen. */
struct shared {
    _Atomic uint32_t n_posted, n_left, is_shown;
    struct once load, find;
    char interface[NCCL_INTERFACE_TEXT];
    struct inventory inventory;
    struct placement_rank rank[];
};

struct board {
    struct shared *shared;
    size_t bytes;
    int n_ranks;
};

struct board *board_create(int n_ranks)
{
    struct board *b = n_ranks < 1 || n_ranks > PLACEMENT_RANKS_MAX ? NULL : calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->n_ranks = n_ranks;
    b->bytes = sizeof *b->shared + (size_t)n_ranks * sizeof b->shared->rank[0];
    b->shared = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->shared == MAP_FAILED) {
        free(b);
        b = NULL;
    }
    return b;
}

void board_destroy(struct board *b)
{
    int saved = errno;
    if (b)
        munmap(b->shared, b->bytes);
    free(b);
    errno = saved;
}

int board_size(const struct board *b)
{
    return b->n_ranks;
}

static void wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Waits until *word is no longer `seen`, or until the deadline. Returns its value. */
static uint32_t wait_change(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline)
{
    uint32_t now;
    uint64_t left;
    while ((now = atomic_load(word)) == seen && (left = deadline_left_ns(deadline)) > 0) {
        struct timespec t = {.tv_sec = (time_t)(left / NS_PER_S), .tv_nsec = (long)(left % NS_PER_S)};
        syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
    }
    return now;
}

void board_post(struct board *b, int local_rank, const struct placement_rank *facts)
{
    b->shared->rank[local_rank] = *facts;
    atomic_fetch_add(&b->shared->n_posted, 1);
    wake_all(&b->shared->n_posted);
}

int board_wait(struct board *b, uint64_t deadline, const struct placement_rank **ret, ddp_error_t *errp)
{
    uint32_t n = atomic_load(&b->shared->n_posted), want = (uint32_t)b->n_ranks;
    while (n < want) {
        uint32_t now = wait_change(&b->shared->n_posted, n, deadline);
        if (now == n)
            return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%u of this node's %u ranks did not come in time",
                             want - n, want);
        n = now;
    }
    *ret = b->shared->rank;
    return 0;
}

/* True: it is the caller's to do, and to end. */
static bool begin_once(struct once *o)
{
    uint32_t state = ONCE_NEW;
    return atomic_compare_exchange_strong(&o->state, &state, ONCE_RUNS);
}

static void end_once(struct once *o, int rc)
{
    atomic_store(&o->state, rc == 0 ? ONCE_DONE : ONCE_FAILED);
    wake_all(&o->state);
}

/* 0, or -1: whoever did it failed, or has not ended by the deadline. */
static int wait_once(struct once *o, uint64_t deadline, const char *what, ddp_error_t *errp)
{
    uint32_t state = wait_change(&o->state, ONCE_RUNS, deadline);
    if (state == ONCE_DONE)
        return 0;
    if (state != ONCE_FAILED)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "the rank that %s has not done so in time", what);
    if (errp)
        *errp = o->error;
    return -1;
}

const struct inventory *board_inventory(struct board *b, board_load_f *load, void *arg, uint64_t deadline,
                                        ddp_error_t *errp)
{
    struct shared *s = b->shared;
    if (begin_once(&s->load))
        end_once(&s->load, load(arg, deadline, &s->inventory, &s->load.error));
    return wait_once(&s->load, deadline, "reads this node's topology", errp) == 0 ? &s->inventory : NULL;
}

const char *board_interface(struct board *b, board_find_f *find, void *arg, uint64_t deadline, ddp_error_t *errp)
{
    struct shared *s = b->shared;
    if (begin_once(&s->find))
        end_once(&s->find, find(arg, deadline, s->interface, &s->find.error));
    return wait_once(&s->find, deadline, "looks for the interface to the other nodes", errp) == 0 ? s->interface : NULL;
}

void board_shown(struct board *b)
{
    atomic_store(&b->shared->is_shown, 1);
    wake_all(&b->shared->is_shown);
}

bool board_wait_shown(struct board *b, uint64_t deadline)
{
    return wait_change(&b->shared->is_shown, 0, deadline) != 0;
}

void board_leave(struct board *b)
{
    if (atomic_fetch_add(&b->shared->n_left, 1) + 1 == (uint32_t)b->n_ranks)
        madvise(b->shared, b->bytes, MADV_REMOVE);
}
