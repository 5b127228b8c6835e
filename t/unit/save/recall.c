/* Snapshots that outlive the ranks (recall.h), in memory that this program keeps as their guards do. */
#include "t/unit/save/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/frame.h"
#include "runtime/base/io.h"
#include "runtime/save/resume.h"
#include "t/lib/folder.h"

static void snap(struct rig *r)
{
    r->save.recall.is_due = true;
    recall_take(&r->save);
    checkpoint_wait_copied(&r->save);
    while (r->save.recall.mirror && !mirror_is_done(r->save.recall.mirror))
        sched_yield();
}

/* Every value; twice: as before. */
static void negate(struct rig *r)
{
    for (size_t i = 0; i < r->state.layout.n_bytes / sizeof(float); i++)
        r->state.arena.values[i] *= -1;
}

static const char *stands[2]; /* where a node's ranks do, and then their folder is "ckpt" there; NULL: anywhere */

static const char *go_there(const struct rig *r)
{
    const char *at = stands[r->team.me.node];
    return at && chdir(at) == 0 ? "ckpt" : test_folder;
}

/* A snapshot of step 7; of step 8 rank 1 has not the whole, or, on two nodes, there is none. */
static int snap_rank(struct job *j, int rank)
{
    const struct rig_plan *p = j->arg;
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, go_there(&r), &e) == 0, "%s", e.text);
    CHECK(r.save.recall.is_open, "%s", r.save.checkpoint.status.warning);
    for (int before = p->on_two_nodes ? 3 : 0; before >= 0; before--) { /* step 7 ends in either slot */
        r.state.optimizer.n_steps = RIG_STEP - (unsigned)before;
        snap(&r);
    }
    r.state.optimizer.n_steps++;
    rig_values(&r, 2)[1]++;
    if (!p->on_two_nodes)
        snap(&r);
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

static int recall_rank(struct job *j, int rank)
{
    const struct rig_plan *p = j->arg;
    const struct data_position at = {.cursor = 2 * RIG_STEP * (unsigned)p->saved_on};
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    int rc = resume_newest(&r.save, go_there(&r), &e);
    const struct ddp_checkpoint_status *s = &r.save.checkpoint.status;
    CHECK(rc == p->rc, "%d: %s", rc, e.text);
    CHECK(rc == 0 || rig_is_filled(&r, &at), "not what was there");
    CHECK(rc == 0 || !strcmp(s->path, RECALL_PATH) == (!p->warning || strstr(p->warning, "took the copy")), "%s",
          s->path);
    CHECK(rank || !p->warning == !*s->warning, "%s", s->warning);
    CHECK(rank || !p->warning || strstr(s->warning, p->warning), "%s", s->warning);
    rig_close(&r);
    return 0;
}

static int open_guards(void **state)
{
    for (int i = 0; i < RANKS_MAX; i++) {
        rig_guard[i].memory[0] = rig_guard[i].memory[1] = -1;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, rig_guard[i].pair) < 0)
            return -1;
    }
    return folder_make(state);
}

static int close_guards(void **state)
{
    for (int i = 0; i < RANKS_MAX; i++) {
        io_close(rig_guard[i].memory[0]);
        io_close(rig_guard[i].memory[1]);
        close(rig_guard[i].pair[0]);
        close(rig_guard[i].pair[1]);
    }
    return folder_remove(state);
}

static void keep_memory(int n_ranks)
{
    for (int i = 0; i < n_ranks; i++) {
        struct frame f = {.takes_fd = true};
        int kind;
        size_t n;
        while (frame_next(&f, rig_guard[i].pair[0], &kind, &n) > 0) {
            int *memory = &rig_guard[i].memory[bytes_get32(f.bytes + FRAME_HEAD)];
            io_close(*memory);
            *memory = frame_take_fd(&f);
        }
    }
}

static bool run_guarded(rank_f *f, int size, const struct rig_plan *p)
{
    bool is_well = rig_run(f, size, p);
    keep_memory(size);
    return is_well;
}

/* Every byte behind the two heads. */
static void damage(int rank, enum handover_kind kind)
{
    unsigned char b[4096];
    int fd = rig_guard[rank].memory[kind];
    for (off_t at = 8192; pread(fd, b, sizeof b, at) == sizeof b; at += sizeof b) {
        for (size_t i = 0; i < sizeof b; i++)
            b[i]++;
        assert_int_equal(pwrite(fd, b, sizeof b, at), sizeof b);
    }
}

static void lose(int rank)
{
    for (int i = 0; i < HANDOVER_KINDS; i++) {
        io_close(rig_guard[rank].memory[i]);
        rig_guard[rank].memory[i] = -1;
    }
}

static void the_newest_that_all_ranks_hold_is_taken_from_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct rig_plan first = {.is_spread = i, .has_guards = true};
        const struct rig_plan next = {.is_spread = i, .has_guards = true, .generation = 1, .rc = 1,
                                  .saved_on = 3};
        assert_true(run_guarded(snap_rank, 3, &first));
        assert_true(run_guarded(recall_rank, 3, &next));
        assert_true(run_guarded(recall_rank, 3, &next)); /* who has read it leaves it there */
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
    stands[0] = test_folder;
    assert_true(run_guarded(snap_rank, 2, &first));
    stands[0] = other;
    assert_true(run_guarded(recall_rank, 2, &none));
    stands[0] = test_folder;
    assert_true(run_guarded(recall_rank, 2, &same));
    stands[0] = NULL;
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
        stands[i] = at[i];
    }
    assert_true(run_guarded(snap_rank, 4, &first));
    lose(2);
    lose(3);
    assert_true(run_guarded(recall_rank, 4, &next));
    stands[0] = stands[1] = NULL;
}

static void a_first_generation_takes_nothing_from_memory(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    assert_true(run_guarded(snap_rank, 2, &first));
    assert_true(run_guarded(recall_rank, 2, &first));
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
        assert_true(run_guarded(next.rc ? rig_save_rank : snap_rank, 3, &first));
        if (i % 3 == 0)
            damage(2, HANDOVER_OWN);
        else if (i % 3 == 1)
            lose(2);
        else
            for (off_t at = 300; at < 4400; at += 4096)
                assert_int_equal(pwrite(rig_guard[2].memory[0], "?", 1, at), 1);
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
        const struct rig_plan first = {.is_spread = i & 1, .has_guards = true, .on_two_nodes = true};
        struct rig_plan next = {.is_spread = i & 1, .has_guards = true, .on_two_nodes = true, .generation = 1, .rc = 1,
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

static void every_so_many_steps_is_so_many_and_zero_is_never(void **state)
{
    (void)state;
    const struct rig_plan plan = {.has_guards = true};
    assert_true(run_guarded(every_rank, 2, &plan));
    assert_true(run_guarded(never_rank, 2, &plan));
}

static void memory_of_other_training_is_not_taken(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    const struct rig_plan more_ranks = {.has_guards = true, .generation = 1, .rc = 1, .saved_on = 2,
                                    .warning = "rank 0 has none that fits"};
    const struct rig_plan other_folder = {.has_guards = true, .generation = 1};
    assert_true(run_guarded(rig_save_rank, 2, &first));
    assert_true(run_guarded(recall_rank, 3, &more_ranks));
    folder_remove(NULL);
    folder_make(NULL);
    assert_true(run_guarded(snap_rank, 2, &first));
    folder_remove(NULL);
    folder_make(NULL);
    assert_true(run_guarded(recall_rank, 2, &other_folder));
}

/* No checkpoint yet; other data, of as many bytes. */
static void memory_of_another_program_is_refused_with_a_warning(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    struct rig_plan next = {.has_guards = true, .generation = 1, .n_samples = RIG_SAMPLES + 1,
                            .warning = "rank 0 has none that fits: its own are of another libddp, number of ranks, "
                                       "model or data; there is no checkpoint"};
    assert_true(run_guarded(snap_rank, 3, &first));
    assert_true(run_guarded(recall_rank, 3, &next));
    assert_true(run_guarded(snap_rank, 3, &first));
    next.n_samples = 0;
    next.rename = "another";
    assert_true(run_guarded(recall_rank, 3, &next));
    assert_true(run_guarded(snap_rank, 2, &first)); /* of another size */
    next.rename = NULL;
    assert_true(run_guarded(recall_rank, 3, &next));
}

static void memory_of_another_program_on_one_rank_is_no_ranks(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true};
    const struct rig_plan next = {.has_guards = true, .generation = 1,
                                  .warning = "memory are not used: rank 1 has none that fits: its own"};
    assert_true(run_guarded(snap_rank, 3, &first));
    int memory = rig_guard[1].memory[HANDOVER_OWN]; /* whose key has another rank's number */
    rig_guard[1].memory[HANDOVER_OWN] = rig_guard[2].memory[HANDOVER_OWN];
    rig_guard[2].memory[HANDOVER_OWN] = memory;
    assert_true(run_guarded(recall_rank, 3, &next));
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
    assert_true(run_guarded(snap_alone_rank, 2, &first));
    assert_true(run_guarded(recall_rank, 2, &next));
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
    snap(&r);
    CHECK(comm_barrier(r.team.comm, &e) == 0, "%s", e.text);
    rig_close(&r);
    return 0;
}

static void a_folder_that_cannot_be_written_leaves_memory_as_good(void **state)
{
    (void)state;
    struct rig_plan p = {.has_guards = true, .saved_on = 2};
    assert_true(run_guarded(rig_save_rank, 2, &p));
    is_read_only = true;
    while (p.generation++ < 3)
        assert_true(run_guarded(read_only_rank, 2, &p));
    is_read_only = false;
}

/* ---- slots that are written from, that are newer than what counts, that are on their way ---- */

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
    negate(&r);
    for (int i = 0; i < SLOTS_N; i++) {
        r.state.optimizer.n_steps++;
        snap(&r);
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
    assert_true(run_guarded(snap_while_writing_rank, 2, &first));
    lose(0);
    lose(1);
    assert_true(run_guarded(recall_rank, 2, &next));
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
    snap(&r);
    r.state.optimizer.n_steps++;
    negate(&r);
    snap(&r);
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
    assert_true(run_guarded(distrust_rank, 4, &first));
    assert_true(run_guarded(recall_rank, 4, &next));
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
    snap(&r);
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
    assert_true(run_guarded(on_its_way_rank, 4, &plan));
}

/* ---- an older step, and the same step of another generation ---- */

/* Of step 4, with other values. */
static int snap_early_rank(struct job *j, int rank)
{
    struct rig r;
    ddp_error_t e = {0};
    CHECK(rig_open(&r, j, rank, &e) == 0, "%s", e.text);
    rig_fill(&r);
    CHECK(checkpoint_folder(&r.save, test_folder, &e) == 0, "%s", e.text);
    r.state.optimizer.n_steps = 4;
    negate(&r);
    snap(&r);
    rig_close(&r);
    return 0;
}

static void a_checkpoint_that_is_newer_goes_before_memory(void **state)
{
    (void)state;
    const struct rig_plan first = {.has_guards = true}, without = {.has_guards = false};
    const struct rig_plan next = {.has_guards = true, .generation = 1, .rc = 1, .saved_on = 2,
                                  .warning = "there is a checkpoint of step 7, after that of step 4"};
    assert_true(run_guarded(snap_early_rank, 2, &first));
    assert_true(run_guarded(rig_save_rank, 2, &without));
    assert_true(run_guarded(recall_rank, 2, &next));
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
            negate(&r);
        r.state.optimizer.n_steps = slot == other_slot ? RIG_STEP - 1 : RIG_STEP;
        snap(&r);
        CHECK(recall->newest == slot, "in slot %d", recall->newest);
        if (slot == other_slot)
            negate(&r);
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
        assert_true(run_guarded(two_generations_rank, 4, &first));
        if (i & 2) {
            lose(0);
            next.warning = "1 rank had no snapshot of step 7 and took the copy that";
        }
        if (!run_guarded(recall_rank, 4, &next))
            fail_msg("case %d", i);
        for (int rank = 0; rank < 4; rank++)
            lose(rank);
    }
}

#define WITH_GUARDS(f) cmocka_unit_test_setup_teardown(f, open_guards, close_guards)

static const struct CMUnitTest tests[] = {
    WITH_GUARDS(the_newest_that_all_ranks_hold_is_taken_from_memory),
    WITH_GUARDS(a_first_generation_takes_nothing_from_memory),
    WITH_GUARDS(what_is_missing_or_wrong_on_one_rank_is_taken_from_files),
    WITH_GUARDS(what_a_node_has_lost_is_on_the_other),
    WITH_GUARDS(every_so_many_steps_is_so_many_and_zero_is_never),
    WITH_GUARDS(what_is_of_another_folder_is_not_taken),
    WITH_GUARDS(a_node_may_have_the_folder_elsewhere),
    WITH_GUARDS(memory_of_other_training_is_not_taken),
    WITH_GUARDS(memory_of_another_program_is_refused_with_a_warning),
    WITH_GUARDS(memory_of_another_program_on_one_rank_is_no_ranks),
    WITH_GUARDS(without_a_folder_a_snapshot_still_follows_the_update),
    WITH_GUARDS(a_folder_that_cannot_be_written_leaves_memory_as_good),
    WITH_GUARDS(snapshots_leave_alone_what_a_checkpoint_is_written_from),
    WITH_GUARDS(steps_that_are_not_trusted_are_forgotten),
    cmocka_unit_test(none_is_due_while_one_is_on_its_way_to_another_node),
    WITH_GUARDS(a_rank_says_that_its_own_is_on_its_way),
    WITH_GUARDS(a_checkpoint_that_is_newer_goes_before_memory),
    WITH_GUARDS(one_step_of_two_generations_is_not_mixed),
};

UNIT_MAIN(tests)
