/* Checkpoints over ranks that are processes, of a team and a state alone: what is saved on some ranks is there again on
 * others, whatever their number and whoever keeps the optimizer's state; and what a resume refuses. And snapshots that
 * outlive the ranks (recall.h), in memory that this program keeps as their guards do. */
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/frame.h"
#include "runtime/base/io.h"
#include "runtime/save/resume.h"
#include "runtime/save/save.h"
#include "t/lib/folder.h"
#include "t/lib/ranks.h"

enum { N_PARAMS = 4, SAMPLES = 1000, SAVED_STEP = 7 };
/* Elements: less than a checkpoint's block, one, many blocks and a bit, one block. */
static const size_t elems[N_PARAMS] = {3000, 1, 40003, 4096};
static const int one_node[RANKS_MAX], two_nodes[RANKS_MAX] = {0, 0, 1, 1};

/* A rank's job as ddp_commit and ddp_data_open leave it. */
struct rig {
    struct config config;
    struct team team;
    struct state state;
    struct save save;
    struct world *world;
};

struct plan {
    bool is_spread;
    const char *rename; /* parameter 1's name is this; NULL: p1 */
    const char *error;  /* what a resume says; NULL: it succeeds */
    uint64_t n_samples;
    bool has_guards;
    int generation;
    const char *warning; /* on rank 0; NULL: none */
    int rc;              /* of a resume with guards, */
    int saved_on;        /* after so many ranks' run */
    bool on_two_nodes;
};

/* What guards keep. */
static struct {
    int pair[2], memory[HANDOVER_KINDS];
} guard[RANKS_MAX];

static int open_state(struct rig *r, const struct plan *p, ddp_error_t *errp)
{
    const struct ddp_optimizer adamw = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    const struct reducer_config cfg = {.n_ranks = r->team.me.size, .first_cap_bytes = 1, .cap_bytes = 50000,
                                       .is_fixed = p->is_spread};
    const struct data_config data = {.n_samples = p->n_samples ? p->n_samples : SAMPLES, .seed = 11, .batch = 2,
                                     .rank = r->team.me.rank, .n_ranks = r->team.me.size, .accum = 1};
    struct state *s = &r->state;
    for (int i = 0; i < N_PARAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        if (layout_add(&s->layout, i == 1 && p->rename ? p->rename : name, DDP_F32, &elems[i], 1, 0, errp) < 0)
            return -1;
    }
    if (optimizer_open(&s->optimizer, &adamw, errp) < 0 ||
        reducer_open(&s->reducer, r->team.comm, &s->layout, &cfg, errp) < 0)
        return -1;
    if (arena_cpu_open(&s->arena, r->team.comm, &s->reducer, &s->optimizer, &r->team.me, p->is_spread, errp) < 0)
        return -1;
    return data_open(&s->data, &data, errp);
}

static int open_rig(struct rig *r, struct job *j, int rank, ddp_error_t *errp)
{
    *r = (struct rig){0};
    comm_t *c = config_load(&r->config, NULL, NULL, errp) < 0 ? NULL : job_comm(j, rank, &r->world, errp);
    if (!c)
        return -1;
    r->team = team_of(r->world, c, 30);
    r->save = (struct save){.team = &r->team, .state = &r->state, .config = &r->config};
    if (((const struct plan *)j->arg)->has_guards)
        r->save.recall.handover = (struct handover){.is_there = true, .guard = dup(guard[rank].pair[1]),
                                                    .memory = {dup(guard[rank].memory[0]),
                                                               dup(guard[rank].memory[1])},
                                                    .generation = ((const struct plan *)j->arg)->generation};
    return open_state(r, j->arg, errp);
}

static void close_rig(struct rig *r)
{
    comm_destroy(r->team.comm);
    scheduler_close(&r->save);
    cut_close(&r->save);
    checkpoint_close(&r->save);
    data_close(&r->state.data);
    arena_close(&r->state.arena);
    optimizer_close(&r->state.optimizer);
    reducer_close(&r->state.reducer);
    layout_clear(&r->state.layout);
    world_destroy(r->world);
}

/* ---- what is saved: values and moments that follow from the element, a place in the data, a step ---- */

static float expected(int kind, int id, size_t i)
{
    return sinf((float)(kind * 7919 + id * 104729) + (float)i);
}

static float *values(const struct rig *r, int id)
{
    return r->state.arena.values + r->state.layout.param[id].offset_bytes / sizeof(float);
}

static size_t first_of(const struct rig *r, const struct optimizer_slice *s)
{
    return s->at - r->state.layout.param[s->id].offset_bytes / sizeof(float);
}

static void fill(struct rig *r)
{
    struct optimizer *o = &r->state.optimizer;
    struct data_batch b;
    for (int id = 0; id < N_PARAMS; id++)
        for (size_t i = 0; i < elems[id]; i++)
            values(r, id)[i] = expected(0, id, i);
    for (const struct optimizer_slice *s = o->slice; s < o->slice + o->n_slices; s++)
        for (int k = 0; k < o->rule->n_moments; k++)
            for (size_t i = 0; i < s->n_elems; i++)
                o->moment[k][s->state + i] = expected(1 + k, s->id, first_of(r, s) + i);
    o->n_steps = SAVED_STEP;
    for (int left = SAVED_STEP; left > 0; left -= b.is_last)
        b = data_next(&r->state.data);
}

static bool is_filled(const struct rig *r, const struct data_position *at)
{
    const struct optimizer *o = &r->state.optimizer;
    const struct data_position here = data_position(&r->state.data);
    for (int id = 0; id < N_PARAMS; id++)
        for (size_t i = 0; i < elems[id]; i++)
            if (values(r, id)[i] != expected(0, id, i))
                return false;
    for (const struct optimizer_slice *s = o->slice; s < o->slice + o->n_slices; s++)
        for (int k = 0; k < o->rule->n_moments; k++)
            for (size_t i = 0; i < s->n_elems; i++)
                if (o->moment[k][s->state + i] != expected(1 + k, s->id, first_of(r, s) + i))
                    return false;
    return o->n_steps == SAVED_STEP && here.epoch == at->epoch && here.cursor == at->cursor;
}

static int save_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    fill(&r);
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.phase == CHECKPOINT_SAVING, "phase %d", (int)r.save.checkpoint.phase);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_committed == 1, "%s", r.save.checkpoint.status.warning);
    if (rank == 0)
        *(struct data_position *)j->shared = data_position(&r.state.data);
    close_rig(&r);
    return 0;
}

static int resume_rank(struct job *j, int rank)
{
    const struct plan *p = j->arg;
    const struct data_position at = {.cursor = 2 * SAVED_STEP * 2}; /* saved on two ranks with batch 2 */
    struct rig r;
    ddp_error_t e = {0};
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    int rc = resume_newest(&r.save, test_folder, &e);
    if (p->error) {
        CHECK(rc < 0 && strstr(e.text, p->error), "%d: %s", rc, e.text);
        CHECK(!r.team.is_broken, "the team is broken by what it refuses");
    } else {
        CHECK(rc >= 0, "%s", e.text);
        CHECK(is_filled(&r, &at), "not what was saved");
    }
    close_rig(&r);
    return 0;
}

static bool run(rank_f *f, int size, const struct plan *p)
{
    struct job j = {.size = size, .node_of = p->on_two_nodes ? two_nodes : one_node, .arg = p};
    return job_run(&j, f);
}

/* ---- tests ---- */

static void what_is_saved_is_there_again_on_any_number_of_ranks(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        const struct plan here = {.is_spread = i & 1}, there = {.is_spread = i >> 1 & 1};
        folder_make(NULL);
        assert_true(run(save_rank, 2, &here));
        if (!run(resume_rank, i & 4 ? 3 : 1 + (i >> 1 & 1), &there))
            fail_msg("case %d", i);
        folder_remove(NULL);
    }
}

/* Each refusal is one line, the same on all ranks, which can go on and try another folder. */
static void what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    const struct plan saved = {0};
    const struct plan cases[] = {
        {.rename = "q1", .error = "has no tensor q1"},
        {.n_samples = SAMPLES + 1, .error = "was trained on 1000 samples, and there are 1001"},
    };
    assert_true(run(save_rank, 2, &saved));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!run(resume_rank, 2, &cases[i]))
            fail_msg("%s", cases[i].error);
}

static void a_byte_that_changed_is_found(void **state)
{
    (void)state;
    const struct plan saved = {0}, broken = {.error = "no checkpoint in"};
    char path[200];
    unsigned char byte = 0;
    assert_true(run(save_rank, 2, &saved));
    snprintf(path, sizeof path, "%s/step-%08d/model-00001-of-00001.safetensors", test_folder, SAVED_STEP);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, 100000) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 100000), 1);
    close(fd);
    assert_true(run(resume_rank, 3, &broken));
}

/* A rank that cannot write is named to all; nothing that looks like a checkpoint stays, and the job goes on. */
static int fail_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    if (rank == 1)
        r.save.checkpoint.known.inode++; /* another folder has its name now */
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_failed == 1 && r.save.checkpoint.status.n_committed == 0, "committed");
    CHECK(rank != 0 || strstr(r.save.checkpoint.status.warning, "the checkpoint of step 7 failed: rank 1: "), "%s",
          r.save.checkpoint.status.warning);
    close_rig(&r);
    return 0;
}

static void a_rank_that_cannot_write_fails_the_save_and_no_more(void **state)
{
    (void)state;
    const struct plan plain = {0};
    char path[200];
    assert_true(run(fail_rank, 2, &plain));
    snprintf(path, sizeof path, "%s/step-%08d", test_folder, SAVED_STEP);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(run(save_rank, 2, &plain));
}

/* ---- snapshots that outlive the ranks ---- */

static void snap(struct rig *r)
{
    r->save.recall.is_due = true;
    recall_take(&r->save);
    checkpoint_wait_copied(&r->save);
    while (r->save.recall.mirror && !mirror_is_done(r->save.recall.mirror))
        sched_yield();
}

/* A snapshot of step 7; of step 8 rank 1 has not the whole, or, on two nodes, there is none. */
static int snap_rank(struct job *j, int rank)
{
    const struct plan *p = j->arg;
    struct rig r;
    ddp_error_t e = {0};
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    CHECK(r.save.recall.is_open, "%s", r.save.checkpoint.status.warning);
    for (int before = p->on_two_nodes ? 4 : 0; before >= 0; before--) {
        r.state.optimizer.n_steps = SAVED_STEP - (unsigned)before;
        snap(&r);
    }
    r.state.optimizer.n_steps++;
    values(&r, 2)[1]++;
    if (!p->on_two_nodes)
        snap(&r);
    CHECK(comm_barrier(r.team.comm, &e) == 0, "%s", e.text); /* all have sent theirs */
    if (!p->on_two_nodes && rank == 1)
        slots_clear(&r.save.recall.slots, r.save.recall.newest);
    close_rig(&r);
    return 0;
}

/* In files, too. */
static int snap_and_save_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    fill(&r);
    CHECK(checkpoint_take(&r.save, test_folder, NULL, &e) == 0, "%s", e.text);
    CHECK(checkpoint_settle(&r.save, &e) == 0, "%s", e.text);
    CHECK(r.save.checkpoint.status.n_committed == 1, "%s", r.save.checkpoint.status.warning);
    close_rig(&r);
    return 0;
}

static int recall_rank(struct job *j, int rank)
{
    const struct plan *p = j->arg;
    const struct data_position at = {.cursor = 2 * SAVED_STEP * (unsigned)p->saved_on};
    struct rig r;
    ddp_error_t e = {0};
    CHECK(open_rig(&r, j, rank, &e) == 0, "%s", e.text);
    int rc = resume_newest(&r.save, test_folder, &e);
    const struct ddp_checkpoint_status *s = &r.save.checkpoint.status;
    CHECK(rc == p->rc, "%d: %s", rc, e.text);
    CHECK(rc == 0 || is_filled(&r, &at), "not what was there");
    CHECK(rc == 0 || !strcmp(s->path, RECALL_PATH) == (!p->warning || strstr(p->warning, "took the copy")), "%s",
          s->path);
    CHECK(rank || !p->warning == !*s->warning, "%s", s->warning);
    CHECK(rank || !p->warning || strstr(s->warning, p->warning), "%s", s->warning);
    close_rig(&r);
    return 0;
}

static int open_guards(void **state)
{
    for (int i = 0; i < RANKS_MAX; i++) {
        guard[i].memory[0] = guard[i].memory[1] = -1;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, guard[i].pair) < 0)
            return -1;
    }
    return folder_make(state);
}

static int close_guards(void **state)
{
    for (int i = 0; i < RANKS_MAX; i++) {
        io_close(guard[i].memory[0]);
        io_close(guard[i].memory[1]);
        close(guard[i].pair[0]);
        close(guard[i].pair[1]);
    }
    return folder_remove(state);
}

static void keep_memory(int n_ranks)
{
    for (int i = 0; i < n_ranks; i++) {
        struct frame f = {.takes_fd = true};
        int kind;
        size_t n;
        while (frame_next(&f, guard[i].pair[0], &kind, &n) > 0) {
            int *memory = &guard[i].memory[bytes_get32(f.bytes + FRAME_HEAD)];
            io_close(*memory);
            *memory = frame_take_fd(&f);
        }
    }
}

static bool run_guarded(rank_f *f, int size, const struct plan *p)
{
    bool is_well = run(f, size, p);
    keep_memory(size);
    return is_well;
}

/* Every byte behind the two heads. */
static void damage(int rank, enum handover_kind kind)
{
    unsigned char b[4096];
    int fd = guard[rank].memory[kind];
    for (off_t at = 8192; pread(fd, b, sizeof b, at) == sizeof b; at += sizeof b) {
        for (size_t i = 0; i < sizeof b; i++)
            b[i]++;
        assert_int_equal(pwrite(fd, b, sizeof b, at), sizeof b);
    }
}

static void lose(int rank)
{
    for (int i = 0; i < HANDOVER_KINDS; i++) {
        io_close(guard[rank].memory[i]);
        guard[rank].memory[i] = -1;
    }
}

static void the_newest_that_all_ranks_hold_is_taken_from_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct plan first = {.is_spread = i, .has_guards = true};
        const struct plan next = {.is_spread = i, .has_guards = true, .generation = 1, .rc = 1,
                                  .saved_on = 3};
        assert_true(run_guarded(snap_rank, 3, &first));
        assert_true(run_guarded(recall_rank, 3, &next));
        assert_true(run_guarded(recall_rank, 3, &next)); /* who has read it leaves it there */
    }
}

static void a_first_generation_takes_nothing_from_memory(void **state)
{
    (void)state;
    const struct plan first = {.has_guards = true};
    assert_true(run_guarded(snap_rank, 2, &first));
    assert_true(run_guarded(recall_rank, 2, &first));
}

static void what_is_missing_or_wrong_on_one_rank_is_taken_from_files(void **state)
{
    (void)state;
    const struct plan first = {.has_guards = true};
    const struct plan cases[] = {
        {.warning = "in memory are not used: rank 2: its own of step"},
        {.warning = "in memory are not used: rank 2 has none that fits"},
        {.warning = "in memory are not used: rank 2 has none that fits"},
    };
    for (int i = 0; i < 6; i++) {
        struct plan next = cases[i % 3];
        next.has_guards = true;
        next.generation = 1;
        next.saved_on = 3;
        next.rc = i / 3;
        assert_true(run_guarded(next.rc ? snap_and_save_rank : snap_rank, 3, &first));
        if (i % 3 == 0)
            damage(2, HANDOVER_OWN);
        else if (i % 3 == 1)
            lose(2);
        else
            assert_int_equal(pwrite(guard[2].memory[0], "?", 1, 300) + pwrite(guard[2].memory[0], "?", 1, 4396), 2);
        if (!run_guarded(recall_rank, 3, &next))
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
        const struct plan first = {.is_spread = i & 1, .has_guards = true, .on_two_nodes = true};
        struct plan next = {.is_spread = i & 1, .has_guards = true, .on_two_nodes = true, .generation = 1, .rc = 1,
                            .saved_on = 4, .warning = "2 ranks had no snapshot of step 7 and took the copy that"};
        assert_true(run_guarded(snap_rank, 4, &first));
        if (i < 2) {
            lose(2);
            lose(3);
        } else {
            damage(0, HANDOVER_OWN);
            damage(1, HANDOVER_OWN);
        }
        if (!run_guarded(recall_rank, 4, &next))
            fail_msg("case %d", i);
        next.warning = NULL; /* it is their own again */
        assert_true(run_guarded(recall_rank, 4, &next));
        damage(1, HANDOVER_OWN);
        damage(3, HANDOVER_GUEST);
        next.warning = "memory are not used: rank 1: ";
        next.rc = 0;
        assert_true(run_guarded(recall_rank, 4, &next));
        for (int rank = 0; rank < 4; rank++)
            lose(rank);
    }
}

static void memory_of_other_training_is_not_taken(void **state)
{
    (void)state;
    const struct plan first = {.has_guards = true};
    const struct plan more_ranks = {.has_guards = true, .generation = 1, .rc = 1, .saved_on = 2,
                                    .warning = "rank 0 has none that fits"};
    const struct plan other_folder = {.has_guards = true, .generation = 1};
    assert_true(run_guarded(snap_and_save_rank, 2, &first));
    assert_true(run_guarded(recall_rank, 3, &more_ranks));
    folder_remove(NULL);
    folder_make(NULL);
    assert_true(run_guarded(snap_rank, 2, &first));
    folder_remove(NULL);
    folder_make(NULL);
    assert_true(run_guarded(recall_rank, 2, &other_folder));
}

#define WITH_GUARDS(f) cmocka_unit_test_setup_teardown(f, open_guards, close_guards)
#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_saved_is_there_again_on_any_number_of_ranks),
    IN_FOLDER(what_does_not_fit_is_refused_by_name),
    IN_FOLDER(a_byte_that_changed_is_found),
    IN_FOLDER(a_rank_that_cannot_write_fails_the_save_and_no_more),
    WITH_GUARDS(the_newest_that_all_ranks_hold_is_taken_from_memory),
    WITH_GUARDS(a_first_generation_takes_nothing_from_memory),
    WITH_GUARDS(what_is_missing_or_wrong_on_one_rank_is_taken_from_files),
    WITH_GUARDS(what_a_node_has_lost_is_on_the_other),
    WITH_GUARDS(memory_of_other_training_is_not_taken),
};

UNIT_MAIN(tests)
