/* Checkpoints over ranks that are processes, of a team and a state alone: what is saved on some ranks is there again on
 * others, whatever their number and whoever keeps the optimizer's state; what a resume refuses; and saves that fail. */
#include "t/unit/save/rig.h"

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/save/resume.h"
#include "t/lib/folder.h"

static int resume_rank(struct job *j, int rank)
{
    const struct rig_plan *p = j->arg;
    const struct data_position at = {.cursor = 2 * RIG_STEP * 2}; /* saved on two ranks with batch 2 */
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    int rc = resume_newest(&r.save, test_folder, &e);
    if (p->error) {
        CHECK(rc < 0 && strstr(e.text, p->error), "%d: %s", rc, e.text);
        CHECK(!r.team.is_broken, "the team is broken by what it refuses");
    } else {
        CHECK(rc >= 0, "%s", e.text);
        CHECK(rig_is_filled(&r, &at), "not what was saved");
    }
    rig_close(&r);
    return 0;
}

/* ---- tests ---- */

static void what_is_saved_is_there_again_on_any_number_of_ranks(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        const struct rig_plan here = {.is_spread = i & 1}, there = {.is_spread = i >> 1 & 1};
        folder_make(NULL);
        assert_true(rig_run(rig_save_rank, 2, &here));
        if (!rig_run(resume_rank, i & 4 ? 3 : 1 + (i >> 1 & 1), &there))
            fail_msg("case %d", i);
        folder_remove(NULL);
    }
}

/* Each refusal is one line, the same on all ranks, which can go on and try another folder. */
static void what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    const struct rig_plan saved[] = {{.is_cut = false}, {.is_cut = true}};
    const struct rig_plan cases[] = {
        {.rename = "q1", .error = "has no tensor q1"},
        {.n_params = RIG_PARAMS - 1, .error = "has a tensor p3 that is not in this model"},
        {.rule = "sgd", .error = "has a tensor p0.exp_avg that is not in this model"},
        {.n_samples = RIG_SAMPLES + 1,
         .error = "there are 1001: start with the same data and model, or take only its values: --init, another "
                  "--ckpt"},
    };
    for (size_t k = 0; k < sizeof saved / sizeof *saved; k++) {
        folder_make(NULL);
        assert_true(rig_run(rig_save_rank, 2, &saved[k]));
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (!rig_run(resume_rank, 2, &cases[i]))
                fail_msg("%s%s", cases[i].error, saved[k].is_cut ? ", of a step that was cut" : "");
        folder_remove(NULL);
    }
}

static void a_byte_that_changed_is_found(void **state)
{
    (void)state;
    const struct rig_plan saved = {0}, broken = {.error = "checkpoints is whole"};
    assert_true(rig_run(rig_save_rank, 2, &saved));
    rig_damage("step-00000007/model-00001-of-00001.safetensors");
    assert_true(rig_run(resume_rank, 3, &broken));
}

/* A rank that cannot write is named to all; nothing that looks like a checkpoint stays, and the job goes on. */
static int fail_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    if (rank == 1)
        r.save.checkpoint.known.inode++; /* another folder has its name now */
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_failed == 1 && r.save.checkpoint.status.n_committed == 0, "committed");
    CHECK(rank != 0 || strstr(r.save.checkpoint.status.warning, "the checkpoint of step 7 failed: rank 1: "), "%s",
          r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

static void a_rank_that_cannot_write_fails_the_save_and_no_more(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    char path[200];
    assert_true(rig_run(fail_rank, 2, &plain));
    snprintf(path, sizeof path, "%s/step-%08d", test_folder, RIG_STEP);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(rig_run(rig_save_rank, 2, &plain));
}

/* Rank 0's part is written by then, and in it what the program has attached. */
static int fail_attached_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    char name[64];
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_attach(&r.save, "../x", "x", &e) < 0 && strstr(e.text, "is not a plain file name"), "%s", e.text);
    CHECK(checkpoint_attach(&r.save, "merges.txt", "x", &e) == 0, "%s", e.text);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    snprintf(name, sizeof name, ".saving-%s-step-%08d", r.save.checkpoint.token, RIG_STEP);
    if (rank == 1)
        r.save.checkpoint.known.inode++; /* another folder has its name now */
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_failed == 1, "committed");
    CHECK(!rig_has(name), "%s is left: %s", name, r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

static void what_is_given_up_leaves_nothing_where_others_can_write(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_int_equal(chmod(test_folder, 0775), 0);
    bool is_right = rig_run(fail_attached_rank, 2, &plain);
    assert_int_equal(chmod(test_folder, 0755), 0);
    assert_true(is_right);
}

/* The program goes elsewhere, and then calls the folder otherwise. */
static int elsewhere_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    const char *warning = r.save.checkpoint.status.warning;
    rig_fill(&r);
    CHECK(chdir(test_folder) == 0, "%s", test_folder);
    CHECK(rig_save(&r, RIG_STEP, ".//"), "%s", warning);
    CHECK(chdir("/") == 0 && rig_save(&r, RIG_STEP + 1, "."), "%s", warning);
    CHECK(rig_save(&r, RIG_STEP + 2, test_folder), "%s", warning);
    rig_close(&r);
    return 0;
}

static void a_folder_stays_where_it_was(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(elsewhere_rank, 2, &plain));
    assert_true(!rig_has("step-00000007") && rig_has("step-00000008") && rig_has("step-00000009"));
}

/* Or somebody renames what is above it. */
static int renamed_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    const char *warning = r.save.checkpoint.status.warning;
    rig_fill(&r);
    CHECK(chdir(test_folder) == 0 && chdir("before") == 0, "%s", test_folder);
    CHECK(rig_save(&r, RIG_STEP, "ckpt"), "%s", warning);
    CHECK(rank != 0 || rename("../before", "../behind") == 0, "%s", test_folder);
    CHECK(comm_barrier(r.team.comm, &e) == 0, "%s", e.text);
    CHECK(rig_save(&r, RIG_STEP + 1, "ckpt"), "%s", warning);
    rig_close(&r);
    return 0;
}

static void a_folder_above_may_be_renamed(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    char path[200];
    snprintf(path, sizeof path, "%s/before", test_folder);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_true(rig_run(renamed_rank, 2, &plain));
    assert_true(rig_has("behind/ckpt/step-00000008") && !rig_has("before") && !rig_has("behind/ckpt/.writer"));
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_saved_is_there_again_on_any_number_of_ranks),
    cmocka_unit_test(what_does_not_fit_is_refused_by_name),
    IN_FOLDER(a_byte_that_changed_is_found),
    IN_FOLDER(a_rank_that_cannot_write_fails_the_save_and_no_more),
    IN_FOLDER(what_is_given_up_leaves_nothing_where_others_can_write),
    IN_FOLDER(a_folder_stays_where_it_was),
    IN_FOLDER(a_folder_above_may_be_renamed),
};

UNIT_MAIN(tests)
