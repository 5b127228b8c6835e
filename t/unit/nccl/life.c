/* The states of an NCCL communicator, over a table of functions in NCCL's place: ranks are processes, the host
 * communicator and its watch are real. (t/t8101, t/t8102 try the same over a library.) */
#include "t/unit/unit.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/comm/wireup.h"
#include "runtime/nccl/impl.h"
#include "t/lib/ranks.h"

/* ---- NCCL, of this process ---- */

static struct {
    int busy, code; /* the state: in progress that many times, then code */
    int n_id, n_init, n_ops, n_abort, n_finalize, n_destroy, n_free;
    int n_register, n_deregister;
    bool fails_to_allocate, fails_to_register;
    bool abort_blocks;
    void **ret_window; /* where a thread of NCCL's writes it */
    unsigned char ids[NCCL_ID_BYTES];
} fake;
static int handle;
static _Atomic int *wondered; /* shared: somebody has asked what NCCL says of an error */

static const char *fake_text(int code)
{
    return code == NCCL_REMOTE_ERROR ? "remote error" : "error";
}
static const char *fake_last(void)
{
    if (wondered)
        *wondered = 1;
    return "as the test wants\nsecond line";
}
static int fake_id(unsigned char id[NCCL_ID_BYTES])
{
    memset(id, ++fake.n_id, NCCL_ID_BYTES);
    return NCCL_OK;
}
static int busy(void)
{
    fake.busy = 3;
    return NCCL_IN_PROGRESS;
}
static int fake_init(void **ret, int size, int rank, const unsigned char *ids, int n_ids)
{
    (void)size;
    (void)rank;
    (void)n_ids;
    memcpy(fake.ids, ids, NCCL_ID_BYTES);
    fake.n_init++;
    *ret = &handle;
    return busy();
}
static int fake_state(void *comm)
{
    assert(comm == &handle);
    return fake.busy > 0 ? fake.busy--, NCCL_IN_PROGRESS : fake.code;
}
static int fake_finalize(void *comm)
{
    (void)comm;
    fake.n_finalize++;
    return busy();
}
static __thread bool has_entered; /* its device is this thread's */
static void enter(void *ctx)
{
    has_entered = ctx == &fake;
}
static int fake_destroy(void *comm)
{
    (void)comm;
    assert(has_entered);
    fake.n_destroy++;
    return NCCL_OK;
}
static int fake_abort(void *comm)
{
    (void)comm;
    assert(has_entered);
    fake.n_abort++;
    while (fake.abort_blocks)
        pause();
    return NCCL_OK;
}
static int fake_alloc(void **ret, size_t n)
{
    if (fake.fails_to_allocate)
        return NCCL_CUDA_ERROR;
    *ret = malloc(n);
    return NCCL_OK;
}
static int fake_free(void *p)
{
    fake.n_free++;
    free(p);
    return NCCL_OK;
}
static int fake_register(void *comm, void *p, size_t n, void **ret_handle)
{
    (void)comm;
    (void)n;
    fake.n_register++;
    *ret_handle = p;
    return fake.fails_to_register ? NCCL_INVALID_ARGUMENT : NCCL_OK;
}
static int fake_deregister(void *comm, void *h)
{
    (void)comm;
    assert(h);
    fake.n_deregister++;
    return NCCL_OK;
}
static int fake_window(void *comm, void *p, size_t n, void **ret_window)
{
    (void)comm;
    (void)p;
    (void)n;
    fake.ret_window = ret_window; /* NULL: it has none */
    return busy();
}
static int fake_group_start(void)
{
    return fake.busy > 0 ? NCCL_INVALID_USAGE : NCCL_OK; /* the last call has to be known to be over */
}
static int fake_allreduce(void *comm, const void *in, void *out, size_t n, enum ddp_dtype t, void *stream)
{
    (void)comm;
    (void)in;
    (void)out;
    (void)n;
    (void)t;
    (void)stream;
    fake.n_ops++;
    return NCCL_OK;
}
static const struct nccl_lib lib = {
    .version = 22809,
    .code_text = fake_text,
    .last_error = fake_last,
    .unique_id = fake_id,
    .init = fake_init,
    .state = fake_state,
    .finalize = fake_finalize,
    .destroy = fake_destroy,
    .abort = fake_abort,
    .alloc = fake_alloc,
    .free = fake_free,
    .reg = fake_register,
    .dereg = fake_deregister,
    .has[NCCL_WINDOWS] = true,
    .window = fake_window,
    .group_start = fake_group_start,
    .group_end = busy,
    .allreduce = fake_allreduce,
};

/* ---- ranks ---- */

struct rig {
    struct world *w;
    comm_t *c;
    nccl_t *n;
};

/* Wires up as libddp does. */
static int wire_host(struct job *j, struct memboot *boot, int rank, struct rig *r, ddp_error_t *e)
{
    struct comm_config host = {.timeout_s = 30};
    boot_t *b = memboot_open(boot, rank);
    r->w = job_world(j, rank);
    r->c = comm_create(&host, r->w, b, e);
    boot_leave(b, NULL);
    return r->c ? 0 : -1;
}

static char warned[512]; /* the last line */
static void warn(void *ctx, const char *line)
{
    assert(ctx == &fake);
    snprintf(warned, sizeof warned, "%s", line);
}

static int wire(struct job *j, struct memboot *boot, int rank, struct rig *r, ddp_error_t *e)
{
    struct nccl_config cfg = {.timeout_s = 30, .device = {.ctx = &fake, .enter = enter}};
    cfg.warn = warn;
    cfg.warn_ctx = &fake;
    if (j->timeout_s > 0)
        cfg.timeout_s = j->timeout_s;
    if (wire_host(j, boot, rank, r, e) == 0)
        r->n = nccl_create_with(&cfg, &lib, NULL, r->w, r->c, e);
    return r->n ? 0 : -1;
}

static int unwire(struct rig *r, int rc)
{
    nccl_destroy(r->n);
    comm_destroy(r->c);
    world_destroy(r->w);
    return rc;
}

#define WIRED(r)                                                                                                       \
    struct rig r = {0};                                                                                                \
    ddp_error_t e = {0};                                                                                               \
    CHECK(wire(j, j->boot, rank, &r, &e) == 0, "%s", e.text)

static float data[8];
static const struct nccl_range range = {data, 8, DDP_F32};

static int done_at_third(void *ctx, ddp_error_t *errp)
{
    int *n = ctx;
    (void)errp;
    return ++*n == 3;
}

static int never(void *ctx, ddp_error_t *errp)
{
    (void)ctx;
    (void)errp;
    return 0;
}

static int lives(struct job *j, int rank)
{
    int asked = 0;
    void *memory = NULL;
    WIRED(r);
    CHECK(fake.n_id == (rank == 0) && r.n->life == NCCL_CREATED && r.n->ids, "created: %d ids", fake.n_id);
    CHECK(nccl_start(r.n, &e) == 0, "%s", e.text);
    CHECK(r.n->life == NCCL_READY && !r.n->ids && fake.ids[0] == 1, "started with rank 0's id, which is wiped");
    CHECK(nccl_memory_create(r.n, 64, true, &memory, &e) == 0 && memory, "%s", e.text);
    CHECK(nccl_allreduce(r.n, &range, 1, NULL, &e) == 0 && r.n->life == NCCL_ISSUED, "%s", e.text);
    CHECK(nccl_settle(r.n, &e) == 0 && r.n->life == NCCL_READY, "%s", e.text);
    CHECK(nccl_allreduce(r.n, &range, 1, NULL, &e) == 0, "%s", e.text);
    CHECK(nccl_allreduce(r.n, &range, 1, NULL, &e) == 0, "one after another: %s", e.text);
    CHECK(nccl_allreduce(r.n, &range, 0, NULL, &e) == 0, "none: %s", e.text);
    CHECK(nccl_wait(r.n, done_at_third, &asked, &e) == 0 && asked == 3, "asked %d times", asked);
    CHECK(nccl_close(r.n, &e) == 0 && r.n->life == NCCL_CLOSED, "%s", e.text);
    CHECK(fake.n_ops == 3 && fake.n_finalize == 1 && fake.n_destroy == 1, "%d %d", fake.n_ops, fake.n_finalize);
    unwire(&r, 0);
    CHECK(fake.n_abort == 0 && fake.n_free == 1, "%d %d", fake.n_abort, fake.n_free);
    return 0;
}

static int makes_mistakes(struct job *j, int rank)
{
    int n = 0;
    WIRED(r);
    CHECK(nccl_allreduce(r.n, &range, 1, NULL, &e) < 0 && e.domain == DDP_E_USAGE, "before it is started: %s", e.text);
    CHECK(nccl_close(r.n, &e) < 0 && nccl_wait(r.n, done_at_third, &n, &e) < 0 && n == 0, "%s", e.text);
    CHECK(nccl_start(r.n, &e) == 0, "%s", e.text);
    CHECK(nccl_start(r.n, &e) < 0 && e.domain == DDP_E_USAGE && fake.n_init == 1, "twice: %s", e.text);
    CHECK(nccl_memory_create(r.n, 0, true, NULL, &e) < 0 && e.domain == DDP_E_USAGE, "no bytes: %s", e.text);
    CHECK(nccl_allreduce(r.n, &range, 1, NULL, &e) == 0, "none of it has harmed: %s", e.text);
    CHECK(nccl_close(r.n, &e) == 0, "%s", e.text);
    CHECK(nccl_close(r.n, &e) < 0 && nccl_allreduce(r.n, &range, 1, NULL, &e) < 0, "after the end: %s", e.text);
    return unwire(&r, 0);
}

static int breaks(struct job *j, int rank)
{
    void *memory;
    WIRED(r);
    CHECK(nccl_start(r.n, &e) == 0 && nccl_memory_create(r.n, 64, false, &memory, &e) == 0, "%s", e.text);
    CHECK(nccl_allreduce(r.n, &range, 1, NULL, &e) == 0 && comm_barrier(r.c, &e) == 0, "%s", e.text);
    fake.code = rank == 1 ? NCCL_REMOTE_ERROR : NCCL_OK;
    fake.busy = rank == 1 ? 3 : 1 << 30;
    CHECK(nccl_settle(r.n, &e) < 0 && r.n->life == NCCL_BROKEN, "%d", r.n->life);
    CHECK(strstr(e.text, "an operation of NCCL failed: remote error (as the test wants): another rank"), "%s", e.text);
    CHECK(!!strstr(e.text, "rank 1 (n0) aborted") == (rank != 1), "%s", e.text);
    CHECK(fake.n_abort == 1 && !r.n->handle, "aborted at once, %d times", fake.n_abort);
    ddp_error_t again = {0};
    CHECK(nccl_allreduce(r.n, &range, 1, NULL, &again) < 0 && nccl_close(r.n, &again) < 0, "nothing more can be done");
    CHECK(nccl_settle(r.n, &again) < 0 && again.domain == (rank == 1 ? DDP_E_PEER : e.domain), "%s", again.text);
    unwire(&r, 0);
    CHECK(fake.n_abort == 1 && fake.n_free == 1, "%d %d", fake.n_abort, fake.n_free);
    return 0;
}

/* What NCCL of one rank, or of all, does not allocate or register, no rank uses. */
static int has_no_memory(struct job *j, int rank)
{
    const struct {
        const char *says;
        int first, last;
        bool allocates;
    } scenes[] = {{"NCCL of rank 1 (n0) cannot allocate 3 MiB (as the test wants): all ranks take other", 1, 1, false},
                  {"NCCL of rank 0 (n0) cannot allocate 3 MiB", 0, 2, false},
                  {"NCCL of rank 2 (n0) cannot register 3 MiB (as the test wants): no rank does, and", 2, 2, true},
                  {"NCCL of rank 0 (n0) cannot register 3 MiB", 0, 2, true}};
    WIRED(r);
    CHECK(nccl_start(r.n, &e) == 0 && !warned[0], "%s", e.text);
    for (int i = 0; i < 4; i++) {
        bool fails = rank >= scenes[i].first && rank <= scenes[i].last;
        void *memory = &memory;
        fake.fails_to_allocate = fails && !scenes[i].allocates;
        fake.fails_to_register = fails && scenes[i].allocates;
        fake.n_register = fake.n_deregister = fake.n_free = warned[0] = 0;
        CHECK(nccl_memory_create(r.n, (2 << 20) + 1, true, &memory, &e) == 0, "%d: %s", i, e.text);
        CHECK(!!memory == scenes[i].allocates && fake.n_register == scenes[i].allocates, "%d: %p", i, memory);
        CHECK(fake.n_free == (!scenes[i].allocates && !fails), "%d: freed %d", i, fake.n_free);
        CHECK(fake.n_deregister == (scenes[i].allocates && !fails), "%d: %d end", i, fake.n_deregister);
        CHECK(strstr(warned, scenes[i].says) == warned && !strchr(warned, '\n'), "%d: %s", i, warned);
    }
    fake.n_deregister = fake.n_free = 0;
    CHECK(nccl_allreduce(r.n, &range, 1, NULL, &e) == 0 && nccl_close(r.n, &e) == 0, "%s", e.text);
    unwire(&r, 0);
    CHECK(fake.n_deregister == 0 && fake.n_free == 2, "%d %d", fake.n_deregister, fake.n_free);
    return 0;
}

/* What is wrong with a plain registration has nothing to do with windows. */
static int breaks_when_registering(struct job *j, int rank)
{
    void *memory;
    WIRED(r);
    CHECK(nccl_start(r.n, &e) == 0, "%s", e.text);
    fake.code = rank == 1 ? NCCL_INVALID_ARGUMENT : NCCL_OK;
    CHECK(nccl_memory_create(r.n, 64, false, &memory, &e) < 0, "it went well");
    CHECK(strstr(e.text, "rank 1 (n0)") && strstr(e.text, "the registration of memory with NCCL failed: error (as the "
                 "test wants): NCCL_DEBUG=INFO tells more"), "%s", e.text);
    return unwire(&r, 0);
}

/* NCCL hears of a death before the watch does: rank 1 ends only when rank 0 has its error. It is told as the death. */
static int dies_later(struct job *j, int rank)
{
    WIRED(r);
    CHECK(nccl_start(r.n, &e) == 0 && comm_barrier(r.c, &e) == 0, "%s", e.text);
    wondered = j->shared;
    uint64_t until = deadline_in(20);
    while (rank == 1 && !*wondered && deadline_left_ns(until) > 0)
        usleep(1000);
    if (rank == 1)
        _exit(0);
    fake.code = rank == 0 ? NCCL_REMOTE_ERROR : NCCL_OK;
    CHECK(nccl_wait(r.n, never, NULL, &e) < 0 && strstr(e.text, "rank 1 (n0) died"), "%s", e.text);
    CHECK(e.domain == DDP_E_PEER && fake.n_abort == 1, "%d", e.domain);
    return unwire(&r, 0);
}

/* After a failure ranks wire up again, host communicator and all. */
static int wires_again(struct job *j, int rank)
{
    int rc = breaks(j, rank);
    struct rig r = {0};
    ddp_error_t e = {0};
    CHECK(rc == 0, "the first time");
    memset(&fake, 0, sizeof fake);
    fake.n_id = 40;
    CHECK(wire(j, (struct memboot *)j->arg, rank, &r, &e) == 0, "%s", e.text);
    CHECK(nccl_start(r.n, &e) == 0 && nccl_allreduce(r.n, &range, 1, NULL, &e) == 0, "%s", e.text);
    CHECK(fake.ids[0] == 41, "a new id");
    CHECK(nccl_close(r.n, &e) == 0, "%s", e.text);
    return unwire(&r, 0);
}

/* Rank 1 has no library, another version, or another build: all are told alike, and the host communicator goes on. */
static int refuses(struct job *j, int rank)
{
    struct nccl_config cfg = {.timeout_s = 30, .device = {.ctx = &fake, .enter = enter}};
    struct nccl_lib other = lib;
    ddp_error_t e = {0}, why;
    struct rig r = {0};
    CHECK(wire_host(j, j->boot, rank, &r, &e) == 0, "%s", e.text);
    error_set(&why, DDP_E_COMM, ENOENT, "no NCCL here");
    CHECK(!nccl_create_with(&cfg, rank == 1 ? NULL : &lib, &why, r.w, r.c, &e), "without a library");
    CHECK(strcmp(e.text, rank == 1 ? "no NCCL here" : "rank 1 (n0): no NCCL here") == 0, "%s", e.text);
    other.version = rank == 1 ? 22708 : lib.version;
    CHECK(!nccl_create_with(&cfg, &other, NULL, r.w, r.c, &e), "with two versions");
    CHECK(strstr(e.text, "rank 0 (n0) has NCCL 2.28.9 and rank 1 (n0) has 2.27.8: all ranks"), "%s", e.text);
    other = lib;
    other.has[NCCL_WINDOWS] = rank != 1;
    CHECK(!nccl_create_with(&cfg, &other, NULL, r.w, r.c, &e), "with a function that one rank lacks");
    CHECK(strstr(e.text, "rank 1 (n0) has 2.28.9: all ranks need the same version and build of it"), "%s", e.text);
    CHECK(fake.n_init == 0 && comm_barrier(r.c, &e) == 0, "%s", e.text);
    r.n = nccl_create_with(&cfg, &lib, NULL, r.w, r.c, &e);
    CHECK(r.n && nccl_start(r.n, &e) == 0 && nccl_close(r.n, &e) == 0, "afterwards: %s", e.text);
    return unwire(&r, 0);
}

static int device_fails(void *ctx, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_SYSTEM, EIO, "the GPU of rank %d fell off the bus", *(int *)ctx);
}

static int loses_its_device(struct job *j, int rank)
{
    WIRED(r);
    CHECK(nccl_start(r.n, &e) == 0 && comm_barrier(r.c, &e) == 0, "%s", e.text);
    CHECK(nccl_wait(r.n, rank == 1 ? device_fails : never, &rank, &e) < 0, "it went well");
    CHECK(strstr(e.text, "the GPU of rank 1 fell off the bus"), "%s", e.text);
    CHECK(!!strstr(e.text, "rank 1 (n0) aborted: ") == (rank != 1) && fake.n_abort == 1, "%s", e.text);
    return unwire(&r, 0);
}

/* ncclCommAbort does not return on rank 0: nothing of NCCL's is called after it. */
static int is_stuck(struct job *j, int rank)
{
    void *memory;
    WIRED(r);
    CHECK(nccl_start(r.n, &e) == 0 && nccl_memory_create(r.n, 64, true, &memory, &e) == 0, "%s", e.text);
    CHECK(comm_barrier(r.c, &e) == 0, "%s", e.text);
    r.n->cfg.timeout_s = 0.5; /* for which a busy machine's ranks may not even start together */
    fake.abort_blocks = rank == 0;
    if (rank == 1)
        comm_abort(r.c, "enough");
    CHECK(nccl_wait(r.n, never, NULL, &e) < 0 && strstr(e.text, "rank 1 (n0) aborted: enough"), "%s", e.text);
    CHECK(r.n->is_stuck == (rank == 0), "stuck");
    unwire(&r, 0);
    if (rank == 0)
        *fake.ret_window = NULL; /* as a thread of NCCL's may that is stuck */
    CHECK(fake.n_abort == 1 && fake.n_free == (rank != 0), "%d", fake.n_free);
    return 0;
}

/* Rank 1 computes, or whatever, while the others wait for it: it is named, whoever's deadline it was. */
static int is_late(struct job *j, int rank)
{
    uint64_t until = deadline_in(20);
    WIRED(r);
    CHECK(nccl_start(r.n, &e) == 0, "%s", e.text);
    r.n->cfg.timeout_s = 2;
    while (rank == 1 && !watch_is_broken(r.c->watch) && deadline_left_ns(until) > 0)
        usleep(1000);
    CHECK(nccl_wait(r.n, never, NULL, &e) < 0 && e.domain == DDP_E_TIMEOUT, "%s", e.text);
    CHECK(strstr(e.text, "rank 1 (n0) did not come before the deadline"), "%s", e.text);
    CHECK(strstr(e.text, "waited in an operation of NCCL"), "%s", e.text);
    return unwire(&r, 0);
}

/* ---- tests ---- */

static void run_job(rank_f *f, double timeout_s)
{
    static const int one_node[3] = {0};
    struct job j = {.size = 3, .node_of = one_node, .timeout_s = timeout_s, .arg = memboot_create(3)};
    assert_true(job_run(&j, f));
    memboot_destroy((struct memboot *)j.arg);
}

#define TEST(name, f, timeout_s)                                                                                       \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        run_job(f, timeout_s);                                                                                         \
    }
TEST(test_life, lives, 0)
TEST(test_mistakes, makes_mistakes, 0)
TEST(test_breaks, breaks, 4)
TEST(test_no_memory, has_no_memory, 0)
TEST(test_registering, breaks_when_registering, 0)
TEST(test_dies_later, dies_later, 0)
TEST(test_wires_again, wires_again, 4)
TEST(test_refuses, refuses, 0)
TEST(test_device_fails, loses_its_device, 0)
TEST(test_stuck, is_stuck, 0)
TEST(test_late, is_late, 0)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_life),          cmocka_unit_test(test_mistakes),    cmocka_unit_test(test_breaks),
    cmocka_unit_test(test_wires_again),   cmocka_unit_test(test_refuses),     cmocka_unit_test(test_dies_later),
    cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_registering),
    cmocka_unit_test(test_device_fails),  cmocka_unit_test(test_stuck),       cmocka_unit_test(test_late),
};
UNIT_MAIN(tests)
