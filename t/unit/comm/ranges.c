/* What a work may be over: units and ranges that are refused, and data that only begins in a segment. */
#include "t/unit/unit.h"

#include <errno.h>

#include "runtime/comm/comm.h"
#include "t/lib/ranks.h"

static int bad_unit_rank(struct job *j, int rank)
{
    static const struct comm_range r = {0, 10, DDP_F32};
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    comm_segment_t *s = c ? comm_segment_create(c, 64, &e) : NULL;
    CHECK(s, "%s", e.text);
    struct comm_reduce bad = {.segment = s, .ranges = &r, .n_ranges = 1, .unit_bytes = *(const size_t *)j->arg};
    CHECK(!comm_reduce_start(c, &bad, &e) && strstr(e.text, "unit"), "%s", e.text);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void bad_units_are_refused(void **state)
{
    (void)state;
    static const size_t bad[] = {1, 32, 96, 131072};
    static const int two[] = {0, 0};
    for (int i = 0; i < 4; i++) {
        struct job j = {.size = 2, .node_of = two, .arg = &bad[i]};
        assert_true(job_run(&j, bad_unit_rank));
    }
}

struct bad_range {
    struct comm_range range;
    bool is_gather;
};

static int bad_range_rank(struct job *j, int rank, comm_t *c)
{
    const struct bad_range *bad = j->arg;
    ddp_error_t e = {0};
    comm_segment_t *s = comm_segment_create(c, 2 * COMM_BLOCK, &e);
    CHECK(s, "%s", e.text);
    struct comm_reduce r = {.segment = s, .ranges = &bad->range, .n_ranges = 1};
    comm_work_t *w = bad->is_gather ? comm_gather_start(c, s, &bad->range, 1, 0, &e) : comm_reduce_start(c, &r, &e);
    CHECK(!w && e.domain == DDP_E_USAGE && e.code == EINVAL, "%s", e.text);
    CHECK(strstr(e.text, "does not lie in its segment of 128 bytes"), "%s", e.text);
    return 0;
}

/* Also one that begins in it, and is no longer than it is. */
static void a_range_must_lie_in_its_segment(void **state)
{
    (void)state;
    static const struct comm_range bad[] = {{COMM_BLOCK, COMM_BLOCK / 4 + 1, DDP_F32},
                                            {2 * COMM_BLOCK, 1, DDP_BF16},
                                            {3 * COMM_BLOCK, 0, DDP_F32},
                                            {0, COMM_BLOCK + 1, DDP_BF16},
                                            {4, 1, DDP_F32}};
    for (int i = 0; i < 10; i++) {
        struct bad_range b = {bad[i / 2], i % 2};
        struct job j = {.size = 1, .node_of = &(const int){0}, .arg = &b};
        if (!job_run_comm(&j, bad_range_rank))
            fail_msg("range %d", i / 2);
    }
}

/* Rank 1's memory goes on behind its segment, which is mapped by whole pages. */
static int overhanging_rank(struct job *j, int rank, comm_t *c)
{
    enum { N = COMM_BLOCK / 4 + 1 };
    (void)j;
    float own[N];
    ddp_error_t e = {0};
    comm_segment_t *s = comm_segment_create(c, COMM_BLOCK, &e);
    CHECK(s, "%s", e.text);
    float *x = rank == 1 ? comm_segment_data(s) : own;
    for (int i = 0; i < N; i++)
        x[i] = (float)(rank + i);
    CHECK(comm_allreduce(c, x, N, DDP_F32, DDP_SUM, &e) == 0, "%s", e.text);
    for (int i = 0; i < N; i++)
        CHECK(x[i] == (float)(2 * i + 1), "%d: %g", i, (double)x[i]);
    return 0;
}

static void data_that_only_begins_in_a_segment_is_not_in_it(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (const int[]){0, 0}};
    assert_true(job_run_comm(&j, overhanging_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bad_units_are_refused),
    cmocka_unit_test(a_range_must_lie_in_its_segment),
    cmocka_unit_test(data_that_only_begins_in_a_segment_is_not_in_it),
};
UNIT_MAIN(tests)
