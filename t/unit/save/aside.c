/* What else lies in the folder of checkpoints, over ranks that are processes: those of another job that has taken it
 * over or is further; those that cannot be read now, are broken or were left without their name; those that a new run
 * must not write beside. */
#include "t/unit/save/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "runtime/save/resume.h"
#include "t/lib/folder.h"

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
    CHECK(!rig_save(&r, RIG_STEP, test_folder), "another job's checkpoints are further");
    CHECK(rank != 0 || strstr(r.save.checkpoint.status.warning, "has step-00000100, which another job has saved"), "%s",
          r.save.checkpoint.status.warning);
    r.config.keep = 1;
    CHECK(rig_save(&r, 101, test_folder), "%s", r.save.checkpoint.status.warning);
    CHECK(rank != 0 || strstr(r.save.checkpoint.status.warning, "step-00000100 was saved by another job since"), "%s",
          r.save.checkpoint.status.warning);
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
    CHECK(rig_save(&r, RIG_STEP, test_folder), "%s", warning);
    if (rank == 0) {
        CHECK(savedir_open(&dir, test_folder, NULL, &e) == 0, "%s", e.text);
        CHECK(commit_clean(&dir, "bbbbbbbbbbbbbbbb", RIG_STEP, &e) == 0, "%s", e.text);
        savedir_close(&dir);
    }
    CHECK(!rig_save(&r, RIG_STEP + 1, test_folder), "a file has its folder's name");
    CHECK(rank != 0 || strstr(warning, "another job has begun to save there"), "%s", warning);
    rig_close(&r);
    return 0;
}

static void who_has_lost_the_folder_says_so_at_once(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(lost_rank, 2, &plain));
    assert_true(rig_has("step-00000007") && !rig_has("step-00000008"));
}

static void who_is_further_keeps_the_folder(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(late_rank, 2, &plain));
    assert_true(rig_has("step-00000100") && rig_has("step-00000101") && !rig_has("step-00000007"));
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

/* One that says for a while that the folder is not there, or that it is not for this user, on a node alone. */
static int n_late;
static bool is_locked;
int __real_statfs(const char *path, struct statfs *ret);
int __wrap_statfs(const char *path, struct statfs *ret);

int __wrap_statfs(const char *path, struct statfs *ret)
{
    int rc = __real_statfs(path, ret);
    ret->f_type = NFS_SUPER_MAGIC;
    return rc;
}

int __wrap_openat(int at, const char *path, int flags, mode_t mode)
{
    if ((n_late || is_locked) && !strcmp(path, strrchr(test_folder, '/') + 1)) {
        errno = n_late ? ENOENT : EACCES;
        n_late -= n_late > 0;
        return -1;
    }
    if (!is_full || !(flags & O_CREAT))
        return __real_openat(at, path, flags, mode);
    errno = EDQUOT;
    return -1;
}

static int late_folder_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    const char *warning = r.save.checkpoint.status.warning;
    bool has_locked = j->size == 3;
    n_late = rank == 1 ? 2 : 0;
    is_locked = rank == 2;
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text); /* a warning */
    CHECK(rank != 0 || (has_locked ? strstr(warning, "rank 2: cannot open the folder ") != NULL : !*warning), "%s",
          warning);
    rig_close(&r);
    return 0;
}

static void a_folder_seen_late_is_no_error(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(late_folder_rank, 2, &plain));
    assert_true(rig_run(late_folder_rank, 3, &plain));
}

static int save_two_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(rig_save(&r, RIG_STEP, test_folder) && rig_save(&r, RIG_STEP + 2, test_folder), "%s",
          r.save.checkpoint.status.warning);
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
    CHECK(rig_save(&r, RIG_STEP + (p->replaces ? 2 : 1), test_folder), "%s", r.save.checkpoint.status.warning);
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
        assert_true(rig_has("step-00000007") && rig_has("step-00000008") && !rig_has("step-00000009"));
        assert_true(rig_has("suspect-step-00000009/manifest.json"));
        folder_remove(NULL);
    }
}

static int lacking_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    CHECK(resume_newest(&r.save, test_folder, &e) == 1, "%s", e.text);
    CHECK(rank != 0 || strstr(r.save.checkpoint.status.warning, "safetensors is missing"), "%s",
          r.save.checkpoint.status.warning);
    CHECK(rig_save(&r, RIG_STEP + 1, test_folder), "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

/* One node may not see it. */
static void what_lacks_a_file_is_set_aside(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    char path[200];
    assert_true(rig_run(save_two_rank, 2, &plain));
    snprintf(path, sizeof path, "%s/step-00000009/model-00001-of-00001.safetensors", test_folder);
    assert_int_equal(unlink(path), 0);
    assert_true(rig_run(lacking_rank, 2, &plain));
    assert_true(rig_has("step-00000008") && !rig_has("step-00000009") && rig_has("suspect-step-00000009"));
}

static void what_has_been_replaced_is_not(void **state)
{
    (void)state;
    const struct rig_plan plan = {.replaces = true};
    assert_true(rig_run(save_two_rank, 2, &plan));
    assert_true(rig_run(unread_rank, 2, &plan));
    assert_true(rig_has("step-00000007") && rig_has("step-00000009") && !rig_has("suspect-step-00000009"));
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
        CHECK(rig_save(&r, step, test_folder), "%s", r.save.checkpoint.status.warning);
        CHECK(rank != 0 || strstr(r.save.checkpoint.status.warning, "cannot set step-00000009 aside"), "step %llu: %s",
              (unsigned long long)step, r.save.checkpoint.status.warning);
        CHECK(rank != 0 || rig_has("step-00000009"), "removed after step %llu", (unsigned long long)step);
    }
    snprintf(block, sizeof block, "%s/" BLOCK, test_folder);
    CHECK(rank != 0 || rmdir(block) == 0, "%s", block);
    CHECK(rig_save(&r, RIG_STEP + 5, test_folder), "%s", r.save.checkpoint.status.warning);
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
    assert_true(rig_has("step-00000011") && rig_has("step-00000012") && !rig_has("step-00000009"));
    assert_true(rig_has("suspect-step-00000009/manifest.json"));
    assert_true(!rig_has("suspect-step-00000008") && !rig_has("suspect-step-00000010")); /* this job's own */
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
    CHECK(rig_save(&r, RIG_STEP + 1, elsewhere), "%s", r.save.checkpoint.status.warning);
    CHECK(rig_save(&r, RIG_STEP + 3, test_folder), "%s", r.save.checkpoint.status.warning);
    rig_close(&r);
    return 0;
}

static void what_was_found_broken_is_none_to_keep(void **state)
{
    (void)state;
    const struct rig_plan plain = {0};
    assert_true(rig_run(save_two_rank, 2, &plain));
    rig_damage("step-00000009/model-00001-of-00001.safetensors");
    assert_true(rig_run(broken_rank, 2, &plain));
    assert_true(rig_has("elsewhere/step-00000008"));
    assert_true(rig_has("step-00000007") && !rig_has("step-00000009") && rig_has("step-00000010"));
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
    assert_true(rig_has("step-00000009/manifest.json"));
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

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

static const struct CMUnitTest tests[] = {
    IN_FOLDER(who_has_lost_the_folder_says_so_at_once),
    IN_FOLDER(who_is_further_keeps_the_folder),
    IN_FOLDER(where_users_are_mapped_a_checkpoint_gets_its_name_back),
    IN_FOLDER(a_folder_seen_late_is_no_error),
    IN_FOLDER(what_is_refused_stays_as_it_was),
    cmocka_unit_test(what_could_not_be_read_is_set_aside),
    IN_FOLDER(what_lacks_a_file_is_set_aside),
    IN_FOLDER(what_has_been_replaced_is_not),
    IN_FOLDER(what_cannot_be_set_aside_stays),
    IN_FOLDER(what_was_found_broken_is_none_to_keep),
};

UNIT_MAIN(tests)
