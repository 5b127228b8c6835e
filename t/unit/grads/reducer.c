/* The reducer over several ranks: what arrives. */
#include "t/unit/unit.h"

#include <math.h>
#include <sys/mman.h>

#include "runtime/grads/hook.h"
#include "t/lib/reduction.h"

static const struct reducer_config one_each = {.first_cap_bytes = 1, .cap_bytes = 1};

static void sums_equal_a_serial_reference(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct reduction d = reduction_draw(seed);
        struct job j = {.size = d.size, .node_of = d.node_of, .arg = &d};
        if (!job_run(&j, reduction_rank))
            fail_msg("seed %d: %d ranks, %d parameters", (int)seed, d.size, d.n_params);
    }
}

/* Any floats through one plan; what every rank has then. */
enum { PLAN_TOTAL = 5000 + 1 + 40000 + 4096 + 4097 + 64 + 12000 };

struct planned {
    struct reducer_config cfg;
    int n_buckets;
    struct {
        double norm;
        float grads[PLAN_TOTAL];
    } result[4]; /* by rank */
};
static struct planned *planned; /* shared with the ranks */

static int planned_rank(struct job *j, int rank)
{
    static const size_t elems[] = {5000, 1, 40000, 4096, 4097, 64, 12000};
    enum { N = sizeof elems / sizeof *elems };
    struct planned *p = planned;
    float *ret = p->result[rank].grads;
    ddp_error_t e = {0};
    struct reduction_kit k;
    CHECK(reduction_open(&k, j, rank, elems, N, &p->cfg, &e) == 0, "%s", e.text);
    reducer_micro_begin(&k.reducer, true);
    for (size_t i = 0; i < k.layout.n_bytes / sizeof(float); i++)
        reducer_grads(&k.reducer)[i] = sinf((float)(i * 31 + (size_t)rank)) * powf(2, (float)(i % 40));
    for (int id = 0; id < N; id++)
        reducer_mark(&k.reducer, (id + rank) % N, MARK_READY);
    CHECK(reducer_n_buckets(&k.reducer) == p->n_buckets, "%d buckets", reducer_n_buckets(&k.reducer));
    CHECK(reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
    for (int id = 0; id < N; ret += elems[id++])
        memcpy(ret, reduction_grad(&k, id), elems[id] * sizeof *ret);
    p->result[rank].norm = norm_total(&k.reducer.norm);
    reduction_close(&k);
    return 0;
}

static struct planned *run_plan(int size, const int *node_of, size_t cap_bytes, int n_buckets)
{
    struct planned *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct job j = {.size = size, .node_of = node_of};
    assert_true(p != MAP_FAILED);
    planned = p;
    p->cfg.first_cap_bytes = p->cfg.cap_bytes = cap_bytes;
    p->n_buckets = n_buckets;
    assert_true(job_run(&j, planned_rank));
    assert_true(isfinite(p->result[0].norm) && p->result[0].norm > 0);
    return p;
}

static void bits_do_not_depend_on_the_plan(void **state)
{
    (void)state;
    static const int node_of[2][4] = {{0, 0, 1, 1}, {0, 0, 0}};
    for (int k = 0; k < 2; k++) {
        struct planned *small = run_plan(4 - k, node_of[k], 1, 7), *large = run_plan(4 - k, node_of[k], 1 << 30, 1);
        assert_memory_equal(small->result, large->result, sizeof small->result);
        munmap(small, sizeof *small);
        munmap(large, sizeof *large);
    }
}

/* NaN and infinity arrive, the first such parameter is found. */
static int not_finite_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    struct reduction_kit k;
    CHECK(reduction_open(&k, j, rank, (size_t[]){10, 9000, 20}, 3, &one_each, &e) == 0, "%s", e.text);
    reducer_micro_begin(&k.reducer, true);
    float *g = reduction_grad(&k, 1);
    g[7] = rank == 1 ? INFINITY : 1;
    g[8999] = rank == 0 ? NAN : 1;
    *reduction_grad(&k, 2) = rank == 0 ? INFINITY : 0;
    for (int id = 0; id < 3; id++)
        reducer_mark(&k.reducer, id, MARK_READY);
    CHECK(reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
    CHECK(g[7] == INFINITY && isnan(g[8999]) && g[8] == 0, "%g %g", (double)g[7], (double)g[8999]);
    int worst = norm_worst(&k.reducer.norm);
    CHECK(worst == 1 && !isfinite(norm_total(&k.reducer.norm)), "found %d", worst);
    double *sums = k.reducer.norm.sums;
    sums[1] = INFINITY; /* of the first block alone */
    sums[3] = 0;
    CHECK(norm_worst(&k.reducer.norm) == 1, "found %d", norm_worst(&k.reducer.norm));
    reduction_close(&k);
    return 0;
}

static void what_is_not_finite_arrives_and_is_named(void **state)
{
    (void)state;
    struct job j = {.size = 3, .node_of = (int[]){0, 0, 1}};
    assert_true(job_run(&j, not_finite_rank));
}

/* 60000 on every rank: in 16 bits the sum is beyond the greatest number, 65504, and the average is not. */
static int large_f16_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    struct ddp_hook hook;
    struct reduction_kit k;
    struct reducer_config cfg = {.n_ranks = j->size, .first_cap_bytes = 1, .cap_bytes = 1, .hook = &hook};
    hook_compress(COMPRESS_F16, &hook);
    CHECK(reduction_open(&k, j, rank, (size_t[]){5000}, 1, &cfg, &e) == 0, "%s", e.text);
    reducer_micro_begin(&k.reducer, true);
    float *g = reduction_grad(&k, 0), want = 60000 * (float)j->size;
    for (int i = 0; i < 5000; i++)
        g[i] = 60000;
    reducer_mark(&k.reducer, 0, MARK_READY);
    CHECK(reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
    for (int i = 0; i < 5000; i++)
        CHECK(fabsf(g[i] - want) <= want / 512, "%g, not %g", (double)g[i], (double)want);
    CHECK(isfinite(norm_total(&k.reducer.norm)), "norm");
    reduction_close(&k);
    return 0;
}

static void sums_beyond_float16_arrive(void **state)
{
    (void)state;
    struct job j = {.size = 4, .node_of = (int[]){0, 0, 1, 1}};
    assert_true(job_run(&j, large_f16_rank));
    j = (struct job){.size = 3, .node_of = (int[]){0, 0, 0}};
    assert_true(job_run(&j, large_f16_rank));
}

/* Rank 1 starts its buckets in another order: found out, not summed. */
static int planted_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    struct reduction_kit k;
    int rc = reduction_open(&k, j, rank, (size_t[]){50, 50, 50, 50}, 4, &one_each, &e); /* a late rank hears it here */
    if (rc == 0) {
        if (rank == 1) {
            struct comm_range second = k.reducer.range[1];
            k.reducer.range[1] = k.reducer.range[2];
            k.reducer.range[2] = second;
        }
        reducer_micro_begin(&k.reducer, true);
        for (int id = 0; id < 4; id++)
            reducer_mark(&k.reducer, id, MARK_READY);
        rc = reducer_micro_end(&k.reducer, &e);
        reduction_close(&k);
    }
    CHECK(rc == -1 && strstr(e.text, "same calls in the same order"), "\"%s\"", e.text);
    return 0;
}

static void another_order_of_buckets_is_found_out(void **state)
{
    (void)state;
    struct job j = {.size = 3, .node_of = (int[]){0, 0, 0}, .timeout_s = 10};
    assert_true(job_run(&j, planted_rank));
    j.node_of = (int[]){0, 1, 1};
    assert_true(job_run(&j, planted_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_equal_a_serial_reference),
    cmocka_unit_test(bits_do_not_depend_on_the_plan),
    cmocka_unit_test(what_is_not_finite_arrives_and_is_named),
    cmocka_unit_test(sums_beyond_float16_arrive),
    cmocka_unit_test(another_order_of_buckets_is_found_out),
};
UNIT_MAIN(tests)
