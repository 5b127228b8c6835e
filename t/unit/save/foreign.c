/* Checkpoints of another framework's state over ranks that are processes: what some ranks have declared and saved, all
 * others find, whatever their number; what does not fit is refused. */
#include "t/unit/save/rig.h"

#include <fcntl.h>
#include <unistd.h>

#include "runtime/save/resume.h"
#include "t/lib/folder.h"

enum { SAVED_STEP = 7, N_LARGE = 300001, N_OWN = 5, SAVERS = 3 };
static const int one_node[RANKS_MAX];

struct tensors {
    float large[N_LARGE]; /* the same on all ranks, */
    unsigned char small;  /* rank 0's, */
    double own[N_OWN];    /* and each rank's own */
};

static int open_rig(struct rig *r, struct job *j, int rank, ddp_error_t *errp)
{
    comm_t *c = config_load(&r->config, NULL, NULL, errp) < 0 ? NULL : job_comm(j, rank, &r->world, errp);
    if (!c)
        return -1;
    r->team = team_of(r->world, c, 30);
    r->save = (struct save){.team = &r->team, .state = &r->state, .config = &r->config};
    foreign_open(&r->save);
    return 0;
}

static void close_rig(struct rig *r)
{
    comm_destroy(r->team.comm);
    scheduler_close(&r->save);
    checkpoint_close(&r->save);
    foreign_close(&r->save);
    arena_close(&r->state.arena);
    world_destroy(r->world);
}

static float large(size_t i)
{
    return (float)i / 3;
}

static double own(int rank, int i)
{
    return 100.0 * rank + i;
}

static int add(struct rig *r, const char *group, const char *name, enum st_dtype type, uint64_t n, const void *data,
               int owner, ddp_error_t *errp)
{
    struct foreign_tensor t = {.data = data, .owner = owner, .t = {.dtype = type, .ndim = 1, .shape = {n}}};
    snprintf(t.group, sizeof t.group, "%s", group);
    snprintf(t.t.name, sizeof t.t.name, "%s", name);
    return foreign_add(&r->save, &t, errp);
}

/* n_large: of the tensor that all ranks have. */
static int declare(struct rig *r, struct tensors *t, uint64_t n_large, ddp_error_t *errp)
{
    int rank = r->team.me.rank;
    char name[32];
    for (size_t i = 0; i < N_LARGE; i++)
        t->large[i] = large(i);
    for (int i = 0; i < N_OWN; i++)
        t->own[i] = own(rank, i);
    t->small = (unsigned char)(7 + rank);
    if (add(r, "model", "large", ST_F32, n_large, t->large, -1, errp) < 0 ||
        add(r, "model", "empty", ST_F32, 0, t->large, -1, errp) < 0 ||
        add(r, "model", "small", ST_U8, 1, &t->small, 0, errp) < 0)
        return -1;
    for (int k = 0; k < r->team.me.size; k++) {
        snprintf(name, sizeof name, "own.%d", k);
        if (add(r, "own", name, ST_F64, N_OWN, k == rank ? t->own : NULL, k, errp) < 0)
            return -1;
    }
    return 0;
}

static int save(struct rig *r, uint64_t step, const char *text, ddp_error_t *errp)
{
    r->state.optimizer.n_steps = step;
    return checkpoint_take(&r->save, test_folder, text, errp);
}

static int save_rank(struct job *j, int rank)
{
    static struct rig r;
    static struct tensors first, second;
    ddp_error_t e = {0};
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    CHECK(resume_newest(&r.save, test_folder, &e) == 0, "%s", e.text);
    CHECK(declare(&r, &first, 1, &e) == 0 && save(&r, 5, "first", &e) == 0, "%s", e.text);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);

    foreign_forget(&r.save);
    CHECK(declare(&r, &first, N_LARGE, &e) == 0 && save(&r, 6, "other sizes", &e) == 0, "%s", e.text);
    checkpoint_wait_copied(&r.save);
    foreign_forget(&r.save); /* while that is in flight */
    memset(&first, 0, sizeof first);
    CHECK(declare(&r, &second, N_LARGE, &e) == 0 && checkpoint_settle(&r.save, &e) == 0, "%s", e.text);

    r.save.checkpoint.status.bytes = 1; /* until the plan is made anew */
    CHECK(save(&r, SAVED_STEP, rank == 0 ? "the text" : "not this", &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.bytes == 1, "tensors that only lie elsewhere take new memory");
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_committed == 3, "%s", r.save.checkpoint.status.warning);
    close_rig(&r);
    return 0;
}

static bool holds(const struct rig *r, const char *name, const void *want, size_t n)
{
    size_t have;
    const void *at = foreign_find(&r->save, name, &have);
    return at && have == n && !memcmp(at, want, n);
}

/* What is found. */
struct found {
    uint64_t step;
    const char *text;
};

static int resume_rank(struct job *j, int rank)
{
    const struct found *found = j->arg;
    static struct rig r;
    static struct tensors want;
    ddp_error_t e = {0};
    const unsigned char small = 7;
    size_t n;
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    CHECK(resume_newest(&r.save, test_folder, &e) == 1, "%s", e.text);
    CHECK(r.state.optimizer.n_steps == found->step, "step %d", (int)r.state.optimizer.n_steps);
    CHECK(!strcmp(r.save.foreign.found.text, found->text), "text: %s", r.save.foreign.found.text);
    for (size_t i = 0; i < N_LARGE; i++)
        want.large[i] = large(i);
    CHECK(holds(&r, "large", want.large, sizeof want.large), "what all ranks have");
    CHECK(holds(&r, "small", &small, 1), "rank 0's");
    CHECK(holds(&r, "empty", "", 0), "what is empty");
    CHECK(!foreign_find(&r.save, "none", &n), "what nobody saved");
    for (int k = 0; k < SAVERS; k++) {
        double each[N_OWN];
        char name[32];
        for (int i = 0; i < N_OWN; i++)
            each[i] = own(k, i);
        snprintf(name, sizeof name, "own.%d", k);
        CHECK(holds(&r, name, each, sizeof each), "rank %d's own", k);
    }
    close_rig(&r);
    return 0;
}

static int tear_rank(struct job *j, int rank)
{
    static struct rig r;
    static struct tensors t;
    ddp_error_t e = {0};
    const struct checkpoint *c = &r.save.checkpoint;
    CHECK(open_rig(&r, j, rank, &e) == 0 && declare(&r, &t, N_LARGE, &e) == 0, "%s", e.text);
    for (uint64_t step = 1; step <= 4; step++) {
        checkpoint_tear(&r.save, "none is in flight");
        CHECK(save(&r, step, "", &e) == 0, "%s", e.text);
        checkpoint_wait_copied(&r.save);
        if (rank > 0 && step % 2 == 0)
            checkpoint_tear(&r.save, "the tensors have changed");
        CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
        CHECK(c->status.n_committed == (step + 1) / 2 && c->status.n_failed == step / 2, "step %d: %s", (int)step,
              c->status.warning);
        CHECK(c->status.last_step == step - (step % 2 == 0), "step %d", (int)step);
    }
    CHECK(rank > 0 || strstr(c->status.warning, "the checkpoint of step 2 failed: rank 1: the tensors have changed"),
          "%s", c->status.warning);
    close_rig(&r);
    return 0;
}

static int differ_rank(struct job *j, int rank)
{
    static struct rig r;
    static struct tensors t;
    ddp_error_t e = {0};
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    CHECK(declare(&r, &t, rank == 0 ? N_LARGE : 5, &e) == 0, "%s", e.text);
    CHECK(save(&r, 1, "", &e) < 0 && strstr(e.text, "ranks save different tensors"), "%s", e.text);
    close_rig(&r);
    return 0;
}

static int refuse_rank(struct job *j, int rank)
{
    struct manifest_state m = {.step = 3};
    struct rig r;
    ddp_error_t e = {0};
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    m.data.n_samples = 10;
    CHECK(checkpoint_state_check(&r.save, &m, &e) < 0 && strstr(e.text, "by libddp itself"), "%s", e.text);
    m.data.n_samples = 0;
    r.state.data.cfg.n_samples = 10;
    CHECK(checkpoint_state_check(&r.save, &m, &e) < 0 && strstr(e.text, "another framework's training"), "%s", e.text);
    close_rig(&r);
    return 0;
}

static bool run(rank_f *f, int size, const struct found *found)
{
    struct job j = {.size = size, .node_of = one_node, .arg = found};
    return job_run(&j, f);
}

static void change_byte(const char *file, off_t at)
{
    char path[200];
    unsigned char byte = 0;
    snprintf(path, sizeof path, "%s/step-%08d/%s", test_folder, SAVED_STEP, file);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void what_some_ranks_saved_all_others_find(void **state)
{
    const struct found last = {SAVED_STEP, "the text"}, before = {SAVED_STEP - 1, "other sizes"};
    (void)state;
    assert_true(run(save_rank, SAVERS, NULL));
    for (int n = 1; n <= 4; n++)
        assert_true(run(resume_rank, n, &last));
    change_byte("own-00001-of-00001.safetensors", 4096 + 7); /* then the one before */
    assert_true(run(resume_rank, 2, &before));
    change_byte("own-00001-of-00001.safetensors", 4096 + 7);
    assert_true(run(resume_rank, 2, &last));
    change_byte(FOREIGN_TEXT_NAME, 2);
    assert_true(run(resume_rank, 2, &before));
}

static void what_was_torn_on_some_rank_is_not_kept(void **state)
{
    (void)state;
    assert_true(run(tear_rank, 3, NULL));
}

static void ranks_that_declare_different_tensors_are_told(void **state)
{
    (void)state;
    assert_true(run(differ_rank, 2, NULL));
}

static void checkpoints_of_another_kind_are_refused(void **state)
{
    (void)state;
    assert_true(run(refuse_rank, 1, NULL));
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

static const struct CMUnitTest tests[] = {
    IN_FOLDER(what_some_ranks_saved_all_others_find),
    IN_FOLDER(what_was_torn_on_some_rank_is_not_kept),
    IN_FOLDER(ranks_that_declare_different_tensors_are_told),
    cmocka_unit_test(checkpoints_of_another_kind_are_refused),
};

UNIT_MAIN(tests)
