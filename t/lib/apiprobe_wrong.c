/* Rank 1 makes a mistake, or goes, while reductions are under way; all print what they are told. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "t/lib/apiprobe.h"

/* Rank 1 makes the mistake in a step's last micro-step, when reductions are under way; all print what they are told,
 * which reaches a rank that is late before it has come so far. */
static int mistake(ddp_t *d, const int *marks, int n_marks)
{
    bool sync = false;
    int rc = open_three(d, 5, 2);
    while (rc == 0 && !sync)
        rc = micro_step(d, marks, n_marks, &sync);
    CHECK(rc == -1);
    printf("told: %s\n", e.text);
    return 0;
}

int case_twice(ddp_t *d)
{
    return mistake(d, (int[]){2, 1, 1, 0}, 4);
}

int case_never(ddp_t *d)
{
    return mistake(d, (int[]){2, 0}, 2);
}

int case_silent(ddp_t *d)
{
    is_silent = true;
    return case_never(d);
}

int case_unknown(ddp_t *d)
{
    return mistake(d, (int[]){2, 1, 0, 3}, 4);
}

/* So many bytes, no more and no fewer, are not to be had. */
static size_t lacking = SIZE_MAX;
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_malloc(size_t n)
{
    return n == lacking ? NULL : __real_malloc(n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return n == lacking ? NULL : __real_aligned_alloc(align, n);
}

static void lack(const ddp_t *d, size_t n)
{
    lacking = ddp_world(d)->rank == 1 ? n : SIZE_MAX;
}

/* Rank 1 has no memory for what it alone keeps: its values, of three parameters, */
int case_no_values(ddp_t *d)
{
    lack(d, (size_t)3 * 64);
    CHECK(open_three(d, 5, 1) == -1);
    printf("told: %s\n", e.text);
    return 0;
}

/* or the plan of three buckets. */
int case_no_plan(ddp_t *d)
{
    bool sync;
    CHECK(open_three(d, 5, 1) == 0);
    lack(d, 4 * sizeof(int));
    CHECK(micro_step(d, (int[]){2, 1, 0}, 3, &sync) == -1 || ddp_barrier(d, &e) == -1);
    printf("told: %s\n", e.text);
    return 0;
}

/* Rank 1 marks a gradient after its micro-step. */
int case_stray(ddp_t *d)
{
    struct ddp_batch k;
    struct ddp_step s;
    int rc = open_three(d, 5, 1) < 0 || ddp_batch_next(d, &k, &e) < 0 ? -1 : 0;
    for (int i = 0; rc == 0 && i < 3; i++)
        ddp_grad_ready(d, i);
    rc = rc < 0 ? rc : ddp_backward_end(d, 1, 2, &e);
    if (ddp_world(d)->rank == 1)
        ddp_grad_ready(d, 0);
    rc = rc < 0 ? rc : ddp_step(d, &s, &e);
    CHECK(rc == -1 || (ddp_world(d)->rank != 1 && ddp_barrier(d, &e) == -1));
    printf("told: %s\n", e.text);
    return 0;
}

/* Holds rank 1's thread within a reduction until `leaving`, and a little longer. */
static atomic_bool is_held, leaving;
static bool will_hold;

static void hold_decode(void *ctx, float *grad, const void *wire, size_t n, const struct ddp_hook_info *info)
{
    copy_hook().decode(ctx, grad, wire, n, info);
    if (!will_hold || atomic_exchange(&is_held, true))
        return;
    while (!atomic_load(&leaving))
        sched_yield();
    usleep(50000); /* time for ddp_finalize to go as far as it gets */
}

/* What rank 1 does reaches a rank that is late in an earlier call. */
static int late(ddp_t *d)
{
    CHECK(ddp_world(d)->rank != 1);
    printf("told: %s\n", e.text);
    return 0;
}

/* Rank 1 leaves, with and without a word, while its reductions are under way and others wait for them. */
static int leave(ddp_t *d, const char *why)
{
    struct ddp_batch k;
    struct ddp_hook hook = copy_hook();
    hook.decode = hold_decode;
    CHECK(ddp_hook(d, &hook, &e) == 0);
    if (open_three(d, 1 << 16, 1) < 0 || ddp_batch_next(d, &k, &e) < 0)
        return late(d);
    will_hold = in_thread && ddp_world(d)->rank == 1; /* of the one bucket, which the last mark starts */
    for (int i = 2; i >= 0; i--)
        ddp_grad_ready(d, i);
    if (ddp_world(d)->rank == 1) {
        for (uint64_t deadline = clock_ns() + 20 * 1000000000ull; will_hold && !atomic_load(&is_held);)
            CHECK(clock_ns() < deadline);
        atomic_store(&leaving, true);
        if (why)
            ddp_abort(d, 1, why);
        return 0;
    }
    CHECK(ddp_backward_end(d, 1, 2, &e) == -1);
    return late(d);
}

int case_leave(ddp_t *d)
{
    return leave(d, NULL);
}

int case_abort(ddp_t *d)
{
    return leave(d, "enough");
}

/* Rank 1 aborts, and the others, who wait for nothing, are told. */
int case_check(ddp_t *d)
{
    uint64_t deadline = clock_ns() + 20 * 1000000000ull;
    CHECK(ddp_check(d, &e) == 0);
    int rc = ddp_barrier(d, &e); /* rank 1 may have gone before the others are out of it */
    if (ddp_world(d)->rank == 1) {
        ddp_abort(d, 1, "enough");
        return 0;
    }
    while (rc == 0 && ddp_check(d, &e) == 0)
        CHECK(clock_ns() < deadline);
    return late(d);
}

static bool is_refused(int rc)
{
    return rc < 0 && e.domain == DDP_E_USAGE && strstr(e.text, "in a forked child");
}

static int use_parents(ddp_t *d, ddp_work_t *w)
{
    float x = 1;
    CHECK(is_refused(ddp_wait(w, &e)) && is_refused(ddp_check(d, &e)) && is_refused(ddp_barrier(d, &e)));
    CHECK(is_refused(ddp_bcast(d, &x, 1, DDP_F32, 0, &e)));
    CHECK(!ddp_allreduce(d, &x, 1, DDP_F32, DDP_SUM, &e) && is_refused(-1));
    CHECK(is_refused(open_three(d, 10, 1)) && is_refused(ddp_record(d, "mine", NULL, &e)));
    ddp_grad_ready(d, 0);
    ddp_abort(d, 1, "enough");
    ddp_finalize(d);
    return 0;
}

/* Each rank has a work in flight and forks; its child calls what it inherits. */
int case_fork(ddp_t *d)
{
    float x = 1;
    int status = -1;
    ddp_work_t *w = ddp_allreduce(d, &x, 1, DDP_F32, DDP_SUM, &e);
    CHECK(w);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        int rc = use_parents(d, w);
        fflush(stdout);
        _exit(rc);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(ddp_wait(w, &e) == 0 && x == (float)ddp_world(d)->size);
    CHECK(ddp_barrier(d, &e) == 0);
    return 0;
}
