/* The reducer with threads for ranks, under ThreadSanitizer: sums that are visited, and hooks that decode, on the
 * communicator's threads while others mark. */
#include "t/unit/unit.h"

#include "runtime/base/clock.h"
#include "t/lib/reduction.h"
#include "t/lib/threads.h"

static void drawn_jobs_do_not_race(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct reduction d = reduction_draw(seed);
        for (int i = 0; i < d.n_params; i++)
            d.elems[i] = 1 + d.elems[i] / 3; /* the sanitizer takes its time */
        struct job j = {.size = d.size, .node_of = d.node_of, .arg = &d};
        j.progress = seed % 2 ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
        if (!threads_run(&j, reduction_rank))
            fail_msg("seed %d: %d ranks, %d parameters", (int)seed, d.size, d.n_params);
    }
}

/* What a thread sums is read before it has been waited for. */
static int hasty_rank(struct job *j, int rank)
{
    static const struct reducer_config cfg = {.first_cap_bytes = 1, .cap_bytes = 1};
    ddp_error_t e = {0};
    struct reduction_kit k;
    double sum = 0;
    CHECK(reduction_open(&k, j, rank, (size_t[]){100000, 100000}, 2, &cfg, &e) == 0, "%s", e.text);
    reducer_micro_begin(&k.reducer, true);
    reducer_mark(&k.reducer, 1, MARK_READY);
    uint64_t deadline = deadline_in(10);
    do /* until its sum was written meanwhile */
        for (int i = 0; i < 100000; i++)
            sum += (double)reduction_grad(&k, 1)[i];
    while (!comm_is_done(k.reducer.bucket[0].work) && deadline_left_ns(deadline) > 0);
    reducer_mark(&k.reducer, 0, MARK_READY);
    CHECK(reducer_micro_end(&k.reducer, &e) == 0 && sum == 0, "%s", e.text);
    reduction_close(&k);
    return 0;
}

static void race(int *shared)
{
    static int n;
    struct job j = {.size = 2, .node_of = (int[]){0, 0}, .progress = COMM_PROGRESS_THREAD};
    if (__atomic_fetch_add(&n, 1, __ATOMIC_SEQ_CST) == 0)
        threads_run(&j, hasty_rank);
    (void)shared;
}

static void a_planted_race_is_caught(void **state)
{
    (void)state;
    assert_true(threads_race_is_caught(race));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_planted_race_is_caught),
    cmocka_unit_test(drawn_jobs_do_not_race),
};
UNIT_MAIN(tests)
