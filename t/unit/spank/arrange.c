/* The ranks of a node agree: forked processes over one board, on a machine that the test makes up. */
#include "t/unit/spank/vars.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "spank/arrange.h"

enum { RANKS_MAX = 8 };

/* One test's node: 4 cores of 2 threads (CPU c and c + 4) on 2 NUMA nodes, a GPU on each. */
struct node {
    int n_ranks;
    const char *options;              /* of --ddp */
    const char *mask[RANKS_MAX];      /* of each rank; NULL: it does not come */
    const char *visible[RANKS_MAX];   /* its CUDA_VISIBLE_DEVICES */
    int held;                         /* CPUs that the step holds here */
    bool is_bound, has_no_board, is_unreadable;
};

struct answer {
    bool is_there, is_trial, is_alone, is_failed, has_inventory;
    struct place mine;
    int n_same_mask, n_same;
    char why[64], warning[320];
};

static struct shared {
    _Atomic int n_loads[3]; /* cores, all, record */
    struct answer answer[RANKS_MAX];
} *shared;

static bool is_unreadable;

static struct cpus set_of(const char *text)
{
    struct cpus set = {{0}};
    assert_int_equal(cpus_parse(text, &set, NULL), 0);
    return set;
}

static void make_machine(struct inventory *m, bool with_io)
{
    static const char *const local[] = {"0-1,4-5", "2-3,6-7"};
    m->n_packages = 1;
    m->n_numas = 2;
    m->n_caches = m->n_cores = 4;
    m->all = m->allowed = set_of("0-7");
    for (int i = 0; i < 4; i++)
        m->core[i] = (struct inventory_core){0, (int16_t)(i / 2), (int16_t)i, 2, {(uint16_t)i, (uint16_t)(i + 4)}};
    for (int i = 0; i < 2; i++)
        m->numa[i] = (struct inventory_numa){(int16_t)i, 0, 1 << 30};
    m->has_io = with_io;
    for (int i = 0; with_io && i < 2; i++) {
        m->gpu[i] = (struct inventory_gpu){.vendor = VENDOR_NVIDIA};
        m->gpu[i].pci = (struct inventory_pci){.bus = (uint8_t)(16 + i), .numa = (int16_t)i, .local = set_of(local[i])};
        m->n_gpus++;
    }
}

static int load(int kind, struct inventory *ret, ddp_error_t *errp)
{
    shared->n_loads[kind]++;
    if (is_unreadable)
        return error_set(errp, DDP_E_SYSTEM, EIO, "this machine is a riddle");
    make_machine(ret, kind > 0);
    return 0;
}

static int load_cores(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp)
{
    (void)deadline;
    return arg ? -1 : load(0, ret, errp);
}

static int load_all(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp)
{
    (void)deadline;
    return arg ? -1 : load(1, ret, errp);
}

static int load_record(void *arg, uint64_t deadline, struct inventory *ret, ddp_error_t *errp)
{
    (void)deadline;
    return strcmp(arg, "/record") ? -1 : load(2, ret, errp);
}

/* Short where somebody never comes; else so long that no busy machine makes a rank look lost. */
static double patience(const struct node *n)
{
    for (int i = 0; i < n->n_ranks && i < RANKS_MAX; i++)
        if (!n->mask[i] && !n->has_no_board)
            return 1;
    return 60;
}

static void be_rank(const struct node *n, int rank, struct board *b)
{
    ddp_error_t e;
    struct arrangement a;
    struct keys o;
    struct vars v = {0};
    struct answer *ret = &shared->answer[rank];
    struct step step = {.rank = rank, .local_rank = rank, .size = n->n_ranks, .local_size = n->n_ranks, .n_nodes = 1,
                        .cpus_on_node = n->held, .gpus = {.cuda = n->visible[rank]}};
    struct devices gpus;
    struct arrange_facts f = {.step = &step, .keys = &o, .is_bound_by_user = n->is_bound,
                              .mask = set_of(n->mask[rank]), .board = b, .deadline = deadline_in(patience(n)),
                              .load = {load_cores, load_all}, .load_record = load_record};
    is_unreadable = n->is_unreadable;
    step.n_gpus = devices_list(NULL, &step.gpus, &gpus, NULL) == 0 ? gpus.n : 0;
    if (keys_resolve(n->options, lookup, &v, NULL, &o, &e) < 0)
        _exit(9);
    *ret = (struct answer){.is_there = true, .is_failed = arrange(&f, &a, &e) < 0};
    if (!ret->is_failed) {
        ret->is_trial = a.is_trial;
        ret->is_alone = a.is_alone;
        ret->has_inventory = a.inventory;
        ret->mine = *a.mine;
        ret->n_same_mask = a.n_same_mask;
        ret->n_same = a.n_same;
        snprintf(ret->why, sizeof ret->why, "%s", placement_why(&a.request, a.mine));
        snprintf(ret->warning, sizeof ret->warning, "%s", a.warning);
    }
    arrange_destroy(&a);
}

static void run(const struct node *n)
{
    int status;
    struct board *b = n->has_no_board ? NULL : board_create(n->n_ranks);
    memset(shared, 0, sizeof *shared);
    for (int i = 0; i < n->n_ranks && i < RANKS_MAX; i++) {
        pid_t pid = n->mask[i] ? fork() : -1;
        if (pid == 0) {
            be_rank(n, i, b);
            _exit(0);
        }
    }
    int n_lost = 0; /* told when nobody is left */
    for (pid_t pid; (pid = wait(&status)) > 0 || errno == EINTR;)
        n_lost += pid > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    board_destroy(b);
    assert_int_equal(n_lost, 0);
}

static void expect(int rank, const char *cpus, int device, const char *why)
{
    char text[64];
    const struct answer *a = &shared->answer[rank];
    assert_true(a->is_there && !a->is_failed);
    assert_string_equal(cpus_format(&a->mine.cpus, text, sizeof text), cpus);
    assert_int_equal(a->mine.device, device);
    if (!strstr(a->why, why))
        fail_msg("rank %d: \"%s\" lacks \"%s\"", rank, a->why, why);
}

static void expect_loads(int cores, int all, int record)
{
    assert_int_equal(shared->n_loads[0], cores);
    assert_int_equal(shared->n_loads[1], all);
    assert_int_equal(shared->n_loads[2], record);
}

static void a_common_mask_is_shared_out(void **state)
{
    (void)state;
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .held = 8});
    expect(0, "0-1,4-5", -1, "equal share");
    expect(1, "2-3,6-7", -1, "equal share");
    expect_loads(1, 0, 0);
    assert_int_equal(shared->answer[0].n_same_mask, 2);
    assert_int_equal(shared->answer[0].n_same, 1);
    assert_string_equal(shared->answer[0].warning, "");
    run(&(struct node){.n_ranks = 4, .options = "on", .mask = {"0-1", "2-3", "0-1", "2-3"}, .held = 4});
    expect(0, "0", -1, "equal share");
    expect(2, "1", -1, "equal share");
    expect(3, "3", -1, "equal share");
    assert_int_equal(shared->answer[0].n_same_mask, 2);
}

static void gpus_decide_where_they_are(void **state)
{
    (void)state;
    run(&(struct node){
        .n_ranks = 2, .options = "on", .mask = {"2-3,6-7", "0-1,4-5"}, .visible = {"0,1", "0,1"}, .held = 8});
    expect(0, "0-1,4-5", 0, "beside its GPU");
    expect(1, "2-3,6-7", 1, "beside its GPU");
    expect_loads(0, 1, 0);
    assert_int_equal(shared->answer[1].mine.numa, 1);
    /* --gpus-per-task: lists of their own */
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .visible = {"1", "0"}, .held = 8});
    expect(0, "2-3,6-7", 0, "beside its GPU");
    expect(1, "0-1,4-5", 0, "beside its GPU");
    /* one rank with all of them, or with one */
    run(&(struct node){.n_ranks = 1, .options = "on", .mask = {"0-7"}, .visible = {"0,1"}, .held = 8});
    assert_int_equal(shared->answer[0].mine.numa, -1);
    run(&(struct node){.n_ranks = 1, .options = "on", .mask = {"0-7"}, .visible = {"1"}, .held = 8});
    assert_int_equal(shared->answer[0].mine.numa, 1);
    /* a list that nobody can read */
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .visible = {"0,,1", "1"}, .held = 8});
    expect(0, "0-1,4-5", -1, "share");
    expect(1, "2-3,6-7", 0, "beside its GPU");
    assert_non_null(strstr(shared->answer[0].warning, "\"0,,1\" has an empty item: it gets no GPU"));
    /* one rank without */
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .visible = {"", "1"}, .held = 8});
    expect(0, "0-1,4-5", -1, "share");
    expect(1, "2-3,6-7", 0, "beside its GPU");
    expect_loads(0, 1, 0);
}

static void where_nothing_is_to_decide_nothing_is_read(void **state)
{
    (void)state;
    run(&(struct node){.n_ranks = 1, .options = "on", .mask = {"0-7"}, .held = 8});
    expect(0, "0-7", -1, "no other rank has");
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0,4", "1,5"}, .held = 4});
    expect(1, "1,5", -1, "no other rank has");
    expect_loads(0, 0, 0);
    run(&(struct node){.n_ranks = 2, .options = "bind=none", .mask = {"0-7", "0-7"}, .held = 8});
    expect(1, "0-7", -1, "bind=none");
    expect_loads(0, 0, 0);
    assert_int_equal(shared->answer[0].mine.n_sharing, 2);
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .held = 8, .is_bound = true});
    expect(1, "0-7", -1, "--cpu-bind was given");
    expect_loads(0, 0, 0);
    /* GPUs are still to be chosen, and somebody wants to see it */
    run(&(struct node){
        .n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .visible = {"0,1", "0,1"}, .is_bound = true});
    expect(1, "0-7", 1, "--cpu-bind was given");
    expect_loads(0, 1, 0);
    assert_int_equal(shared->answer[1].n_same, 2);
    run(&(struct node){.n_ranks = 2, .options = "verbose", .mask = {"0,4", "1,5"}, .held = 4});
    expect(1, "1,5", -1, "");
    expect_loads(0, 1, 0);
    assert_true(shared->answer[1].has_inventory && !shared->answer[1].is_trial);
}

static void masks_that_slurm_did_not_make_stay(void **state)
{
    (void)state;
    static const int held[] = {2, 0};
    for (size_t i = 0; i < 2; i++) {
        run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .held = held[i]});
        expect(0, "0-7", -1, "Slurm confines no task");
        assert_string_equal(shared->answer[0].warning, "");
    }
    /* hardware threads that slurm.conf does not count */
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-1,4-5", "0-1,4-5"}, .held = 2});
    expect(0, "0,4", -1, "equal share");
}

static void print_changes_nothing(void **state)
{
    (void)state;
    run(&(struct node){.n_ranks = 2, .options = "bind=print", .mask = {"0-7", "0-7"}, .held = 8});
    expect(0, "0-1,4-5", -1, "equal share");
    assert_true(shared->answer[0].is_trial && shared->answer[1].is_trial);
    assert_int_equal(shared->answer[0].n_same_mask, 2);
    assert_int_equal(shared->answer[0].n_same, 2);
    expect_loads(0, 1, 0);
}

static void a_record_takes_the_machines_place(void **state)
{
    (void)state;
    static const char *const visible[] = {NULL, "7,8,9", "3"};
    for (size_t i = 0; i < 3; i++) {
        run(&(struct node){.n_ranks = 2, .options = "topo=/record", .mask = {"0", "0"}, .held = 1, .is_bound = true,
                           .visible = {visible[i], visible[i]}});
        expect(0, i < 2 ? "0-1,4-5" : "0,2,4,6", 0, "");
        expect(1, i < 2 ? "2-3,6-7" : "1,3,5,7", i < 2 ? 1 : 0, ""); /* one GPU: both beside it first */
        expect_loads(0, 0, 1);
        assert_true(shared->answer[0].is_trial);
        assert_int_equal(shared->answer[0].n_same_mask, 2);
    }
    run(&(struct node){.n_ranks = 2, .options = "topo=/record", .mask = {"0", "0"}, .is_unreadable = true});
    assert_true(shared->answer[0].is_failed && shared->answer[1].is_failed);
    run(&(struct node){.n_ranks = 1, .options = "topo=/record", .mask = {"0"}});
    expect(0, "0-7", 0, "");
}

static void who_is_alone_keeps_what_it_has(void **state)
{
    (void)state;
    run(&(struct node){.n_ranks = 3, .options = "on", .mask = {"0-7", NULL, "0-7"}, .held = 8});
    expect(0, "0-7", -1, "did not meet");
    expect(2, "0-7", -1, "did not meet");
    assert_true(shared->answer[2].is_alone);
    assert_non_null(strstr(shared->answer[2].warning, "1 of this node's 3 ranks did not come"));
    run(&(struct node){.n_ranks = 3, .options = "on", .mask = {"0-7", NULL, "0-7"}, .visible = {"0,1", NULL, "0,1"}});
    expect(0, "0-7", 0, "did not meet");
    expect(2, "0-7", 0, "did not meet");
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .visible = {"0,1", "0,1"}, .held = 8,
                       .has_no_board = true});
    expect(1, "0-7", 1, "did not meet");
    assert_non_null(strstr(shared->answer[1].warning, "cannot share memory"));
    assert_int_equal(shared->answer[1].n_same, 1);
}

/* The others may have the same CPUs or none of them: what -c says holds. */
static void who_is_alone_shares_with_nobody_that_it_knows(void **state)
{
    static const char *const options[] = {"on", "verbose", "bind=print", "topo=/record"};
    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        run(&(struct node){.n_ranks = 3, .options = options[i], .mask = {"0-1", NULL, "2-3"}, .held = 8});
        assert_int_equal(shared->answer[0].n_same, 1);
        assert_int_equal(shared->answer[2].n_same, 1);
    }
}

static void a_machine_that_cannot_be_read_is_left_alone(void **state)
{
    (void)state;
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .held = 8, .is_unreadable = true});
    expect(1, "0-7", -1, "");
    assert_non_null(strstr(shared->answer[1].warning, "this machine is a riddle: ranks keep the CPUs"));
    run(&(struct node){.n_ranks = 2, .options = "on", .mask = {"0-7", "0-7"}, .held = 8, .is_unreadable = true,
                       .visible = {"0,1", "0,1"}});
    expect(1, "0-7", 1, "");
    expect_loads(0, 1, 0);
}

/* slurmstepd makes no board for them. */
static void too_many_ranks_keep_what_they_have(void **state)
{
    (void)state;
    run(&(struct node){.n_ranks = PLACEMENT_RANKS_MAX + 1, .options = "on", .mask = {"0-7", "0-7"}, .held = 8,
                       .visible = {"0,1", "0,1"}, .has_no_board = true});
    expect(1, "0-7", 1, "did not meet");
    assert_non_null(strstr(shared->answer[1].warning, "too many to be placed: they keep the CPUs"));
}

static int set_up(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_common_mask_is_shared_out),
    cmocka_unit_test(gpus_decide_where_they_are),
    cmocka_unit_test(where_nothing_is_to_decide_nothing_is_read),
    cmocka_unit_test(masks_that_slurm_did_not_make_stay),
    cmocka_unit_test(print_changes_nothing),
    cmocka_unit_test(a_record_takes_the_machines_place),
    cmocka_unit_test(who_is_alone_keeps_what_it_has),
    cmocka_unit_test(who_is_alone_shares_with_nobody_that_it_knows),
    cmocka_unit_test(a_machine_that_cannot_be_read_is_left_alone),
    cmocka_unit_test(too_many_ranks_keep_what_they_have),
};

int main(void)
{
    return cmocka_run_group_tests(tests, set_up, NULL);
}
