/* Where the ranks of a node meet: forked processes over one board. */
#include "t/unit/unit.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "spank/board.h"

#define PATIENCE_S 20.0 /* of waits that end earlier */

/* What the ranks tell the test, and each other. */
static struct tally {
    _Atomic int n_loads, n_good, n_bad, n_here;
} *tally;

/* Whether n ranks have come so far: what is not theirs to be late for does not depend on how busy the machine is. */
static bool meet(int n)
{
    uint64_t deadline = deadline_in(PATIENCE_S);
    tally->n_here++;
    while (tally->n_here < n && deadline_left_ns(deadline) > 0)
        usleep(100);
    return tally->n_here >= n;
}

static int set_up(void **state)
{
    (void)state;
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return tally == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return munmap(tally, sizeof *tally);
}

/* Runs f(board, i) for i in [first, n) in a process each; f's answer is counted as good or bad. */
static void fork_ranks(struct board *b, int first, int n, bool (*f)(struct board *, int))
{
    int status;
    for (int i = first; i < n; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            bool good = f(b, i);
            (*(good ? &tally->n_good : &tally->n_bad))++;
            board_leave(b);
            board_destroy(b);
            _exit(0);
        }
    }
    int n_lost = 0; /* told when nobody is left */
    for (pid_t pid; (pid = wait(&status)) > 0 || errno == EINTR;)
        n_lost += pid > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(n_lost, 0);
}

static struct placement_rank facts_of(int i)
{
    struct placement_rank r = {.n_devices = (int16_t)(i % 7)};
    cpus_add(&r.mask, (unsigned)i);
    return r;
}

static bool post_and_look(struct board *b, int rank)
{
    const struct placement_rank *all;
    struct placement_rank mine = facts_of(rank);
    board_post(b, rank, &mine);
    if (board_wait(b, deadline_in(PATIENCE_S), &all, NULL) < 0)
        return false;
    for (int i = 0; i < board_size(b); i++) {
        struct placement_rank want = facts_of(i);
        if (!cpus_equal(&all[i].mask, &want.mask) || all[i].n_devices != want.n_devices)
            return false;
    }
    return true;
}

static void all_see_what_all_post(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct board *b = board_create(sizes[i]);
        assert_non_null(b);
        tally->n_good = tally->n_bad = 0;
        fork_ranks(b, 0, sizes[i], post_and_look);
        assert_int_equal(tally->n_good, sizes[i]);
        board_destroy(b);
    }
}

static bool give_up(struct board *b, int rank)
{
    ddp_error_t e;
    const struct placement_rank *all = NULL;
    struct placement_rank mine = facts_of(rank);
    board_post(b, rank, &mine);
    if (!meet(3))
        return false;
    uint64_t start = clock_ns();
    return board_wait(b, deadline_in(0.2), &all, &e) < 0 && e.domain == DDP_E_TIMEOUT && !all &&
           clock_ns() - start >= NS_PER_S / 5 &&
           strstr(e.text, "2 of this node's 5 ranks did not come in time");
}

static void who_does_not_come_is_not_waited_for(void **state)
{
    (void)state;
    struct board *b = board_create(5);
    tally->n_good = tally->n_bad = tally->n_here = 0;
    fork_ranks(b, 2, 5, give_up);
    assert_int_equal(tally->n_good, 3);
    board_destroy(b);
}

static int load(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp)
{
    (void)deadline;
    tally->n_loads++;
    if (!arg)
        return error_set(errp, DDP_E_SYSTEM, EIO, "nothing is known");
    ret->n_cores = 3;
    snprintf(ret->origin, sizeof ret->origin, "%s", (const char *)arg);
    return 0;
}

static bool load_well(struct board *b, int rank)
{
    (void)rank;
    const struct inventory *inv = board_inventory(b, load, "here", deadline_in(PATIENCE_S), NULL);
    return inv && inv->n_cores == 3 && !strcmp(inv->origin, "here") &&
           board_inventory(b, load, "there", deadline_in(PATIENCE_S), NULL) == inv;
}

static bool load_in_vain(struct board *b, int rank)
{
    (void)rank;
    ddp_error_t e;
    return !board_inventory(b, load, NULL, deadline_in(PATIENCE_S), &e) && e.domain == DDP_E_SYSTEM &&
           !strcmp(e.text, "nothing is known");
}

static int find(void *arg, uint64_t deadline, char ret[NCCL_INTERFACE_TEXT], ddp_error_t *errp)
{
    (void)deadline;
    tally->n_loads++;
    if (!arg)
        return error_set(errp, DDP_E_SYSTEM, ENODEV, "no interface");
    strcpy(ret, arg);
    return 0;
}

static bool find_well(struct board *b, int rank)
{
    (void)rank;
    const char *found = board_interface(b, find, "eth0", deadline_in(PATIENCE_S), NULL);
    return found && !strcmp(found, "eth0") && board_interface(b, find, "eth1", deadline_in(PATIENCE_S), NULL) == found;
}

static bool find_in_vain(struct board *b, int rank)
{
    (void)rank;
    ddp_error_t e;
    return !board_interface(b, find, NULL, deadline_in(PATIENCE_S), &e) && e.domain == DDP_E_SYSTEM &&
           !strcmp(e.text, "no interface");
}

static void what_all_need_is_found_once(void **state)
{
    (void)state;
    bool (*const kinds[])(struct board *, int) = {load_well, load_in_vain, find_well, find_in_vain};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct board *b = board_create(16);
        tally->n_good = tally->n_bad = tally->n_loads = 0;
        fork_ranks(b, 0, 16, kinds[i]);
        assert_int_equal(tally->n_good, 16);
        assert_int_equal(tally->n_loads, 1);
        board_destroy(b);
    }
}

static int die(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp)
{
    (void)deadline;
    (void)arg, (void)ret, (void)errp;
    _exit(0);
}

static bool load_dying(struct board *b, int rank)
{
    ddp_error_t e;
    return rank && !board_inventory(b, die, NULL, deadline_in(0.2), &e) && e.domain == DDP_E_TIMEOUT;
}

static void a_rank_that_dies_reading_holds_nobody_up(void **state)
{
    (void)state;
    struct board *b = board_create(4);
    tally->n_good = tally->n_bad = 0;
    fork_ranks(b, 1, 4, load_dying);
    assert_int_equal(tally->n_good, 2); /* one has died */
    board_destroy(b);
}

static bool wait_or_show(struct board *b, int rank)
{
    if (!meet(4)) /* so that the others wait, or are about to */
        return false;
    if (rank == 0) {
        tally->n_loads = 1;
        board_shown(b);
        return true;
    }
    return board_wait_shown(b, deadline_in(PATIENCE_S)) && tally->n_loads == 1 && board_wait_shown(b, clock_ns());
}

static void ranks_wait_until_all_is_shown(void **state)
{
    (void)state;
    struct board *b = board_create(4);
    tally->n_good = tally->n_bad = tally->n_loads = tally->n_here = 0;
    assert_false(board_wait_shown(b, deadline_in(0.05)));
    fork_ranks(b, 0, 4, wait_or_show);
    assert_int_equal(tally->n_good, 4);
    board_destroy(b);
}

/* KiB of shared memory that the process has touched. */
static long shared_kib(void)
{
    char line[128];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        sscanf(line, "RssShmem: %ld", &kib);
    fclose(f);
    return kib;
}

static void the_last_to_leave_gives_the_memory_back(void **state)
{
    (void)state;
    static struct inventory big;
    struct board *b = board_create(64);
    struct placement_rank r = facts_of(0);
    long before = shared_kib();
    for (int i = 0; i < 64; i++)
        board_post(b, i, &r);
    memset(&big, 1, sizeof big);
    struct inventory *inv = (struct inventory *)(uintptr_t)board_inventory(b, load, "x", deadline_in(PATIENCE_S), NULL);
    memcpy(inv, &big, sizeof big);
    assert_true(shared_kib() - before > 300);
    for (int i = 0; i < 63; i++)
        board_leave(b);
    assert_true(shared_kib() - before > 300);
    board_leave(b);
    assert_true(shared_kib() - before < 16);
    board_destroy(b);
}

static void sizes_without_sense_give_none(void **state)
{
    (void)state;
    assert_null(board_create(0));
    assert_null(board_create(-1));
    assert_null(board_create(PLACEMENT_RANKS_MAX + 1));
    board_destroy(NULL);
    struct board *b = board_create(PLACEMENT_RANKS_MAX);
    assert_non_null(b);
    board_destroy(b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_see_what_all_post),
    cmocka_unit_test(who_does_not_come_is_not_waited_for),
    cmocka_unit_test(what_all_need_is_found_once),
    cmocka_unit_test(a_rank_that_dies_reading_holds_nobody_up),
    cmocka_unit_test(ranks_wait_until_all_is_shown),
    cmocka_unit_test(the_last_to_leave_gives_the_memory_back),
    cmocka_unit_test(sizes_without_sense_give_none),
};

int main(void)
{
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
