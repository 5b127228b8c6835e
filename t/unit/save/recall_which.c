/* Which snapshots count (recall.h): slots that are written from, that are newer than what the ranks agree on, that are
 * on their way; a step that is older than a checkpoint's, and the same step of another generation. */
#include "t/unit/save/kept.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "t/lib/folder.h"

/* Nothing is written as long as this is held. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
ssize_t __real_pwrite(int fd, const void *data, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at);

ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return __real_pwrite(fd, data, n, at);
}

/* Snapshots of the next two steps, while the checkpoint of step 7 is copied and not yet written. */
static int snap_while_writing_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    pthread_mutex_lock(&gate);
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    checkpoint_wait_copied(&r.save);
    kept_negate(&r);
    for (int i = 0; i < SLOTS_N; i++) {
        r.state.optimizer.n_steps++;
        kept_snap(&r);
        CHECK(r.save.recall.step[r.save.recall.newest] == r.state.optimizer.n_steps, "no snapshot");
    }
    CHECK(writer_state(r.save.checkpoint.writer) == WRITER_WRITING, "it is written already");
    pthread_mutex_unlock(&gate);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_committed == 1, "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

static void snapshots_leave_alone_what_a_checkpoint_is_written_from(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    const struct rig_plan next = {.has_guards = true, .generation = 1, .rc = 1, .saved_on = 2,
                                  .warning = "in memory are not used: rank 0 has none that fits"};
    assert_true(kept_run(snap_while_writing_rank, 2, &first));
    kept_lose(0);
    kept_lose(1);
    assert_true(kept_run(kept_recall_rank, 2, &next));
}

static bool has_step(const struct slots *s, uint64_t step)
{
    struct slots_seal found;
    bool has = false;
    for (int i = 0; i < SLOTS_N; i++)
        has |= slots_read(s, i, &found) && found.state.step == step;
    return has;
}

/* Snapshots of steps 7 and 8, of which the ranks agree on the first. */
static int distrust_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    const struct slots *own = &r.save.recall.slots, *guest = &r.save.recall.guest;
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    kept_snap(&r);
    r.state.optimizer.n_steps++;
    kept_negate(&r);
    kept_snap(&r);
    CHECK(comm_barrier(r.team.comm, &e) == 0, "%s", e.text);
    CHECK(has_step(own, RIG_STEP + 1) && has_step(guest, RIG_STEP + 1), "no snapshot");
    recall_distrust(&r.save, RIG_STEP);
    CHECK(has_step(own, RIG_STEP) && has_step(guest, RIG_STEP), "what is agreed has gone");
    CHECK(!has_step(own, RIG_STEP + 1), "its own is there still");
    CHECK(!has_step(guest, RIG_STEP + 1), "its guest's is there still");
    rig_close(&r);
    return 0;
}

static void steps_that_are_not_trusted_are_forgotten(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true, .on_two_nodes = true};
    const struct rig_plan next = {.has_guards = true, .on_two_nodes = true, .generation = 1, .rc = 1, .saved_on = 4};
    assert_true(kept_run(distrust_rank, 4, &first));
    assert_true(kept_run(kept_recall_rank, 4, &next));
}

static void none_is_due_while_one_is_on_its_way_to_another_node(void **state)
{
    static struct save save;
    static const struct {
        double wanted, unmirrored, joined;
        bool is_skipped, is_due;
    } cases[] = {{1, 0, 0, false, true}, {0, 0, 0, false, false}, {1, 1, 0, false, false},
                 {1, 3, 0, false, false}, {1, 0, 1, false, false}, {1, 0, 0, true, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double tail[TAIL_COUNT] = {[TAIL_SNAPSHOT] = cases[i].wanted, [TAIL_UNMIRRORED] = cases[i].unmirrored,
                                         [TAIL_JOINED] = cases[i].joined};
        recall_after_step(&save, tail, cases[i].is_skipped);
        if (save.recall.is_due != cases[i].is_due)
            fail_msg("case %zu", i);
    }
}

/* Rank 0's snapshots are on their way to another node. */
static bool is_on_its_way;
bool __real_mirror_is_done(mirror_t *m);
bool __wrap_mirror_is_done(mirror_t *m);

bool __wrap_mirror_is_done(mirror_t *m)
{
    return !is_on_its_way && __real_mirror_is_done(m);
}

static int on_its_way_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    double tail[TAIL_COUNT];
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    kept_snap(&r);
    recall_fill_tail(&r.save, tail);
    CHECK(tail[TAIL_UNMIRRORED] == 0, "%g", tail[TAIL_UNMIRRORED]);
    is_on_its_way = rank == 0;
    recall_fill_tail(&r.save, tail);
    CHECK(tail[TAIL_UNMIRRORED] == is_on_its_way, "%g", tail[TAIL_UNMIRRORED]);
    CHECK(comm_barrier(r.team.comm, &e) == 0, "%s", e.text);
    rig_close(&r);
    return 0;
}

static void a_rank_says_that_its_own_is_on_its_way(void **state)
{
    (void)state;
    const struct rig_plan plan = {.has_guards = true, .on_two_nodes = true};
    assert_true(kept_run(on_its_way_rank, 4, &plan));
}

/* Of step 4, with other values. */
static int snap_early_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    r.state.optimizer.n_steps = 4;
    kept_negate(&r);
    kept_snap(&r);
    rig_close(&r);
    return 0;
}

static void a_checkpoint_that_is_newer_goes_before_memory(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true}, without = {.has_guards = false};
    const struct rig_plan next = {.has_guards = true, .generation = 1, .rc = 1, .saved_on = 2,
                                  .warning = "there is a checkpoint of step 7, after that of step 4"};
    assert_true(kept_run(snap_early_rank, 2, &first));
    assert_true(kept_run(rig_save_rank, 2, &without));
    assert_true(kept_run(kept_recall_rank, 2, &next));
}

static int other_slot; /* rank 0's of another generation */

/* All ranks have step 7, with step 6 in the other slot, which says on rank 0 that it is a later generation's step 7. */
static int two_generations_rank(struct job *j, int rank)
{
    struct rig r;
    struct slots_seal seal;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    struct recall *recall = &r.save.recall;
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    for (int slot = 0; slot < SLOTS_N; slot++) {
        if (slot == other_slot)
            kept_negate(&r);
        r.state.optimizer.n_steps = slot == other_slot ? RIG_STEP - 1 : RIG_STEP;
        kept_snap(&r);
        CHECK(recall->newest == slot, "in slot %d", recall->newest);
        if (slot == other_slot)
            kept_negate(&r);
    }
    if (rank == 0) {
        CHECK(slots_read(&recall->slots, other_slot, &seal), "no snapshot");
        seal.state.step = RIG_STEP;
        seal.generation++;
        slots_seal(&recall->slots, other_slot, &seal);
        mirror_send(recall->mirror, other_slot);
        while (!mirror_is_done(recall->mirror))
            sched_yield();
    }
    CHECK(comm_barrier(r.team.comm, &e) == 0, "%s", e.text);
    rig_close(&r);
    return 0;
}

static void one_step_of_two_generations_is_not_mixed(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct rig_plan first = {.has_guards = true, .on_two_nodes = true};
        struct rig_plan next = {.has_guards = true, .on_two_nodes = true, .generation = 2, .rc = 1, .saved_on = 4};
        other_slot = i & 1;
        assert_true(kept_run(two_generations_rank, 4, &first));
        if (i & 2) {
            kept_lose(0);
            next.warning = "1 rank had no snapshot of step 7 and took the copy that";
        }
        if (!kept_run(kept_recall_rank, 4, &next))
            fail_msg("case %d", i);
        for (int rank = 0; rank < 4; rank++)
            kept_lose(rank);
    }
}

static const struct CMUnitTest tests[] = {
    KEPT_TEST(snapshots_leave_alone_what_a_checkpoint_is_written_from),
    KEPT_TEST(steps_that_are_not_trusted_are_forgotten),
    cmocka_unit_test(none_is_due_while_one_is_on_its_way_to_another_node),
    KEPT_TEST(a_rank_says_that_its_own_is_on_its_way),
    KEPT_TEST(a_checkpoint_that_is_newer_goes_before_memory),
    KEPT_TEST(one_step_of_two_generations_is_not_mixed),
};

UNIT_MAIN(tests)
