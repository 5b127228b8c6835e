/* Checkpoints on file systems that are slow or hang, over ranks that are processes: what is waited for, and what holds
 * nobody. */
#include "t/unit/save/rig.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "t/lib/folder.h"

/* A file system that takes its time for each file; or for ever, until the test lets it go on. */
static int file_ms, removal_ms;
static int hung[2] = {-1, -1};
static const char *_Atomic hung_call = "fsync";
static _Atomic int *n_hung; /* or NULL */

static void hang(const char *call)
{
    char c;
    if (hung[0] < 0 || strcmp(call, hung_call) != 0)
        return;
    if (n_hung)
        ++*n_hung;
    (void)!read(hung[0], &c, 1);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    poll(NULL, 0, file_ms);
    hang("fsync");
    return __real_fsync(fd);
}

int __real_unlinkat(int at, const char *path, int flags);
int __wrap_unlinkat(int at, const char *path, int flags);
int __wrap_unlinkat(int at, const char *path, int flags)
{
    poll(NULL, 0, removal_ms);
    hang("unlinkat");
    return __real_unlinkat(at, path, flags);
}

int __real_mkdirat(int at, const char *path, mode_t mode);
int __wrap_mkdirat(int at, const char *path, mode_t mode);
int __wrap_mkdirat(int at, const char *path, mode_t mode)
{
    hang("mkdirat");
    return __real_mkdirat(at, path, mode);
}

/* Many files take longer than any one wait may. */
static int slow_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    r.config.ckpt_file_mb = 0.02;
    r.team.timeout_s = 2;
    file_ms = 250;
    uint64_t began = clock_ns();
    CHECK(rig_save(&r, RIG_STEP, test_folder), "%s", r.save.checkpoint.status.warning);
    CHECK((double)(clock_ns() - began) / 1e9 > r.team.timeout_s, "%d files", r.save.checkpoint.plan.files.n_files);
    rig_close(&r);
    return 0;
}

static void a_slow_file_system_is_waited_for(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(slow_rank, 2, &plain));
}

/* What is removed behind a commit takes longer than any one wait may. */
static int removing_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    r.config.ckpt_file_mb = 0.02;
    CHECK(rig_save(&r, 1, test_folder) && rig_save(&r, 2, test_folder), "%s", r.save.checkpoint.status.warning);
    r.config.keep = 1;
    r.team.timeout_s = 2;
    removal_ms = 250;
    uint64_t began = clock_ns();
    CHECK(rig_save(&r, 3, test_folder), "%s", r.save.checkpoint.status.warning);
    CHECK((double)(clock_ns() - began) / 1e9 > r.team.timeout_s, "%d files", r.save.checkpoint.plan.files.n_files);
    CHECK(rig_has("step-00000003") && !rig_has("step-00000002") && !rig_has("step-00000001"), "not removed");
    removal_ms = 0;
    rig_close(&r);
    return 0;
}

static void a_slow_removal_is_waited_for(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(removing_rank, 2, &plain));
}

static int hung_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    r.team.timeout_s = 1;
    CHECK(rank != 1 || pipe(hung) == 0, "no pipe");
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    CHECK(checkpoint_settle(&r.save, &e) < 0, "settled");
    CHECK(strstr(e.text, "step 7 stands still: no rank has written anything for 1 s"), "%s", e.text);
    if (rank == 1) {
        CHECK(!checkpoint_close(&r.save), "its thread has ended");
        CHECK(write(hung[1], "gggggggggggg", 12) == 12, "pipe");
    }
    rig_close(&r);
    return 0;
}

static void one_that_hangs_holds_nobody(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(hung_rank, 2, &plain));
}

/* The call of one rank's that hangs, of a save that fails or does not. */
static struct scene {
    const char *call;
    int rank;
    bool fails;
} scene;

/* A step, as far as checkpoints go. Returns how many ranks have come to the call; -1: error. */
static int step(struct rig *r, ddp_error_t *errp)
{
    double tail[TAIL_COUNT + 1] = {0};
    struct ddp_step s = {0};
    checkpoint_fill_tail(&r->save, tail);
    tail[TAIL_COUNT] = r->team.me.rank == 0 && *n_hung > 0;
    if (comm_allreduce(r->team.comm, tail, TAIL_COUNT + 1, DDP_F64, DDP_SUM, errp) < 0 ||
        checkpoint_after_step(&r->save, tail, &s, errp) < 0)
        return -1;
    return (int)tail[TAIL_COUNT];
}

static int going_on_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    uint64_t deadline = deadline_in(20);
    int n_hung_for = 0;
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    if (scene.fails && rank == 1)
        r.save.checkpoint.known.inode++; /* another folder has its name now */
    n_hung = j->shared;
    CHECK(pipe(hung) == 0, "no pipe");
    hung_call = rank == scene.rank ? scene.call : "";
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    while (n_hung_for < 10 && deadline_left_ns(deadline) > 0) {
        int n = step(&r, &e);
        CHECK(n >= 0, "%s", e.text);
        n_hung_for += n;
    }
    CHECK(n_hung_for == 10 && r.save.checkpoint.phase != CHECKPOINT_IDLE, "%s has not hung", scene.call);
    hung_call = "";
    CHECK(write(hung[1], "gggg", 4) == 4, "pipe");
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_failed == scene.fails && r.save.checkpoint.status.n_committed == !scene.fails,
          "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

static void steps_go_on_whatever_hangs(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    const struct scene scenes[] = {
        {.call = "mkdirat", .rank = 0}, {.call = "mkdirat", .rank = 1}, /* a save's folder */
        {.call = "fsync", .rank = 0},                                   /* .writer */
        {.call = "unlinkat", .rank = 0, .fails = true},                 /* what there is of a save that has failed */
    };
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        folder_make(NULL);
        scene = scenes[i];
        if (!rig_run(going_on_rank, 2, &plain))
            fail_msg("%s of rank %d", scene.call, scene.rank);
        folder_remove(NULL);
    }
}

enum { SUSPENDED_TIMEOUT_S = 6 };

/* Rank 0's files hang, in a step that is suspended for longer than the deadline. */
static int suspended_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    r.team.timeout_s = SUSPENDED_TIMEOUT_S;
    const int from = hung[0];
    hung[0] = -1;
    CHECK(rig_save(&r, 1, test_folder), "%s", r.save.checkpoint.status.warning); /* the folder is this job's */
    hung[0] = rank == 0 ? from : -1;
    n_hung = j->shared;
    CHECK(rig_save(&r, RIG_STEP, test_folder), "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

static void a_suspended_step_goes_on_with_its_save(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    struct job j = {.size = 2, .node_of = (const int[]){0, 0}, .arg = &plain};
    pid_t pids[2];
    int codes[2];
    assert_int_equal(pipe(hung), 0);
    job_start(&j, suspended_rank, pids);
    for (uint64_t end = deadline_in(20); !*(_Atomic int *)j.shared && deadline_left_ns(end) > 0;)
        usleep(1000);
    usleep(SUSPENDED_TIMEOUT_S * 1000000 / 3); /* rank 0 has looked once */
    for (int r = 0; r < 2; r++)
        kill(pids[r], SIGSTOP);
    usleep((SUSPENDED_TIMEOUT_S + 1) * 1000000);
    for (int r = 0; r < 2; r++)
        kill(pids[r], SIGCONT);
    usleep(300000); /* rank 0 has looked again */
    assert_int_equal(write(hung[1], "gggggggggggg", 12), 12);
    job_wait(&j, pids, 40, codes);
    job_end(&j);
    close(hung[0]);
    close(hung[1]);
    hung[0] = hung[1] = -1;
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

static const struct CMUnitTest tests[] = {
    IN_FOLDER(a_slow_file_system_is_waited_for),
    IN_FOLDER(a_slow_removal_is_waited_for),
    IN_FOLDER(one_that_hangs_holds_nobody),
    IN_FOLDER(a_suspended_step_goes_on_with_its_save),
    cmocka_unit_test(steps_go_on_whatever_hangs),
};
UNIT_MAIN(tests)
