/* The communicator with threads for ranks, under ThreadSanitizer. */
#include "t/unit/unit.h"

#include "t/lib/threads.h"
#include "t/lib/works.h"

static int all_calls_rank(struct job *j, int rank)
{
    enum { N = 3001 };
    static const struct comm_range ranges[] = {{64, N, DDP_F32}, {64 * 400, 77, DDP_F64}};
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    comm_segment_t *s = comm_segment_create(c, 64 * 500, &e);
    CHECK(s, "%s", e.text);
    float *x = (float *)((char *)comm_segment_data(s) + 64), y[N], all[RANKS_MAX * 10];
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < N; i++)
            x[i] = y[i] = (float)(i % 5 + rank);
        CHECK(comm_reduce_ranges(c, s, ranges, 2, DDP_SUM, &e) == 0, "%s", e.text);
        CHECK(comm_allreduce(c, y, N, DDP_F32, DDP_SUM, &e) == 0, "%s", e.text);
        for (int i = 0; i < N; i++)
            CHECK(x[i] == y[i] && y[i] == (float)(i % 5 * j->size + j->size * (j->size - 1) / 2), "element %d", i);
        CHECK(comm_bcast(c, y, sizeof y, round % j->size, &e) == 0, "%s", e.text);
        CHECK(comm_allgather(c, y, 40, all, &e) == 0, "%s", e.text);
        CHECK(job_alltoall(j, c, (char *)y, 40, (char *)all, &e) == 0, "%s", e.text);
        if (comm_barrier(c, &e) < 0) /* the last rank may be through the last one, and abort, while others still wake */
            CHECK(round == 20 && strstr(e.text, "enough"), "%s", e.text);
    }
    if (rank == j->size - 1)
        comm_abort(c, "enough");
    else
        CHECK(comm_barrier(c, &e) < 0 && strstr(e.text, "enough"), "%s", e.text);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void threads_do_not_race(void **state)
{
    (void)state;
    static const int one[] = {0, 0, 0, 0}, two[] = {0, 0, 0, 1, 1};
    struct job a = {.size = 4, .node_of = one}, b = {.size = 5, .node_of = two};
    assert_true(threads_run(&a, all_calls_rank));
    assert_true(threads_run(&b, all_calls_rank));
}

/* Works, visits and gathers, by the caller and by the thread. */
static void works_do_not_race(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 12; i++) {
        int node_of[RANKS_MAX], size = works_layout(i * 17 + 3, 5, node_of);
        struct works_case k = {.seed = i + 100, .max_elems = 6000, .n_rounds = 3};
        struct job j = {.size = size, .node_of = node_of, .arg = &k};
        j.progress = i % 2 ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
        if (!threads_run(&j, works_rank))
            fail_msg("case %d of %d ranks", (int)i, size);
    }
}

static void scribble(int *shared)
{
    for (int i = 0; i < 1000; i++)
        shared[0]++;
}

static void a_planted_race_is_caught(void **state)
{
    (void)state;
    assert_true(threads_race_is_caught(scribble));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_planted_race_is_caught),
    cmocka_unit_test(threads_do_not_race),
    cmocka_unit_test(works_do_not_race),
};
UNIT_MAIN(tests)
