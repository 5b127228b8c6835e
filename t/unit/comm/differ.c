/* Ranks that make different calls, or the same with different sizes: every rank gets an error, nobody wrong data. */
#include "t/unit/unit.h"

#include <unistd.h>

#include "runtime/base/clock.h"
#include "t/lib/ranks.h"

enum call {
    BARRIER, ALLREDUCE, ALLREDUCE_MORE, ALLREDUCE_MAX, BCAST, BCAST_ROOT, ALLGATHER,
    ALLGATHER_LESS, REDUCE_RANGES, WORKS, WORKS_SWAPPED, GATHER_WORK, REDUCE_SCATTER, ALLTOALL, NOTHING, N_CALLS,
    /* where a test names them */
    REDUCE_LESS = N_CALLS, REDUCE_MAX, REDUCE_HALVES, GATHER_LESS, GATHER_LATER
};
enum { N = 3000, GATHER = 40 };

struct scene {
    enum call call, odd_call; /* what odd_rank does instead */
    int odd_rank;
    int n_alike; /* sums before, which all ranks make alike */
    const char *name; /* or NULL: what the error calls one of the two */
};

/* Two works in flight, in one order or the other. */
static int make_works(comm_t *c, comm_segment_t *s, int first, ddp_error_t *errp)
{
    static const struct comm_range half[] = {{0, N / 2, DDP_F32}, {6016, N / 3, DDP_F32}};
    comm_work_t *w[2];
    int rc = 0;
    for (int i = 0; i < 2; i++) {
        struct comm_reduce r = {.segment = s, .ranges = &half[(first + i) % 2], .n_ranges = 1};
        w[i] = comm_reduce_start(c, &r, errp);
    }
    for (int i = 0; i < 2; i++)
        rc = !w[i] || comm_wait(w[i], errp) < 0 ? -1 : rc;
    return rc;
}

static int make_call(const struct job *j, comm_t *c, comm_segment_t *s, enum call call, char *buf, ddp_error_t *errp)
{
    static const struct comm_range r = {0, N, DDP_F32}, less = {0, N - 16, DDP_F32}, later = {64, N - 16, DDP_F32};
    static const struct comm_range halves = {0, N, DDP_BF16};
    switch (call) {
    case BARRIER:
        return comm_barrier(c, errp);
    case ALLREDUCE:
        return comm_allreduce(c, buf, N, DDP_F32, DDP_SUM, errp);
    case ALLREDUCE_MORE:
        return comm_allreduce(c, buf, N + 1, DDP_F32, DDP_SUM, errp);
    case ALLREDUCE_MAX:
        return comm_allreduce(c, buf, N, DDP_F32, DDP_MAX, errp);
    case BCAST:
        return comm_bcast(c, buf, N * 4, 0, errp);
    case BCAST_ROOT:
        return comm_bcast(c, buf, N * 4, 1, errp);
    case ALLGATHER:
        return comm_allgather(c, buf, GATHER, buf, errp);
    case ALLGATHER_LESS:
        return comm_allgather(c, buf, GATHER - 8, buf, errp);
    case REDUCE_RANGES:
        return comm_reduce_ranges(c, s, &r, 1, DDP_SUM, errp);
    case WORKS:
    case WORKS_SWAPPED:
        return make_works(c, s, call == WORKS, errp);
    case GATHER_WORK:
        return comm_wait(comm_gather_start(c, s, &r, 1, 0, errp), errp);
    case REDUCE_LESS:
    case REDUCE_MAX:
        return comm_reduce_ranges(c, s, call == REDUCE_LESS ? &less : &r, 1, call == REDUCE_MAX ? DDP_MAX : DDP_SUM,
                                  errp);
    case REDUCE_HALVES:
        return comm_reduce_ranges(c, s, &halves, 1, DDP_SUM, errp);
    case GATHER_LESS:
    case GATHER_LATER:
        return comm_wait(comm_gather_start(c, s, call == GATHER_LESS ? &less : &later, 1, 0, errp), errp);
    case REDUCE_SCATTER:
        return comm_reduce_scatter(c, buf, N / 4, DDP_F32, DDP_SUM, buf + N * 4, errp);
    case ALLTOALL:
        return job_alltoall(j, c, buf, GATHER, buf + N * 4, errp);
    default:
        return 0;
    }
}

/* At the latest the barriers that follow must fail. (Two: a call that sends only may end before its peer has
 * looked.) */
static int differing_rank(struct job *j, int rank)
{
    const struct scene *scene = j->arg;
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    comm_segment_t *s = c ? comm_segment_create(c, N * 4, &e) : NULL;
    char *buf = calloc(N + 1, 4 + RANKS_MAX * GATHER);
    CHECK(buf, "no memory");
    int rc = s ? 0 : -1; /* the others may have found out already */
    for (int i = 0; rc == 0 && i < scene->n_alike; i++)
        rc = make_call(j, c, s, scene->call, buf, &e);
    if (rc == 0)
        rc = make_call(j, c, s, rank == scene->odd_rank ? scene->odd_call : scene->call, buf, &e);
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = comm_barrier(c, &e);
    CHECK(rc < 0, "calls %d and %d of rank %d go together", scene->call, scene->odd_call, scene->odd_rank);
    CHECK(e.domain == DDP_E_USAGE || e.domain == DDP_E_TIMEOUT, "%s", e.text);
    CHECK(strstr(e.text, "same calls") || e.domain == DDP_E_TIMEOUT, "%s", e.text);
    CHECK(!scene->name || strstr(e.text, scene->name), "%s", e.text);
    _exit(0); /* no farewell: some still wait for the deadline */
}

static void play(int size, const int *node_of)
{
    for (int a = 0; a < N_CALLS; a++)
        for (int b = 0; b < N_CALLS; b++) {
            struct scene scene = {(enum call)a, (enum call)b, (a + b) % size, 0, NULL};
            struct job j = {.size = size, .node_of = node_of, .arg = &scene, .timeout_s = 1};
            j.progress = (a ^ b) & 1 ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
            /* One barrier less can be right. */
            bool is_one_barrier_less = (a == BARRIER && b == NOTHING) || (a == NOTHING && b == BARRIER);
            if (a != b && !is_one_barrier_less && !job_run(&j, differing_rank))
                fail_msg("call %d against call %d of rank %d", a, b, scene.odd_rank);
        }
}

static void differing_calls_are_errors_on_one_node(void **state)
{
    (void)state;
    static const int one[] = {0, 0, 0};
    play(3, one);
}

static void differing_calls_are_errors_between_nodes(void **state)
{
    (void)state;
    static const int each[] = {0, 1, 2};
    play(3, each);
}

static void differing_calls_are_errors_on_uneven_nodes(void **state)
{
    (void)state;
    static const int uneven[] = {0, 0, 1};
    play(3, uneven);
}

/* The memory of a work that is over is soon another's: by that nobody may be taken for having been compared. */
static void a_call_is_compared_also_after_equal_ones(void **state)
{
    (void)state;
    static const int one[] = {0, 0};
    static const enum call odd[] = {ALLREDUCE_MORE, ALLREDUCE_MAX};
    for (int i = 0; i < 40; i++) {
        struct scene scene = {ALLREDUCE, odd[i % 2], i / 2 % 2, 10 + i % 3, NULL}; /* malloc keeps the first seven */
        struct job j = {.size = 2, .node_of = one, .arg = &scene, .timeout_s = 1};
        if (!job_run(&j, differing_rank))
            fail_msg("all-reduce against call %d of rank %d, after %d", odd[i % 2], scene.odd_rank, scene.n_alike);
    }
}

static void a_reduce_scatter_is_called_so(void **state)
{
    (void)state;
    static const int one[] = {0, 0};
    static const enum call other[] = {ALLREDUCE, ALLGATHER, BARRIER, NOTHING};
    for (int i = 0; i < 4; i++) {
        struct scene scene = {REDUCE_SCATTER, other[i], i % 2, 0, "reduce-scatter"};
        struct job j = {.size = 2, .node_of = one, .arg = &scene, .timeout_s = 1};
        if (!job_run(&j, differing_rank))
            fail_msg("reduce-scatter against call %d of rank %d", other[i], scene.odd_rank);
    }
}

static void ranges_and_what_is_made_of_them_are_compared(void **state)
{
    (void)state;
    static const struct {
        enum call call, odd;
    } pairs[] = {{REDUCE_RANGES, REDUCE_LESS}, {REDUCE_RANGES, REDUCE_MAX},  {REDUCE_RANGES, REDUCE_HALVES},
                 {GATHER_WORK, GATHER_LESS},   {GATHER_LESS, GATHER_LATER}};
    for (int i = 0; i < 10; i++) {
        struct scene scene = {pairs[i / 2].call, pairs[i / 2].odd, i % 2, 0, "same calls"};
        struct job j = {.size = 2, .node_of = (const int[]){0, 0}, .arg = &scene, .timeout_s = 1};
        if (!job_run(&j, differing_rank))
            fail_msg("call %d against call %d of rank %d", scene.call, scene.odd_call, scene.odd_rank);
    }
}

/* Of two works in flight, rank 1's first one is larger. Nobody looks before all have begun both. */
static int behind_rank(struct job *j, int rank, comm_t *c)
{
    static const struct comm_range r = {0, N, DDP_F32};
    char buf[(N + 1) * 4] = {0};
    _Atomic int *n_begun = j->shared;
    uint64_t deadline = deadline_in(20);
    ddp_error_t e = {0};
    comm_segment_t *s = comm_segment_create(c, N * 4, &e);
    CHECK(s && comm_barrier(c, &e) == 0, "%s", e.text);
    comm_work_t *first = comm_allreduce_start(c, buf, N + (rank == 1), DDP_F32, DDP_SUM, &e);
    comm_work_t *second = comm_gather_start(c, s, &r, 1, 0, &e);
    CHECK(first && second, "%s", e.text);
    for (++*n_begun; *n_begun < j->size && deadline_left_ns(deadline) > 0;)
        usleep(100);
    CHECK(comm_wait(second, &e) < 0 && comm_wait(first, &e) < 0, "the two go together");
    CHECK(strstr(e.text, "calls all-reduce, but rank ") && strstr(e.text, " with another size"), "%s", e.text);
    return 0;
}

static void the_call_that_differs_is_named_not_the_last(void **state)
{
    (void)state;
    static const int two[] = {0, 1}, each[] = {0, 1, 2};
    struct job a = {.size = 2, .node_of = two, .progress = COMM_PROGRESS_CALLER}, b = a;
    b.size = 3;
    b.node_of = each;
    assert_true(job_run_comm(&a, behind_rank));
    assert_true(job_run_comm(&b, behind_rank));
}

/* Rank 1's part of a sum has come to rank 0 before that begins something else. */
static int early_rank(struct job *j, int rank, comm_t *c)
{
    const struct scene *scene = j->arg;
    _Atomic int *n_ready = j->shared, *is_sent = n_ready + 1;
    uint64_t deadline = deadline_in(20), n_before;
    ddp_error_t e = {0};
    char buf[2 * N * 4] = {0};
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    ++*n_ready; /* who is still in the barrier would hear of the others' end there */
    n_before = comm_tcp_bytes_sent(c);
    if (rank == 1) {
        comm_work_t *w = comm_allreduce_start(c, buf, N, DDP_F32, DDP_SUM, &e);
        CHECK(w, "%s", e.text);
        while (comm_tcp_bytes_sent(c) == n_before && deadline_left_ns(deadline) > 0)
            comm_progress(c);
        *is_sent = 1;
        CHECK(comm_wait(w, &e) < 0, "they go together");
    } else {
        while ((*n_ready < j->size || !*is_sent) && deadline_left_ns(deadline) > 0)
            usleep(100);
        comm_progress(c);
        int rc = make_call(j, c, NULL, rank == 0 ? scene->odd_call : BARRIER, buf, &e);
        CHECK(rc < 0 || comm_barrier(c, &e) < 0, "they go together");
    }
    CHECK(e.domain == DDP_E_USAGE && strstr(e.text, "rank 1") && strstr(e.text, "same calls"), "%s", e.text);
    return 0;
}

static void what_came_early_is_compared_with_what_is_no_sum(void **state)
{
    (void)state;
    static const enum call odd[] = {BARRIER, BCAST, BCAST_ROOT, ALLGATHER};
    for (int size = 2; size <= 3; size++)
        for (int i = 0; i < 4; i++) {
            struct scene scene = {.odd_call = odd[i]};
            struct job j = {.size = size, .node_of = (const int[]){0, 1, 2}, .arg = &scene};
            j.progress = COMM_PROGRESS_CALLER;
            if (!job_run_comm(&j, early_rank))
                fail_msg("%d ranks: call %d", size, odd[i]);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(differing_calls_are_errors_on_one_node),
    cmocka_unit_test(differing_calls_are_errors_between_nodes),
    cmocka_unit_test(differing_calls_are_errors_on_uneven_nodes),
    cmocka_unit_test(a_call_is_compared_also_after_equal_ones),
    cmocka_unit_test(a_reduce_scatter_is_called_so),
    cmocka_unit_test(ranges_and_what_is_made_of_them_are_compared),
    cmocka_unit_test(the_call_that_differs_is_named_not_the_last),
    cmocka_unit_test(what_came_early_is_compared_with_what_is_no_sum),
};
UNIT_MAIN(tests)
