/* Ranks that sleep amid works: they sleep on, and can be woken to leave. */
#include "t/unit/unit.h"

#include <stdatomic.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/comm/wireup.h"
#include "t/lib/ranks.h"

static const struct comm_range one_float = {0, 1, DDP_F32};
static _Atomic int *n_looks; /* rank 0's, each before a sleep */

void __real_engine_look(comm_t *c);
void __wrap_engine_look(comm_t *c);

void __wrap_engine_look(comm_t *c)
{
    if (n_looks)
        ++*n_looks;
    __real_engine_look(c);
}

static bool reaches(_Atomic int *n, int least)
{
    for (uint64_t end = deadline_in(20); *n < least && deadline_left_ns(end) > 0;)
        usleep(100);
    return *n >= least;
}

static bool falls_asleep(const comm_t *c, int local, _Atomic int *looks)
{
    _Atomic uint32_t *in_poll = &c->shm.control->slots[local].in_poll;
    for (uint64_t end = deadline_in(20); c->tcp && !*in_poll && deadline_left_ns(end) > 0;)
        usleep(100);
    return reaches(looks, 1);
}

/* Rank 1 rings when it comes, to rank 0's sleep; then nothing happens until rank 2 comes. */
static int ringing_rank(struct job *j, int rank, comm_t *c)
{
    enum { LATE_MS = 300, FEW = 100 };
    _Atomic int *looks = j->shared, *has_come = looks + 1;
    ddp_error_t e = {0};
    comm_segment_t *s = comm_segment_create(c, sizeof(float), &e);
    CHECK(s && comm_barrier(c, &e) == 0, "%s", e.text);
    struct comm_reduce r = {.segment = s, .ranges = &one_float, .n_ranges = 1};
    n_looks = rank == 0 ? looks : NULL;
    if (rank == 1)
        CHECK(falls_asleep(c, 0, looks), "rank 0 does not sleep");
    if (rank == 2) {
        CHECK(reaches(has_come, 1), "rank 1 does not come");
        usleep(LATE_MS * 1000);
    }
    comm_work_t *w = comm_reduce_start(c, &r, &e);
    CHECK(w, "%s", e.text);
    *has_come += rank == 1;
    while (j->progress == COMM_PROGRESS_THREAD && !comm_is_done(w))
        usleep(1000);
    CHECK(comm_wait(w, &e) == 0, "%s", e.text);
    CHECK(rank != 0 || *looks < FEW, "%d sleeps in %d ms", *looks, LATE_MS);
    return 0;
}

static void who_has_been_woken_sleeps_again(void **state)
{
    (void)state;
    static const int one[] = {0, 0, 0}, two[] = {0, 0, 1};
    for (int i = 0; i < 4; i++) {
        struct job j = {.size = 3, .node_of = i / 2 ? two : one};
        j.progress = i % 2 ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
        if (!job_run_comm(&j, ringing_rank))
            fail_msg("layout %d, mode %d", i / 2, i % 2);
    }
}

/* Rank 0 leaves while its thread sleeps amid a work that rank 1 never begins. */
static int leaving_rank(struct job *j, int rank)
{
    _Atomic int *has_left = j->shared;
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    comm_segment_t *s = c ? comm_segment_create(c, sizeof(float), &e) : NULL;
    CHECK(s && comm_barrier(c, &e) == 0, "%s", e.text);
    struct comm_reduce r = {.segment = s, .ranges = &one_float, .n_ranges = 1};
    if (rank == 0) {
        alarm(30);
        CHECK(comm_reduce_start(c, &r, &e), "%s", e.text);
        for (uint64_t end = deadline_in(20); !atomic_load(&c->engine.is_asleep) && deadline_left_ns(end) > 0;)
            usleep(100);
        CHECK(atomic_load(&c->engine.is_asleep), "its thread does not sleep");
    } else
        CHECK(reaches(has_left, 1), "rank 0 does not end");
    comm_destroy(c);
    world_destroy(w);
    ++*has_left;
    return 0;
}

static void who_leaves_wakes_its_thread(void **state)
{
    (void)state;
    static const int one[] = {0, 0}, two[] = {0, 1};
    struct job a = {.size = 2, .node_of = one, .progress = COMM_PROGRESS_THREAD}, b = a;
    b.node_of = two;
    assert_true(job_run(&a, leaving_rank));
    assert_true(job_run(&b, leaving_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(who_has_been_woken_sleeps_again),
    cmocka_unit_test(who_leaves_wakes_its_thread),
};
UNIT_MAIN(tests)
