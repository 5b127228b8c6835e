/* When buckets set out, and in which order: five parameters, of which each is a bucket where the cap is small. */
#include "t/unit/unit.h"

#include <errno.h>

#include "runtime/base/clock.h"
#include "t/lib/reduction.h"

enum { N = 5 };
static const size_t elems[N] = {300, 100, 400, 200, 500};

static int open_kit(struct reduction_kit *k, struct job *j, int rank, struct reducer_config cfg)
{
    ddp_error_t e = {0};
    cfg.n_ranks = j->size;
    CHECK(reduction_open(k, j, rank, elems, N, &cfg, &e) == 0, "%s", e.text);
    return 0;
}

/* A pass with marks in that order. */
static int pass(struct reduction_kit *k, int rank, const int *order)
{
    ddp_error_t e = {0};
    reducer_zero(&k->reducer);
    reducer_micro_begin(&k->reducer, true);
    for (int i = 0; i < N; i++)
        reducer_mark(&k->reducer, order[i], MARK_READY);
    CHECK(reducer_micro_end(&k->reducer, &e) == 0, "%s", e.text);
    return 0;
}

static int expect_order(const struct reduction_kit *k, int rank, const int *want, const char *when)
{
    for (int b = 0, n, at = 0; b < reducer_n_buckets(&k->reducer); b++) {
        const int *id = reducer_bucket(&k->reducer, b, &n);
        for (int i = 0; i < n; i++, at++)
            CHECK(id[i] == want[at], "%s: parameter %d travels at place %d, not %d", when, id[i], at, want[at]);
    }
    return 0;
}

static const int reverse[N] = {4, 3, 2, 1, 0};

/* How marks come on each rank in the first pass, and in later ones. */
static const int arrival[3][N] = {{2, 0, 4, 1, 3}, {0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}};

/* The plan before, after the first pass, and after more. */
static int order_rank(struct job *j, int rank)
{
    const struct reducer_config *cfg = j->arg;
    const int *after = cfg->find_unused || cfg->is_fixed ? reverse : arrival[0];
    struct reduction_kit k;
    if (open_kit(&k, j, rank, *cfg) || expect_order(&k, rank, reverse, "at first"))
        return 1;
    const float *at = reduction_grad(&k, 2);
    if (pass(&k, rank, arrival[rank]) || expect_order(&k, rank, after, "after one pass"))
        return 1;
    for (int more = 1; more < 6; more++)
        if (pass(&k, rank, arrival[(rank + more) % 3]) || expect_order(&k, rank, after, "later"))
            return 1;
    CHECK(reduction_grad(&k, 2) == at, "a gradient moved");
    reduction_close(&k);
    return 0;
}

static void buckets_go_once_as_gradients_came_on_rank_0(void **state)
{
    (void)state;
    static const struct reducer_config cases[] = {
        {.first_cap_bytes = 1, .cap_bytes = 1},
        {.first_cap_bytes = 1, .cap_bytes = 2000},
        {.first_cap_bytes = 1, .cap_bytes = 1, .plan = true}, /* other cuts, the same order */
        {.first_cap_bytes = 1, .cap_bytes = 1, .find_unused = true},
        {.first_cap_bytes = 1, .cap_bytes = 1, .plan = true, .is_fixed = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job j = {.size = 3, .node_of = (int[]){0, 0, 1}, .arg = &cases[i]};
        if (!job_run(&j, order_rank))
            fail_msg("case %d", (int)i);
    }
}

/* Bytes of the buckets: 500 200 400 100 300 elements, then 400 300 500 100 200. */
static int caps_rank(struct job *j, int rank)
{
    static const int before[] = {0, 1, 4, 5}, after[] = {0, 1, 3, 5};
    struct reduction_kit k;
    if (open_kit(&k, j, rank, (struct reducer_config){.first_cap_bytes = 400, .cap_bytes = 2800}))
        return 1;
    for (int b = 0; b <= 3; b++)
        CHECK(k.reducer.plan.n_buckets == 3 && k.reducer.plan.first[b] == before[b], "bucket %d", b);
    if (pass(&k, rank, arrival[rank]))
        return 1;
    for (int b = 0; b <= 3; b++)
        CHECK(k.reducer.plan.n_buckets == 3 && k.reducer.plan.first[b] == after[b], "bucket %d later", b);
    reduction_close(&k);
    return 0;
}

static void the_first_bucket_has_a_cap_of_its_own(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (int[]){0, 0}};
    assert_true(job_run(&j, caps_rank));
}

/* After each mark, how many buckets have set out. In reverse order: 4, 3, 2, 1, 0. */
static int start_rank(struct job *j, int rank)
{
    static const int mark[N] = {3, 4, 1, 0, 2}, started[N] = {0, 2, 2, 2, 5};
    ddp_error_t e = {0};
    struct reduction_kit k;
    if (open_kit(&k, j, rank, (struct reducer_config){.first_cap_bytes = 1, .cap_bytes = 1}))
        return 1;
    for (int sync = 0; sync < 2; sync++) {
        reducer_micro_begin(&k.reducer, sync);
        for (int i = 0; i < N; i++) {
            reducer_mark(&k.reducer, mark[i], MARK_READY);
            int want = sync ? started[i] : 0;
            CHECK(k.reducer.n_started == want, "sync %d, %d marks: %d set out", sync, i + 1, k.reducer.n_started);
        }
        CHECK(reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
        CHECK(k.reducer.metrics.bytes_reduced == (sync ? 1500 * sizeof(float) : 0), "bytes");
    }
    if (pass(&k, rank, reverse))
        return 1;
    CHECK(k.reducer.metrics.bytes_reduced == 2 * 1500 * sizeof(float) && k.reducer.metrics.steps == 2, "bytes later");
    reduction_close(&k);
    return 0;
}

static void a_bucket_sets_out_when_it_and_those_before_are_full(void **state)
{
    (void)state;
    for (int progress = COMM_PROGRESS_CALLER; progress <= COMM_PROGRESS_THREAD; progress++) {
        struct job j = {.size = 3, .node_of = (int[]){0, 1, 1}, .progress = (enum comm_progress_mode)progress};
        assert_true(job_run(&j, start_rank));
    }
}

/* Which parameters were prepared so far; that of `id` must come before its bucket sets out. */
struct prepared {
    const struct reducer *reducer;
    int n[N];
    bool is_late;
};

static int prepare(void *ctx, int id, ddp_error_t *errp)
{
    (void)errp;
    struct prepared *p = ctx;
    p->n[id]++;
    p->is_late |= p->reducer->bucket[p->reducer->plan.bucket_of[id]].work != NULL;
    return 0;
}

static int prepare_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    struct reduction_kit k;
    if (open_kit(&k, j, rank, (struct reducer_config){.first_cap_bytes = 1, .cap_bytes = 2000, .plan = true}))
        return 1;
    struct prepared p = {.reducer = &k.reducer};
    k.reducer.prepare = prepare;
    k.reducer.prepare_ctx = &p;
    for (int step = 1; step <= 6; step++) {
        reducer_micro_begin(&k.reducer, false);
        for (int i = 0; i < N; i++)
            reducer_mark(&k.reducer, i, MARK_READY);
        CHECK(reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
        if (pass(&k, rank, arrival[rank]))
            return 1;
        for (int id = 0; id < N; id++)
            CHECK(p.n[id] == step && !p.is_late, "step %d: parameter %d prepared %d times", step, id, p.n[id]);
    }
    reduction_close(&k);
    return 0;
}

static void gradients_are_prepared_once_before_they_travel(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (int[]){0, 1}};
    assert_true(job_run(&j, prepare_rank));
}

static int prepare_two(void *ctx, int id, ddp_error_t *errp)
{
    return --*(int *)ctx < 0 ? error_set(errp, DDP_E_SYSTEM, EIO, "parameter %d is not ready", id) : 0;
}

static int unprepared_rank(struct job *j, int rank)
{
    const uint64_t *n_passes = j->arg;
    bool is_quiet = *n_passes > 0;
    ddp_error_t e = {0};
    struct reduction_kit k;
    int left = 2;
    if (open_kit(&k, j, rank, (struct reducer_config){.first_cap_bytes = 1, .cap_bytes = 1}))
        return 1;
    k.reducer.n_passes = *n_passes;
    k.reducer.prepare = prepare_two;
    k.reducer.prepare_ctx = &left;
    reducer_zero(&k.reducer);
    reducer_micro_begin(&k.reducer, true);
    for (int i = N - 1; i >= 0; i--)
        reducer_mark(&k.reducer, i, MARK_READY);
    CHECK(k.reducer.n_started == (is_quiet ? 0 : 3), "%d set out", k.reducer.n_started);
    CHECK(reducer_micro_end(&k.reducer, &e) < 0 && !strcmp(e.text, "parameter 2 is not ready"), "%s", e.text);
    CHECK(left == -1 && k.reducer.n_started == 3, "%d set out in the end", k.reducer.n_started);
    reduction_close(&k);
    return 0;
}

/* In the first pass, and in a quiet one. */
static void nothing_sets_out_behind_what_could_not(void **state)
{
    (void)state;
    static const uint64_t n_passes[] = {0, REDUCER_QUIET_FIRST - 1};
    for (int i = 0; i < 2; i++) {
        struct job j = {.size = 2, .node_of = (int[]){0, 0}, .arg = &n_passes[i]};
        assert_true(job_run(&j, unprepared_rank));
    }
}

/* Passes 10, 12 ... 18, and every 20th: nothing sets out before the backward pass is over, and then all. */
static int quiet_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    struct reduction_kit k;
    if (open_kit(&k, j, rank, (struct reducer_config){.first_cap_bytes = 1, .cap_bytes = 1}))
        return 1;
    k.reducer.quiet_every = 20;
    for (int n = 1; n <= 40; n++) {
        bool is_quiet = (n >= 10 && n <= 18 && n % 2 == 0) || n % 20 == 0;
        uint64_t hidden_ns = k.reducer.hidden_ns;
        reducer_zero(&k.reducer);
        reducer_micro_begin(&k.reducer, true);
        reduction_grad(&k, 3)[0] = (float)(rank + n);
        for (int i = N - 1; i >= 0; i--)
            reducer_mark(&k.reducer, i, MARK_READY);
        CHECK(k.reducer.is_quiet == is_quiet, "pass %d", n);
        CHECK(k.reducer.n_started == (is_quiet ? 0 : N), "pass %d: %d set out", n, k.reducer.n_started);
        CHECK(reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
        CHECK(reduction_grad(&k, 3)[0] == (float)(1 + 2 * n), "pass %d: the sum", n);
        CHECK(!is_quiet || k.reducer.hidden_ns == hidden_ns, "pass %d: something was hidden", n);
    }
    reducer_micro_begin(&k.reducer, false); /* from now on such micro-steps show what computing takes */
    for (int i = N - 1; i >= 0; i--)
        reducer_mark(&k.reducer, i, MARK_READY);
    CHECK(k.reducer.is_quiet && reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
    for (int n = 41; n <= 60; n++)
        CHECK(pass(&k, rank, reverse) == 0 && !k.reducer.is_quiet, "pass %d", n);
    reduction_close(&k);
    return 0;
}

static void quiet_passes_start_when_backward_is_over(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (int[]){0, 1}};
    assert_true(job_run(&j, quiet_rank));
    assert_int_equal(reducer_quiet_every(0), 10);
    assert_int_equal(reducer_quiet_every(.05), 26);
    assert_int_equal(reducer_quiet_every(1), 500);
    assert_int_equal(reducer_quiet_every(strtod("nan", NULL)), 500);
}

/* A bucket travels while backward computes on: that long it is hidden, and no longer, whenever somebody looks. The
 * others set out when all is computed, and are hidden until the end of the pass at most. */
static int hidden_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    struct reduction_kit k;
    if (open_kit(&k, j, rank, (struct reducer_config){.first_cap_bytes = 1, .cap_bytes = 1}))
        return 1;
    reducer_micro_begin(&k.reducer, true);
    uint64_t deadline = deadline_in(20), began = clock_ns();
    reducer_mark(&k.reducer, N - 1, MARK_READY);
    while (!comm_is_done(k.reducer.bucket[0].work) && deadline_left_ns(deadline) > 0)
        ;
    uint64_t took_ns = clock_ns() - began, end = clock_ns() + took_ns + 20 * NS_PER_MS;
    while (clock_ns() < end)
        ;
    uint64_t computed = clock_ns();
    for (int i = N - 2; i >= 0; i--)
        reducer_mark(&k.reducer, i, MARK_UNUSED);
    CHECK(reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
    took_ns += k.reducer.end_ns - computed;
    CHECK(k.reducer.hidden_ns > 0 && k.reducer.hidden_ns <= took_ns, "%g ms, of %g", (double)k.reducer.hidden_ns / 1e6,
          (double)took_ns / 1e6);
    reduction_close(&k);
    return 0;
}

static void what_travels_beside_computing_is_hidden(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (int[]){0, 1}, .progress = COMM_PROGRESS_THREAD};
    assert_true(job_run(&j, hidden_rank));
}

/* Of many buckets some arrive while marks come, of two ranks in turn, though nobody waits and no thread helps. */
static int driving_rank(struct job *j, int rank)
{
    enum { MANY = 64 };
    _Atomic int *n_marks = j->shared;
    size_t each[MANY];
    ddp_error_t e = {0};
    struct reduction_kit k;
    uint64_t deadline = deadline_in(20);
    for (int i = 0; i < MANY; i++)
        each[i] = 100;
    struct reducer_config cfg = {.n_ranks = j->size, .first_cap_bytes = 1, .cap_bytes = 1};
    CHECK(reduction_open(&k, j, rank, each, MANY, &cfg, &e) == 0, "%s", e.text);
    reducer_micro_begin(&k.reducer, true);
    for (int i = 1; i <= MANY; i++) {
        reducer_mark(&k.reducer, MANY - i, MARK_READY);
        n_marks[rank] = i;
        while (n_marks[1 - rank] < i && deadline_left_ns(deadline) > 0)
            ;
    }
    CHECK(k.reducer.n_done > 0, "nothing had arrived");
    CHECK(reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
    reduction_close(&k);
    return 0;
}

static void marks_drive_what_travels(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (int[]){0, 0}, .progress = COMM_PROGRESS_CALLER};
    assert_true(job_run(&j, driving_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(buckets_go_once_as_gradients_came_on_rank_0),
    cmocka_unit_test(the_first_bucket_has_a_cap_of_its_own),
    cmocka_unit_test(a_bucket_sets_out_when_it_and_those_before_are_full),
    cmocka_unit_test(gradients_are_prepared_once_before_they_travel),
    cmocka_unit_test(nothing_sets_out_behind_what_could_not),
    cmocka_unit_test(quiet_passes_start_when_backward_is_over),
    cmocka_unit_test(what_travels_beside_computing_is_hidden),
    cmocka_unit_test(marks_drive_what_travels),
};
UNIT_MAIN(tests)
