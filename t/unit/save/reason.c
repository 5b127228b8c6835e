/* Why a checkpoint was saved is in its manifest: a run that goes on from one that was only due has failed before. */
#include "t/unit/save/rig.h"

#include "runtime/ckpt/reader.h"
#include "runtime/save/resume.h"
#include "t/lib/folder.h"

static int why_rank(struct job *j, int rank)
{
    static const char *const why[] = {"request", "stop", "periodic"};
    struct manifest m;
    struct rig r;
    ddp_error_t e = {0};
    char path[200];
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    for (int i = 0; i < 3; i++) {
        rig_fill(&r);
        r.state.optimizer.n_steps = RIG_STEP + (unsigned)i;
        r.save.checkpoint.is_stopping = i == 1;
        r.save.checkpoint.was_due = i == 2;
        CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
        CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
        snprintf(path, sizeof path, "%s/step-%08d", test_folder, RIG_STEP + i);
        CHECK(reader_open(path, &m, &e) == 0, "%s", e.text);
        CHECK(!strcmp(m.state.reason, why[i]), "%s, not %s", m.state.reason, why[i]);
        manifest_clear(&m);
    }
    rig_close(&r);
    return 0;
}

static int failed_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    CHECK(resume_newest(&r.save, test_folder, &e) == 1, "%s", e.text);
    CHECK(r.save.checkpoint.state.n_failures == 1, "%d", (int)r.save.checkpoint.state.n_failures);
    rig_close(&r);
    return 0;
}

static void a_checkpoint_says_why_it_was_saved(void **state)
{
    (void)state;
    const struct rig_plan plan = {.is_spread = false};
    assert_true(rig_run(why_rank, 2, &plan));
    assert_true(rig_run(failed_rank, 2, &plan));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_checkpoint_says_why_it_was_saved, folder_make, folder_remove),
};
UNIT_MAIN(tests)
