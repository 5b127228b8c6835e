/* Marks that are wrong, and a carrier that fails. */
#include "t/unit/unit.h"

#include <errno.h>

#include "t/lib/reduction.h"

enum { N = 5 };
static const size_t elems[N] = {300, 100, 400, 200, 500};
static const struct reducer_config one_each = {.n_ranks = 1, .first_cap_bytes = 1, .cap_bytes = 1};

/* Marks of a micro-step, the others of which are right; what is said. */
static const struct {
    int n, id[N];
    const char *text;
} wrong[] = {
    {2, {4, 4}, "ddp_grad_ready was called twice for parameter p4"},
    {3, {-1, 4, 4}, "ddp_grad_ready was called for parameter -1, which does not exist"},
    {3, {4, 4, N}, "ddp_grad_ready was called twice for parameter p4"}, /* the first is named */
    {2, {4, N}, "ddp_grad_ready was called for parameter 5, which does not exist"},
    {4, {4, 3, 2, 0}, "parameter p1 was not used"},
};

static int wrong_rank(struct job *j, int rank)
{
    struct reduction_kit k;
    ddp_error_t e = {0};
    CHECK(reduction_open(&k, j, rank, elems, N, &one_each, &e) == 0, "%s", e.text);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        reducer_micro_begin(&k.reducer, false);
        for (int m = 0; m < wrong[i].n; m++)
            reducer_mark(&k.reducer, wrong[i].id[m], MARK_READY);
        CHECK(reducer_check(&k.reducer, &e) < 0, "case %zu", i);
        CHECK(!strncmp(e.text, wrong[i].text, strlen(wrong[i].text)), "case %zu: %s", i, e.text);
        reducer_micro_begin(&k.reducer, false);
        for (int id = 0; id < N; id++)
            reducer_mark(&k.reducer, id, MARK_READY);
        CHECK(reducer_check(&k.reducer, &e) == 0, "after case %zu: %s", i, e.text);
    }
    reduction_close(&k);
    return 0;
}

static void the_first_wrong_mark_of_a_micro_step_is_named(void **state)
{
    (void)state;
    struct job j = {.size = 1, .node_of = (int[]){0}};
    assert_true(job_run(&j, wrong_rank));
}

/* Nothing was marked before the pass was over. */
static int unmarked_rank(struct job *j, int rank)
{
    struct reducer_config cfg = one_each;
    struct reduction_kit k;
    ddp_error_t e = {0};
    cfg.find_unused = true;
    CHECK(reduction_open(&k, j, rank, elems, N, &cfg, &e) == 0, "%s", e.text);
    reducer_micro_begin(&k.reducer, true);
    CHECK(reducer_micro_end(&k.reducer, &e) == 0, "%s", e.text);
    CHECK(k.reducer.metrics.backward_s <= 0, "%g s", k.reducer.metrics.backward_s);
    reduction_close(&k);
    return 0;
}

static void a_pass_without_marks_took_no_time(void **state)
{
    (void)state;
    struct job j = {.size = 1, .node_of = (int[]){0}};
    assert_true(job_run(&j, unmarked_rank));
}

/* A carrier over memory of its own; its functions in order: zero, start of each bucket, wait. */
static int n_before_failure; /* of these */

static int carry(void *ctx, ddp_error_t *errp)
{
    (void)ctx;
    return n_before_failure-- == 0 ? error_set(errp, DDP_E_SYSTEM, EIO, "the device is lost") : 0;
}

static int carry_bucket(void *ctx, const int *id, int n, ddp_error_t *errp)
{
    (void)id, (void)n;
    return carry(ctx, errp);
}

static int refuse(void *ctx, int id, ddp_error_t *errp)
{
    return id == *(int *)ctx ? error_set(errp, DDP_E_SYSTEM, EIO, "parameter %d is not ready", id) : 0;
}

/* The end of a pass over a carrier, in which parameter `refused` (-1: none) is not prepared. */
static int carried_pass(struct job *j, int rank, int refused, ddp_error_t *errp)
{
    static float grads[4096];
    static double sums[N];
    const struct reducer_carrier carrier = {
        .grads = grads, .sums = sums, .wire = DDP_F32, .zero = carry, .start = carry_bucket, .wait = carry};
    struct reducer_config cfg = one_each;
    struct reduction_kit k;
    ddp_error_t e = {0};
    cfg.carrier = &carrier;
    CHECK(reduction_open(&k, j, rank, elems, N, &cfg, &e) == 0, "%s", e.text);
    k.reducer.prepare = refuse;
    k.reducer.prepare_ctx = &refused;
    reducer_zero(&k.reducer);
    reducer_micro_begin(&k.reducer, true);
    for (int id = N - 1; id >= 0; id--)
        reducer_mark(&k.reducer, id, MARK_READY);
    int rc = reducer_micro_end(&k.reducer, errp);
    reduction_close(&k);
    return rc;
}

static int carried_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    for (int i = 0; i <= N + 2; i++) {
        n_before_failure = i;
        int rc = carried_pass(j, rank, -1, &e);
        bool is_lost = rc < 0 && !strcmp(e.text, "the device is lost");
        CHECK(i < N + 2 ? is_lost : rc == 0, "%d right: %d \"%s\"", i, rc, e.text);
    }
    return 0;
}

static void no_failure_of_a_carrier_is_lost(void **state)
{
    (void)state;
    struct job j = {.size = 1, .node_of = (int[]){0}};
    assert_true(job_run(&j, carried_rank));
}

/* One rank's bucket does not start: the other waits beside the communicator for it, or for the tail. */
static int refused_rank(struct job *j, int rank)
{
    static const char *const want[] = {"parameter 2 is not ready", "rank 0 (n0) aborted: parameter 2 is not ready"};
    ddp_error_t e = {0};
    n_before_failure = -1;
    CHECK(carried_pass(j, rank, rank == 0 ? 2 : -1, &e) < 0 && !strcmp(e.text, want[rank]), "%s", e.text);
    return 0;
}

static void a_bucket_that_does_not_start_is_told_to_all(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (int[]){0, 0}};
    assert_true(job_run(&j, refused_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_first_wrong_mark_of_a_micro_step_is_named),
    cmocka_unit_test(a_pass_without_marks_took_no_time),
    cmocka_unit_test(no_failure_of_a_carrier_is_lost),
    cmocka_unit_test(a_bucket_that_does_not_start_is_told_to_all),
};
UNIT_MAIN(tests)
