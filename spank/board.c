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

enum load_state { LOAD_NONE, LOAD_RUNS, LOAD_DONE, LOAD_FAILED };

/* All zero at first. What is written before an atomic changes is read after the change is seen. */
struct shared {
    _Atomic uint32_t n_posted, n_left, is_shown;
    _Atomic uint32_t load; /* enum load_state */
    ddp_error_t load_error;
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

static void load_into(struct shared *s, board_load_f *load, void *arg, uint64_t deadline)
{
    int rc = load(arg, deadline, &s->inventory, &s->load_error);
    atomic_store(&s->load, rc == 0 ? LOAD_DONE : LOAD_FAILED);
    wake_all(&s->load);
}

const struct inventory *board_inventory(struct board *b, board_load_f *load, void *arg, uint64_t deadline,
                                        ddp_error_t *errp)
{
    struct shared *s = b->shared;
    uint32_t state = LOAD_NONE;
    if (atomic_compare_exchange_strong(&s->load, &state, LOAD_RUNS)) {
        load_into(s, load, arg, deadline);
        state = atomic_load(&s->load);
    } else if (state == LOAD_RUNS) {
        state = wait_change(&s->load, LOAD_RUNS, deadline);
    }
    if (state == LOAD_DONE)
        return &s->inventory;
    if (state == LOAD_FAILED && errp)
        *errp = s->load_error;
    else
        error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "the rank that reads this node's topology has not done so in time");
    return NULL;
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
