/* How the plan is found: what is measured and told to the planner, and that all ranks follow rank 0's. */
#include "t/unit/unit.h"

#include "runtime/base/clock.h"
#include "runtime/grads/planner.h"
#include "t/lib/reduction.h"

/* Bytes in the order of marks: 32 + 32 KiB, 48 + 48 + 48 KiB, and a rest. */
enum { N = 6, N_LADDER = 3, US = 1000 };
static const size_t elems[N] = {12288, 8192, 12288, 16, 8192, 12288};
static const int order[N] = {1, 4, 0, 2, 5, 3};
static const size_t ladder[N_LADDER] = {65536, 147456, 64};

/* When a parameter is ready after the first, in us, by measured pass and order. Medians: 0 20 70 60 80 90 on rank 0,
 * 0 30 40 90 70 100 on rank 1. */
static const uint64_t ready_us[2][REDUCER_MEASURED][N] = {
    {{0, 20, 90, 60, 99, 90}, {0, 99, 70, 10, 80, 95}, {0, 10, 50, 80, 10, 10}},
    {{0, 30, 40, 5, 70, 300}, {0, 1, 99, 90, 2, 100}, {0, 99, 1, 95, 99, 1}},
};
static const double both_us[N] = {0, 30, 70, 90, 80, 100};

static const struct reducer_config planned = {.n_ranks = 2, .first_cap_bytes = 1, .cap_bytes = 1, .plan = true};

static struct {
    int rank, n_fits, n_cuts;
    uint64_t began; /* the end of the present pass */
    bool is_wrong, has_memory;
} told = {.has_memory = true};

struct planner_model __wrap_planner_fit(const size_t *bytes, const double *seconds, int n);
int __wrap_planner_cut(const struct planner_model *m, const double *ready_s, const size_t *bytes, int n, int *end);

/* Of the first two passes' times the one is too short, the other too long: the third's is the median. */
struct planner_model __wrap_planner_fit(const size_t *bytes, const double *seconds, int n)
{
    double most = (double)(clock_ns() - told.began) / 1e9;
    told.n_fits++;
    told.is_wrong |= n != N_LADDER;
    for (int b = 0; b < n && !told.is_wrong; b++)
        told.is_wrong = bytes[b] != ladder[b] || seconds[b] <= 0 || seconds[b] > most;
    return told.rank == 0 ? (struct planner_model){.5, .25} : (struct planner_model){9, 9};
}

int __wrap_planner_cut(const struct planner_model *m, const double *ready_s, const size_t *bytes, int n, int *end)
{
    (void)m;
    told.n_cuts++;
    told.is_wrong |= n != N;
    for (int i = 0; i < n && !told.is_wrong; i++)
        told.is_wrong = bytes[i] != elems[order[i]] * 4 || ready_s[i] < both_us[i] / 1e6 - 1e-12 ||
                        ready_s[i] > both_us[i] / 1e6 + 1e-12;
    if (!told.has_memory)
        return -1;
    end[0] = told.rank == 0 ? 1 : N;
    end[1] = 3;
    end[2] = 4;
    end[3] = N;
    return told.rank == 0 ? 4 : 1;
}

/* A pass; measured >= 0: which of the measured ones. Rank 1 comes to its end behind rank 0. */
static int pass(struct reduction_kit *k, struct job *j, int rank, int measured, ddp_error_t *errp)
{
    _Atomic uint64_t *came = (_Atomic uint64_t *)j->shared + 2 * (measured + 1);
    struct reducer *r = &k->reducer;
    uint64_t deadline = deadline_in(20);
    reducer_zero(r);
    reducer_micro_begin(r, true);
    for (int i = 0; i < N; i++) {
        reduction_grad(k, order[i])[0] = (float)(rank + i);
        reducer_mark(r, order[i], MARK_READY);
    }
    for (int i = 0; measured >= 0 && i < N; i++)
        r->ready_ns[order[i]] = (uint64_t)(rank + measured + 1) * US + ready_us[rank][measured][i] * US;
    while (rank == 1 && came[0] == 0 && deadline_left_ns(deadline) > 0)
        ;
    came[rank] = told.began = clock_ns();
    if (reducer_micro_end(r, errp) < 0)
        return -1;
    for (int i = 0; i < N; i++)
        CHECK(reduction_grad(k, order[i])[0] == (float)(2 * i + 1), "pass %d: the sum of %d", measured, order[i]);
    CHECK(measured < 0 || r->bucket[0].started_ns >= came[!rank], "pass %d was timed before all had come", measured);
    return 0;
}

/* Up to the last measured pass. */
static int measure(struct reduction_kit *k, struct job *j, int rank)
{
    ddp_error_t e = {0};
    told.rank = rank;
    CHECK(reduction_open(k, j, rank, elems, N, &planned, &e) == 0, "%s", e.text);
    for (int measured = -1; measured < REDUCER_MEASURED - 1; measured++) {
        if (pass(k, j, rank, measured, &e) != 0)
            return 1;
        CHECK(reducer_n_buckets(&k->reducer) == N_LADDER, "%d buckets", reducer_n_buckets(&k->reducer));
        for (int b = 0; b < N_LADDER && measured >= 0; b++)
            k->reducer.tuning.took_s[measured * N + b] = measured ? 1e3 + b : 0;
    }
    return 0;
}

static int tuned_rank(struct job *j, int rank)
{
    static const int first[] = {0, 1, 3, 4, N};
    struct reduction_kit k;
    const struct reducer *r = &k.reducer;
    ddp_error_t e = {0};
    if (measure(&k, j, rank) != 0)
        return 1;
    CHECK(pass(&k, j, rank, REDUCER_MEASURED - 1, &e) == 0, "%s", e.text);
    CHECK(told.n_fits == 1 && told.n_cuts == 1 && !told.is_wrong, "the planner was told other times or sizes");
    CHECK(r->plan.n_buckets == 4 && r->metrics.n_buckets == 4, "%d buckets", r->plan.n_buckets);
    for (int b = 0; b <= 4; b++)
        CHECK(r->plan.first[b] == first[b], "not rank 0's plan");
    CHECK(r->metrics.alpha_s == .5 && r->metrics.beta_s_per_byte == .25, "not rank 0's model");
    for (int more = 0; more < 3; more++)
        CHECK(pass(&k, j, rank, -1, &e) == 0 && told.n_fits == 1, "%s", e.text);
    reduction_close(&k);
    return 0;
}

static void all_ranks_follow_the_plan_of_rank_0(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (int[]){0, 1}};
    assert_true(job_run(&j, tuned_rank));
}

static int poor_rank(struct job *j, int rank)
{
    struct reduction_kit k;
    ddp_error_t e = {0};
    if (measure(&k, j, rank) != 0)
        return 1;
    told.has_memory = rank != 0;
    CHECK(pass(&k, j, rank, REDUCER_MEASURED - 1, &e) < 0, "no error");
    CHECK(!strcmp(e.text, "rank 0 has no memory for a plan of 6 parameters"), "%s", e.text);
    reduction_close(&k);
    return 0;
}

static void a_plan_for_which_rank_0_has_no_memory_is_none(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (int[]){0, 1}};
    assert_true(job_run(&j, poor_rank));
}

static bool has_memory = true; /* for the buckets of the ladder */
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

void *__wrap_malloc(size_t n)
{
    return n == (N + 1) * sizeof(int) && !has_memory ? NULL : __real_malloc(n);
}

static int lacking_rank(struct job *j, int rank)
{
    struct reduction_kit k;
    ddp_error_t e = {0};
    CHECK(reduction_open(&k, j, rank, elems, N, &planned, &e) == 0, "%s", e.text);
    has_memory = rank == 0;
    bool is_over = pass(&k, j, rank, -1, &e) < 0 || (rank == 0 && pass(&k, j, rank, 0, &e) < 0);
    CHECK(is_over && strstr(e.text, "no memory for a plan of 6 parameters"), "%s", e.text);
    CHECK(rank == 1 || strstr(e.text, "rank 1 (n1) aborted"), "%s", e.text);
    reduction_close(&k);
    return 0;
}

static void a_rank_without_memory_for_its_plan_is_named(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (int[]){0, 1}, .timeout_s = 5};
    assert_true(job_run(&j, lacking_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_ranks_follow_the_plan_of_rank_0),
    cmocka_unit_test(a_plan_for_which_rank_0_has_no_memory_is_none),
    cmocka_unit_test(a_rank_without_memory_for_its_plan_is_named),
};
UNIT_MAIN(tests)
