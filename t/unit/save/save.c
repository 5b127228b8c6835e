/* Checkpoints over ranks that are processes, of a team and a state alone: what is saved on some ranks is there again on
 * others, whatever their number and whoever keeps the optimizer's state; and what a resume refuses. */
#include "t/unit/save/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
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
         .error = "there are 1001: start with the same data, or take only its values: --init, and another --ckpt"},
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

static void damage(const char *name)
{
    char path[200];
    unsigned char byte = 0;
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, 100000) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 100000), 1);
    close(fd);
}

static void a_byte_that_changed_is_found(void **state)
{
    (void)state;
    const struct rig_plan saved = {0}, broken = {.error = "no checkpoint in"};
    assert_true(rig_run(rig_save_rank, 2, &saved));
    damage("step-00000007/model-00001-of-00001.safetensors");
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

static bool is_there(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    return access(path, F_OK) == 0;
}

/* Rank 0's part is written by then, and in it what the program has attached. */
static int fail_attached_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    char name[64];
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_attach(&r.save, "merges.txt", "x", &e) == 0, "%s", e.text);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    snprintf(name, sizeof name, ".saving-%s-step-%08d", r.save.checkpoint.token, RIG_STEP);
    if (rank == 1)
        r.save.checkpoint.known.inode++; /* another folder has its name now */
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_failed == 1, "committed");
    CHECK(!is_there(name), "%s is left: %s", name, r.save.checkpoint.status.warning);
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

static bool save_step_in(struct rig *r, uint64_t step, const char *dir)
{
    ddp_error_t e = {0};
    uint64_t before = r->save.checkpoint.status.n_committed;
    r->state.optimizer.n_steps = step;
    if (checkpoint_take(&r->save, dir, NULL, &e) < 0 || checkpoint_settle(&r->save, &e) < 0)
        print_message("# %s\n", e.text);
    return r->save.checkpoint.status.n_committed > before;
}

static bool save_step(struct rig *r, uint64_t step)
{
    return save_step_in(r, step, test_folder);
}

/* The folder is empty when this job looks; another one then saves step 100 before it. */
static int late_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    char path[200];
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    if (rank == 0) {
        snprintf(path, sizeof path, "%s/step-00000100", test_folder);
        CHECK(mkdir(path, 0755) == 0, "%s", path);
        strcat(path, "/manifest.json");
        CHECK(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) == 0, "%s", path);
    }
    CHECK(!save_step(&r, RIG_STEP), "another job's checkpoints are further");
    CHECK(rank != 0 || strstr(r.save.checkpoint.status.warning, "has step-00000100, which another job has saved"), "%s",
          r.save.checkpoint.status.warning);
    CHECK(save_step(&r, 101), "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

/* Another job takes the folder over; what this one then writes fails, by something that says nothing of that. */
static int lost_rank(struct job *j, int rank)
{
    struct rig r;
    struct savedir dir;
    ddp_error_t e = {0};
    char path[200];
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    const char *warning = r.save.checkpoint.status.warning;
    snprintf(path, sizeof path, "%s/.saving-%s-step-%08d", test_folder, r.save.checkpoint.token, RIG_STEP + 1);
    CHECK(rank != 0 || close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) == 0, "%s", path);
    CHECK(save_step(&r, RIG_STEP), "%s", warning);
    if (rank == 0) {
        CHECK(savedir_open(&dir, test_folder, NULL, &e) == 0, "%s", e.text);
        CHECK(commit_clean(&dir, "bbbbbbbbbbbbbbbb", RIG_STEP, &e) == 0, "%s", e.text);
        savedir_close(&dir);
    }
    CHECK(!save_step(&r, RIG_STEP + 1), "a file has its folder's name");
    CHECK(rank != 0 || strstr(warning, "another job has begun to save there"), "%s", warning);
    rig_close(&r);
    return 0;
}

static void who_has_lost_the_folder_says_so_at_once(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(lost_rank, 2, &plain));
    assert_true(is_there("step-00000007") && !is_there("step-00000008"));
}

static void who_is_further_keeps_the_folder(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(late_rank, 2, &plain));
    assert_true(is_there("step-00000100") && is_there("step-00000101") && !is_there("step-00000007"));
}

/* A file system that does not answer now. */
static bool is_out;
ssize_t __real_pread(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t at);

ssize_t __wrap_pread(int fd, void *to, size_t n, off_t at)
{
    char link[64], path[400] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    (void)!readlink(link, path, sizeof path - 1);
    if (!is_out || !strstr(path, "step-00000009/optimizer"))
        return __real_pread(fd, to, n, at);
    errno = EIO;
    return -1;
}

/* One in which nothing can be made now. */
static bool is_full;
int __real_mkdirat(int at, const char *path, mode_t mode);
int __wrap_mkdirat(int at, const char *path, mode_t mode);
int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, mode_t mode);

int __wrap_mkdirat(int at, const char *path, mode_t mode)
{
    if (!is_full)
        return __real_mkdirat(at, path, mode);
    errno = EDQUOT;
    return -1;
}

int __wrap_openat(int at, const char *path, int flags, mode_t mode)
{
    if (!is_full || !(flags & O_CREAT))
        return __real_openat(at, path, flags, mode);
    errno = EDQUOT;
    return -1;
}

static int save_two_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(save_step(&r, RIG_STEP) && save_step(&r, RIG_STEP + 2), "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

static int unread_rank(struct job *j, int rank)
{
    const struct rig_plan *p = j->arg;
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    is_out = rank == 1;
    is_full = p->is_full;
    CHECK(resume_newest(&r.save, test_folder, &e) == 1, "%s", e.text);
    CHECK(is_full == !r.save.checkpoint.dir, "%s", r.save.checkpoint.status.warning);
    is_out = is_full = false;
    CHECK(r.state.optimizer.n_steps == RIG_STEP, "step %llu", (unsigned long long)r.state.optimizer.n_steps);
    CHECK(save_step(&r, RIG_STEP + (p->replaces ? 2 : 1)), "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

/* And where saves could not go there at once. */
static void what_could_not_be_read_is_set_aside(void **state)
{
    (void)state;
    const struct rig_plan cases[] = {{0}, {.is_full = true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder_make(NULL);
        assert_true(rig_run(save_two_rank, 2, &cases[i]));
        assert_true(rig_run(unread_rank, 2, &cases[i]));
        assert_true(is_there("step-00000007") && is_there("step-00000008") && !is_there("step-00000009"));
        assert_true(is_there("suspect-step-00000009/manifest.json"));
        folder_remove(NULL);
    }
}

static void what_has_been_replaced_is_not(void **state)
{
    (void)state;
    const struct rig_plan plan = {.replaces = true};
    assert_true(rig_run(save_two_rank, 2, &plan));
    assert_true(rig_run(unread_rank, 2, &plan));
    assert_true(is_there("step-00000007") && is_there("step-00000009") && !is_there("suspect-step-00000009"));
}

/* In the way of what is set aside. */
#define BLOCK "suspect-step-00000009/block"

static int blocked_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    char block[200];
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    is_out = rank == 1;
    CHECK(resume_newest(&r.save, test_folder, &e) == 1, "%s", e.text);
    is_out = false;
    for (uint64_t step = RIG_STEP + 1; step < RIG_STEP + 5; step += 1 + (step == 8)) {
        CHECK(save_step(&r, step), "%s", r.save.checkpoint.status.warning);
        CHECK(rank != 0 || strstr(r.save.checkpoint.status.warning, "cannot set step-00000009 aside"), "step %llu: %s",
              (unsigned long long)step, r.save.checkpoint.status.warning);
        CHECK(rank != 0 || is_there("step-00000009"), "removed after step %llu", (unsigned long long)step);
    }
    snprintf(block, sizeof block, "%s/" BLOCK, test_folder);
    CHECK(rank != 0 || rmdir(block) == 0, "%s", block);
    CHECK(save_step(&r, RIG_STEP + 5), "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

static void what_cannot_be_set_aside_stays(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    char block[200];
    assert_true(rig_run(save_two_rank, 2, &plain));
    snprintf(block, sizeof block, "%s/suspect-step-00000009", test_folder);
    assert_int_equal(mkdir(block, 0755), 0);
    snprintf(block, sizeof block, "%s/" BLOCK, test_folder);
    assert_int_equal(mkdir(block, 0755), 0);
    assert_true(rig_run(blocked_rank, 2, &plain));
    assert_true(is_there("step-00000011") && is_there("step-00000012") && !is_there("step-00000009"));
    assert_true(is_there("suspect-step-00000009/manifest.json"));
    assert_true(!is_there("suspect-step-00000008") && !is_there("suspect-step-00000010")); /* this job's own */
}

/* Saves go elsewhere at first. */
static int broken_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    char elsewhere[200];
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", test_folder);
    is_full = true;
    CHECK(resume_newest(&r.save, test_folder, &e) == 1, "%s", e.text);
    is_full = false;
    CHECK(save_step_in(&r, RIG_STEP + 1, elsewhere), "%s", r.save.checkpoint.status.warning);
    CHECK(save_step(&r, RIG_STEP + 3), "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

static void what_was_found_broken_is_none_to_keep(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(save_two_rank, 2, &plain));
    damage("step-00000009/model-00001-of-00001.safetensors");
    assert_true(rig_run(broken_rank, 2, &plain));
    assert_true(is_there("elsewhere/step-00000008"));
    assert_true(is_there("step-00000007") && !is_there("step-00000009") && is_there("step-00000010"));
}

/* A server that gives this user's files to another one. */
static bool is_mapped;
uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);

uid_t __wrap_geteuid(void)
{
    return __real_geteuid() + is_mapped;
}

static int mapped_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    is_mapped = true;
    CHECK(resume_newest(&r.save, test_folder, &e) == 1, "%s", e.text);
    CHECK(r.state.optimizer.n_steps == RIG_STEP + 2, "step %llu", (unsigned long long)r.state.optimizer.n_steps);
    rig_close(&r);
    return 0;
}

/* A job died between the two renames of a commit. */
static void where_users_are_mapped_a_checkpoint_gets_its_name_back(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    char from[200], to[200];
    assert_true(rig_run(save_two_rank, 2, &plain));
    snprintf(from, sizeof from, "%s/step-00000009", test_folder);
    snprintf(to, sizeof to, "%s/.saving-0123456789abcdef-step-00000009-old", test_folder);
    assert_int_equal(rename(from, to), 0);
    assert_true(rig_run(mapped_rank, 2, &plain));
    assert_true(is_there("step-00000009/manifest.json"));
}

static int refused_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    is_full = ((const struct rig_plan *)j->arg)->is_full;
    CHECK(checkpoint_folder(&r.save, test_folder, &e) < 0, "opened");
    is_full = false;
    CHECK(strstr(e.text, "has checkpoints already"), "%s", e.text);
    rig_close(&r);
    return 0;
}

static int count(void *n, const char *dir, const char *name, ddp_error_t *errp)
{
    (void)dir, (void)name, (void)errp;
    ++*(int *)n;
    return 0;
}

static void what_is_refused_stays_as_it_was(void **state)
{
    (void)state;
    const struct rig_plan cases[] = {{0}, {.is_full = true}};
    assert_true(rig_run(save_two_rank, 2, &cases[0]));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = 0;
        assert_true(rig_run(refused_rank, 2, &cases[i]));
        assert_int_equal(folder_each(test_folder, count, &n, NULL), 0);
        assert_int_equal(n, 2);
    }
}

/* A file system that takes its time for each file; or for ever, until the test lets it go on. */
static int file_ms;
static int hung[2] = {-1, -1};
int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
    char c;
    poll(NULL, 0, file_ms);
    if (hung[0] >= 0)
        (void)!read(hung[0], &c, 1);
    return __real_fsync(fd);
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
    CHECK(save_step(&r, RIG_STEP), "%s", r.save.checkpoint.status.warning);
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

/* A job at its last moment, by the end that rank 0 knows and has not asked for since; scontrol is a script of ours. */
static bool stops(struct rig *r, const char *answer, long long end_t)
{
    double sum[STOP_N] = {0};
    ddp_error_t e;
    char path[128];
    FILE *f = NULL;
    snprintf(path, sizeof path, "%s/scontrol", test_folder);
    if (r->team.me.rank == 0 && (f = fopen(path, "w"))) {
        fprintf(f, "#!/bin/sh\n");
        fprintf(f, answer, end_t);
        r->save.scheduler.deadline.end_s = (double)clock_ns() / 1e9;
        r->save.scheduler.asked_s = -INFINITY;
        fclose(f);
        chmod(path, 0755);
    }
    scheduler_fill_stop(&r->save, sum);
    return comm_allreduce(r->team.comm, sum, STOP_N, DDP_F64, DDP_SUM, &e) == 0 && sum[STOP_DEADLINE] > 0;
}

static int late_stop_rank(struct job *j, int rank)
{
    static const char *const answer = "echo JobId=12 UserId=u JobState=RUNNING StartTime=1000 EndTime=%lld "
                                "SuspendTime=1080 SecsPreSuspend=10\n";
    struct rig r;
    ddp_error_t e = {0};
    double end_s = 0;
    long long now = (long long)time(NULL);
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    CHECK(resume_newest(&r.save, test_folder, &e) == 0, "%s", e.text);
    if (rank == 0)
        end_s = scheduler_end_s(&r.save);
    CHECK(isfinite(end_s), "nobody knows the end");
    CHECK(!stops(&r, answer, now + 7200), "the end has moved");
    CHECK(rank != 0 || r.save.scheduler.due.suspended_s == 70, "not the time of the suspension");
    CHECK(rank != 0 || r.save.scheduler.deadline.end_s > end_s + 3000, "not the answer");
    CHECK(stops(&r, answer, now), "the end has not moved");
    CHECK(stops(&r, "exit 1\n", 0), "no answer");
    r.team.timeout_s = 2;
    CHECK(stops(&r, "exec sleep 1000\n", 0), "no answer in time");
    rig_close(&r);
    return 0;
}

static void a_stop_waits_for_the_end_that_may_have_moved(void **state)
{
    const struct rig_plan plain = {0};
    char path[128], end[32];
    (void)state;
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", test_folder);
    snprintf(end, sizeof end, "%lld", (long long)time(NULL) + 3600);
    setenv("PATH", path, 1);
    setenv("SLURM_JOB_ID", "12", 1);
    setenv("SLURM_JOB_END_TIME", end, 1);
    assert_true(rig_run(late_stop_rank, 2, &plain));
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_JOB_END_TIME");
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_saved_is_there_again_on_any_number_of_ranks),
    cmocka_unit_test(what_does_not_fit_is_refused_by_name),
    IN_FOLDER(a_byte_that_changed_is_found),
    IN_FOLDER(a_rank_that_cannot_write_fails_the_save_and_no_more),
    IN_FOLDER(what_is_given_up_leaves_nothing_where_others_can_write),
    IN_FOLDER(who_has_lost_the_folder_says_so_at_once),
    IN_FOLDER(who_is_further_keeps_the_folder),
    IN_FOLDER(where_users_are_mapped_a_checkpoint_gets_its_name_back),
    IN_FOLDER(what_is_refused_stays_as_it_was),
    cmocka_unit_test(what_could_not_be_read_is_set_aside),
    IN_FOLDER(what_has_been_replaced_is_not),
    IN_FOLDER(what_cannot_be_set_aside_stays),
    IN_FOLDER(what_was_found_broken_is_none_to_keep),
    IN_FOLDER(a_slow_file_system_is_waited_for),
    IN_FOLDER(one_that_hangs_holds_nobody),
    IN_FOLDER(a_stop_waits_for_the_end_that_may_have_moved),
};

UNIT_MAIN(tests)
