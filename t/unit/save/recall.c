/* Snapshots that outlive the ranks (recall.h), in memory that this program keeps as their guards do. */
#include "t/unit/save/kept.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/save/resume.h"
#include "t/lib/folder.h"

/* A snapshot of step 7; of step 8 rank 1 has not the whole, or, on two nodes, there is none. */
static int snap_rank(struct job *j, int rank)
{
    const struct rig_plan *p = j->arg;
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, kept_go_there(&r), &e) == 0, "%s", e.text);
    CHECK(r.save.recall.is_open, "%s", r.save.checkpoint.status.warning);
    for (int before = p->on_two_nodes ? 3 : 0; before >= 0; before--) { /* step 7 ends in either slot */
        r.state.optimizer.n_steps = RIG_STEP - (unsigned)before;
        kept_snap(&r);
    }
    r.state.optimizer.n_steps++;
    rig_values(&r, 2)[1]++;
    if (!p->on_two_nodes)
        kept_snap(&r);
    CHECK(comm_barrier(r.team.comm, &e) == 0, "%s", e.text); /* all have sent theirs */
    if (!p->on_two_nodes && rank == 1)
        slots_clear(&r.save.recall.slots, r.save.recall.newest);
    rig_close(&r);
    return 0;
}

/* With snapshot-every rank 0 asks for one after each step of that multiple. */
static int every_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    double tail[TAIL_COUNT];
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    r.config.snapshot_every = 3;
    for (unsigned step = 1; step <= 7; step++) {
        r.state.optimizer.n_steps = step - 1; /* the tail comes before its step */
        recall_fill_tail(&r.save, tail);
        CHECK((tail[TAIL_SNAPSHOT] > 0) == (rank == 0 && step % 3 == 0), "step %u: %g", step, tail[TAIL_SNAPSHOT]);
    }
    rig_close(&r);
    return 0;
}

static int never_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    r.config.snapshot_every = 0;
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    CHECK(!r.save.recall.is_open, "memory is taken for snapshots that nobody wants");
    rig_close(&r);
    return 0;
}

static void the_newest_that_all_ranks_hold_is_taken_from_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct rig_plan first = {.is_spread = i, .has_guards = true};
        const struct rig_plan next = {.is_spread = i, .has_guards = true, .generation = 1, .rc = 1,
                                  .saved_on = 3};
        assert_true(kept_run(snap_rank, 3, &first));
        assert_true(kept_run(kept_recall_rank, 3, &next));
        assert_true(kept_run(kept_recall_rank, 3, &next)); /* who has read it leaves it there */
    }
}

/* The same name elsewhere. */
static void what_is_of_another_folder_is_not_taken(void **state)
{
    (void)state;
    char other[200];
    const struct rig_plan first = {.has_guards = true};
    const struct rig_plan same = {.has_guards = true, .generation = 1, .rc = 1, .saved_on = 2};
    const struct rig_plan none = {.has_guards = true, .generation = 1};
    snprintf(other, sizeof other, "%s/other", test_folder);
    assert_int_equal(mkdir(other, 0755), 0);
    kept_stands[0] = test_folder;
    assert_true(kept_run(snap_rank, 2, &first));
    kept_stands[0] = other;
    assert_true(kept_run(kept_recall_rank, 2, &none));
    kept_stands[0] = test_folder;
    assert_true(kept_run(kept_recall_rank, 2, &same));
    kept_stands[0] = NULL;
}

/* Nodes that have the folder by other paths. */
static void a_node_may_have_the_folder_elsewhere(void **state)
{
    (void)state;
    char at[2][200], link[220];
    const struct rig_plan first = {.has_guards = true, .on_two_nodes = true};
    const struct rig_plan next = {.has_guards = true, .on_two_nodes = true, .generation = 1, .rc = 1, .saved_on = 4,
                                  .warning = "2 ranks had no snapshot of step 7 and took the copy that"};
    for (int i = 0; i < 2; i++) {
        snprintf(at[i], sizeof at[i], "%s/%d", test_folder, i);
        snprintf(link, sizeof link, "%s/ckpt", at[i]);
        assert_int_equal(mkdir(at[i], 0755), 0);
        assert_int_equal(i ? symlink("../0/ckpt", link) : mkdir(link, 0755), 0);
        kept_stands[i] = at[i];
    }
    assert_true(kept_run(snap_rank, 4, &first));
    kept_lose(2);
    kept_lose(3);
    assert_true(kept_run(kept_recall_rank, 4, &next));
    kept_stands[0] = kept_stands[1] = NULL;
}

static void a_first_generation_takes_nothing_from_memory(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    assert_true(kept_run(snap_rank, 2, &first));
    assert_true(kept_run(kept_recall_rank, 2, &first));
}

static void what_is_missing_or_wrong_on_one_rank_is_taken_from_files(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    const struct rig_plan cases[] = {
        {.warning = "in memory are not used: rank 2: its own of step"},
        {.warning = "in memory are not used: rank 2 has none that fits"},
        {.warning = "in memory are not used: rank 2 has none that fits"},
    };
    for (int i = 0; i < 6; i++) {
        struct rig_plan next = cases[i % 3];
        next.has_guards = true;
        next.generation = 1;
        next.saved_on = 3;
        next.rc = i / 3;
        assert_true(kept_run(next.rc ? rig_save_rank : snap_rank, 3, &first));
        if (i % 3 == 0)
            kept_damage(2, HANDOVER_OWN);
        else if (i % 3 == 1)
            kept_lose(2);
        else
            for (off_t at = 300; at < 4400; at += 4096)
                assert_int_equal(pwrite(rig_guard[2].memory[0], "?", 1, at), 1);
        if (!kept_run(kept_recall_rank, 3, &next))
            fail_msg("case %d", i);
        folder_remove(NULL);
        folder_make(NULL);
    }
}

/* Ranks 0 and 1 are on a node, 2 and 3 on another. */
static void what_a_node_has_lost_is_on_the_other(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct rig_plan first = {.is_spread = i & 1, .has_guards = true, .on_two_nodes = true};
        struct rig_plan next = {.is_spread = i & 1, .has_guards = true, .on_two_nodes = true, .generation = 1, .rc = 1,
                            .saved_on = 4, .warning = "2 ranks had no snapshot of step 7 and took the copy that"};
        assert_true(kept_run(snap_rank, 4, &first));
        if (i < 2) {
            kept_lose(2);
            kept_lose(3);
        } else {
            kept_damage(0, HANDOVER_OWN);
            kept_damage(1, HANDOVER_OWN);
        }
        if (!kept_run(kept_recall_rank, 4, &next))
            fail_msg("case %d", i);
        next.warning = NULL; /* it is their own again */
        assert_true(kept_run(kept_recall_rank, 4, &next));
        kept_damage(1, HANDOVER_OWN);
        kept_damage(3, HANDOVER_GUEST);
        next.warning = "memory are not used: rank 1: ";
        next.rc = 0;
        assert_true(kept_run(kept_recall_rank, 4, &next));
        for (int rank = 0; rank < 4; rank++)
            kept_lose(rank);
    }
}

static void every_so_many_steps_is_so_many_and_zero_is_never(void **state)
{
    (void)state;
    const struct rig_plan plan = {.has_guards = true};
    assert_true(kept_run(every_rank, 2, &plan));
    assert_true(kept_run(never_rank, 2, &plan));
}

static void memory_of_other_training_is_not_taken(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    const struct rig_plan more_ranks = {.has_guards = true, .generation = 1, .rc = 1, .saved_on = 2,
                                    .warning = "rank 0 has none that fits"};
    const struct rig_plan other_folder = {.has_guards = true, .generation = 1};
    assert_true(kept_run(rig_save_rank, 2, &first));
    assert_true(kept_run(kept_recall_rank, 3, &more_ranks));
    folder_remove(NULL);
    folder_make(NULL);
    assert_true(kept_run(snap_rank, 2, &first));
    folder_remove(NULL);
    folder_make(NULL);
    assert_true(kept_run(kept_recall_rank, 2, &other_folder));
}

/* No checkpoint yet; other data, of as many bytes. */
static void memory_of_another_program_is_refused_with_a_warning(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    struct rig_plan next = {.has_guards = true, .generation = 1, .n_samples = RIG_SAMPLES + 1,
                            .warning = "rank 0 has none that fits: its own are of another libddp, number of ranks, "
                                       "model or data; there is no checkpoint"};
    assert_true(kept_run(snap_rank, 3, &first));
    assert_true(kept_run(kept_recall_rank, 3, &next));
    assert_true(kept_run(snap_rank, 3, &first));
    next.n_samples = 0;
    next.rename = "another";
    assert_true(kept_run(kept_recall_rank, 3, &next));
    assert_true(kept_run(snap_rank, 2, &first)); /* of another size */
    next.rename = NULL;
    assert_true(kept_run(kept_recall_rank, 3, &next));
}

static void memory_of_another_program_on_one_rank_is_no_ranks(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    const struct rig_plan next = {.has_guards = true, .generation = 1,
                                  .warning = "memory are not used: rank 1 has none that fits: its own"};
    assert_true(kept_run(snap_rank, 3, &first));
    int memory = rig_guard[1].memory[HANDOVER_OWN]; /* whose key has another rank's number */
    rig_guard[1].memory[HANDOVER_OWN] = rig_guard[2].memory[HANDOVER_OWN];
    rig_guard[2].memory[HANDOVER_OWN] = memory;
    assert_true(kept_run(kept_recall_rank, 3, &next));
}

/* On a GPU: copies wait for the update, which the program's stream may still hold. */
static int n_behind; /* calls before anything was copied */
static const struct recall *watched;
int __wrap_readback_after(struct readback *r, device_stream_t *s, ddp_error_t *errp);

int __wrap_readback_after(struct readback *r, device_stream_t *s, ddp_error_t *errp)
{
    (void)r, (void)s, (void)errp;
    n_behind += watched->newest < 0;
    return 0;
}

static int snap_alone_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    r.save.checkpoint.known.inode++; /* another folder has its name now */
    watched = &r.save.recall;
    r.state.arena.device = (device_t *)&r;
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    r.state.arena.device = NULL;
    CHECK(n_behind == 1, "%d", n_behind);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    checkpoint_wait_copied(&r.save);
    CHECK(r.save.recall.newest >= 0 && r.save.checkpoint.status.n_committed == 0, "no snapshot");
    rig_close(&r);
    return 0;
}

static void without_a_folder_a_snapshot_still_follows_the_update(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    const struct rig_plan next = {.has_guards = true, .generation = 1, .rc = 1, .saved_on = 2};
    assert_true(kept_run(snap_alone_rank, 2, &first));
    assert_true(kept_run(kept_recall_rank, 2, &next));
}

/* A folder that has become one to read only. */
static bool is_read_only;
int __wrap_savedir_probe(struct savedir *dir, const char *name, ddp_error_t *errp);
int __real_savedir_probe(struct savedir *dir, const char *name, ddp_error_t *errp);

int __wrap_savedir_probe(struct savedir *dir, const char *name, ddp_error_t *errp)
{
    if (!is_read_only)
        return __real_savedir_probe(dir, name, errp);
    errno = EROFS;
    return error_errno(errp, "cannot write into the folder %s", dir->path);
}

/* Each generation comes one step further, in memory alone. */
static int read_only_rank(struct job *j, int rank)
{
    const struct rig_plan *p = j->arg;
    const struct data_position at = {.cursor = 2 * RIG_STEP * (unsigned)p->saved_on};
    const unsigned done = (unsigned)p->generation - 1;
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    CHECK(resume_newest(&r.save, test_folder, &e) == 1, "%s", e.text);
    const struct ddp_checkpoint_status *s = &r.save.checkpoint.status;
    CHECK(!strcmp(s->path, RECALL_PATH), "generation %d: from %s", p->generation, s->path);
    CHECK(rank || strstr(s->warning, "Read-only"), "%s", s->warning);
    CHECK(r.state.optimizer.n_steps == RIG_STEP + done, "step %llu", (unsigned long long)r.state.optimizer.n_steps);
    r.state.optimizer.n_steps -= done;
    CHECK(rig_is_filled(&r, &at), "not what was there");
    r.state.optimizer.n_steps += done + 1;
    kept_snap(&r);
    CHECK(comm_barrier(r.team.comm, &e) == 0, "%s", e.text);
    rig_close(&r);
    return 0;
}

static void a_folder_that_cannot_be_written_leaves_memory_as_good(void **state)
{
    (void)state;
    struct rig_plan p = {.has_guards = true, .saved_on = 2};
    assert_true(kept_run(rig_save_rank, 2, &p));
    is_read_only = true;
    while (p.generation++ < 3)
        assert_true(kept_run(read_only_rank, 2, &p));
    is_read_only = false;
}

static const struct CMUnitTest tests[] = {
    KEPT_TEST(the_newest_that_all_ranks_hold_is_taken_from_memory),
    KEPT_TEST(a_first_generation_takes_nothing_from_memory),
    KEPT_TEST(what_is_missing_or_wrong_on_one_rank_is_taken_from_files),
    KEPT_TEST(what_a_node_has_lost_is_on_the_other),
    KEPT_TEST(every_so_many_steps_is_so_many_and_zero_is_never),
    KEPT_TEST(what_is_of_another_folder_is_not_taken),
    KEPT_TEST(a_node_may_have_the_folder_elsewhere),
    KEPT_TEST(memory_of_other_training_is_not_taken),
    KEPT_TEST(memory_of_another_program_is_refused_with_a_warning),
    KEPT_TEST(memory_of_another_program_on_one_rank_is_no_ranks),
    KEPT_TEST(without_a_folder_a_snapshot_still_follows_the_update),
    KEPT_TEST(a_folder_that_cannot_be_written_leaves_memory_as_good),
};

UNIT_MAIN(tests)
