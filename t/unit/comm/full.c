/* Who leaves the stage of a node full, and is missed by those that wait for a slot of it. */
#include "t/unit/unit.h"

#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/comm/wireup.h"
#include "t/lib/ranks.h"

static const int one_node[3] = {0};

/* Rank 1 reduces what fills the stage, and leaves before it copies it out. Rank 0 does all that there is to be done,
 * and waits for a slot. */
static int full_stage_rank(struct job *j, int rank, comm_t *c)
{
    _Atomic int *has_fed = j->shared;
    size_t n = (STAGE_SLOTS + 1) * STAGE_SLOT_BYTES / 4;
    uint64_t deadline = deadline_in(20), began = clock_ns();
    ddp_error_t e = {0};
    float *x = calloc(n, sizeof *x);
    while (rank == 1 && !*has_fed && deadline_left_ns(deadline) > 0)
        usleep(200);
    comm_work_t *w = comm_allreduce_start(c, x, n, DDP_F32, DDP_SUM, &e);
    CHECK(w, "%s", e.text);
    while ((rank == 0 ? c->engine.fed : c->engine.reduced) < STAGE_SLOTS && deadline_left_ns(deadline) > 0)
        comm_progress(c);
    if (rank == 1)
        return 0;
    *has_fed = 1;
    while (!watch_has_left(c->watch, 1) && deadline_left_ns(deadline) > 0)
        usleep(200);
    CHECK(comm_wait(w, &e) < 0 && strstr(e.text, "rank 1 (n0) left the job"), "%s", e.text);
    CHECK(c->engine.over == c->engine.fed && clock_ns() - began < 5 * NS_PER_S, "noticed at its deadline only");
    free(x);
    return 0;
}

static void a_rank_that_leaves_the_stage_full_is_named(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = one_node, .timeout_s = 6, .progress = COMM_PROGRESS_CALLER};
    assert_true(job_run_comm(&j, full_stage_rank));
}

/* Rank 1 reduces what fills the stage, and does not copy it out. Ranks 0 and 2 do all that there is to be done; rank 2
 * waits for a slot, rank 0 not yet. */
static int full_stage_late_rank(struct job *j, int rank, comm_t *c)
{
    _Atomic int *n_fed = j->shared, *has_reduced = n_fed + 1, *is_over = n_fed + 2;
    size_t n = (STAGE_SLOTS + 1) * STAGE_SLOT_BYTES / 4;
    uint64_t deadline = deadline_in(20);
    ddp_error_t e = {0};
    float *x = calloc(n, sizeof *x);
    while (rank == 1 && *n_fed < 2 && deadline_left_ns(deadline) > 0)
        usleep(200);
    comm_work_t *w = comm_allreduce_start(c, x, n, DDP_F32, DDP_SUM, &e);
    CHECK(w, "%s", e.text);
    while ((rank == 1 ? c->engine.reduced : c->engine.fed) < STAGE_SLOTS && deadline_left_ns(deadline) > 0)
        comm_progress(c);
    ++*(rank == 1 ? has_reduced : n_fed);
    while (!*has_reduced && deadline_left_ns(deadline) > 0)
        usleep(200);
    while (rank == 0 && c->engine.over < STAGE_SLOTS && deadline_left_ns(deadline) > 0)
        comm_progress(c);
    while (rank < 2 && !*is_over && deadline_left_ns(deadline) > 0)
        usleep(200);
    if (rank < 2)
        return 0;
    CHECK(comm_wait(w, &e) < 0 && strstr(e.text, "rank 1 (n0) did not come before the deadline"), "%s", e.text);
    CHECK(c->engine.over == c->engine.fed, "something else was missing");
    *is_over = 1;
    free(x);
    return 0;
}

static void who_keeps_the_stage_full_is_named_at_the_deadline(void **state)
{
    (void)state;
    struct job j = {.size = 3, .node_of = one_node, .timeout_s = 1, .progress = COMM_PROGRESS_CALLER};
    assert_true(job_run_comm(&j, full_stage_late_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_rank_that_leaves_the_stage_full_is_named),
    cmocka_unit_test(who_keeps_the_stage_full_is_named_at_the_deadline),
};
UNIT_MAIN(tests)
