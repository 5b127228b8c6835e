/* apiprobe.c - small libddp programs for shell tests, one per word: apiprobe CASE. Prints "ok" on every rank, or what
 * is wrong; exit code 1 then. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/ddp.h"

#define CHECK(cond)                                                                                                    \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #cond, e.text);                                              \
            ddp_abort(d, 1, "a check failed");                                                                         \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static ddp_error_t e;
static size_t n_elems; /* argv[2] */
static uint64_t n_samples = 1000;
static bool is_silent; /* rank 1 does not ask why */
static bool in_thread; /* argv[2] is "thread" */

static float value(int rank, size_t i)
{
    return (float)(i % 100) + 10 * (float)rank;
}

static int is_sum(const float *x, size_t n, int size)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != (float)size * (float)(i % 100) + 5 * (float)size * ((float)size - 1))
            return 0;
    return 1;
}

/* Several in flight, in memory of either kind; waited for in another order; one not at all. */
static int case_allreduce(ddp_t *d)
{
    enum { N = 300001, K = 4 };
    const struct ddp_world *w = ddp_world(d);
    float *x[K];
    ddp_work_t *work[K];
    for (int k = 0; k < K; k++) {
        x[k] = k % 2 ? malloc(N * sizeof *x[k]) : ddp_alloc(d, N * sizeof *x[k], &e);
        CHECK(x[k] && (k % 2 || ((uintptr_t)x[k] % 64 == 0 && x[k][N - 1] == 0)));
        for (size_t i = 0; i < N; i++)
            x[k][i] = value(w->rank, i);
    }
    for (int k = 0; k < K; k++)
        CHECK((work[k] = ddp_allreduce(d, x[k], N, DDP_F32, DDP_SUM, &e)));
    for (int k = K - 1; k > 0; k--) {
        CHECK(ddp_wait(work[k], &e) == 0);
        CHECK(is_sum(x[k], N, w->size));
    }
    CHECK(ddp_barrier(d, &e) == 0); /* runs after work[0] */
    CHECK(is_sum(x[0], N, w->size));
    free(x[1]);
    free(x[3]);
    return 0;
}

static int case_options(ddp_t *d)
{
    struct ddp_metrics m;
    struct ddp_adamw opt = {.lr = 1, .sgd = true};
    CHECK(ddp_option(d, "bucket-mb", "2", &e) == 0);
    CHECK(ddp_option(d, "bucket-mb", "x", &e) == -1 && strstr(e.text, "ddp_option: bucket-mb=x is not allowed"));
    CHECK(ddp_option(d, "colour", "red", &e) == -1 && strstr(e.text, "unknown option colour"));
    CHECK(ddp_option(d, "timeout", "3", &e) == -1 && strstr(e.text, "--ddp-timeout=3"));
    CHECK(ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0) == 0);
    CHECK(ddp_commit(d, &opt, &e) == 0);
    CHECK(ddp_option(d, "bucket-mb", "2", &e) == -1 && strstr(e.text, "before ddp_commit"));
    CHECK(ddp_metrics(d, &m) == 0 && m.steps == 0 && m.bytes_reduced == 0 && m.alpha_s == 0);
    return 0;
}

/* Three parameters, accum micro-steps. */
static int open_three(ddp_t *d, size_t elems, int accum)
{
    static const char *const name[] = {"head", "body", "tail"};
    struct ddp_adamw opt = {.lr = .5f, .sgd = true};
    for (int i = 0; i < 3; i++)
        ddp_param_add(d, name[i], DDP_F32, &elems, 1, 0);
    return ddp_commit(d, &opt, &e) < 0 ? -1 : ddp_data_open(d, n_samples, 2, accum, 0, 1, &e);
}

static int micro_step(ddp_t *d, const int *marks, int n_marks, bool *ret_sync)
{
    struct ddp_batch k;
    if (ddp_batch_next(d, &k, &e) < 0)
        return -1;
    *ret_sync = k.sync;
    bool wrong = k.sync && ddp_world(d)->rank == 1;
    for (int i = 0; i < (wrong ? n_marks : 3); i++)
        ddp_grad_ready(d, wrong ? marks[i] : 2 - i);
    return ddp_backward_end(d, 1, 2, wrong && is_silent ? NULL : &e);
}

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

static int case_twice(ddp_t *d)
{
    return mistake(d, (int[]){2, 1, 1, 0}, 4);
}

static int case_never(ddp_t *d)
{
    return mistake(d, (int[]){2, 0}, 2);
}

static int case_silent(ddp_t *d)
{
    is_silent = true;
    return case_never(d);
}

static int case_unknown(ddp_t *d)
{
    return mistake(d, (int[]){2, 1, 0, 3}, 4);
}

/* A hook that does nothing, but holds rank 1's thread within a reduction until `leaving`, and a little longer. */
static atomic_bool is_held, leaving;
static bool will_hold;

static void copy_encode(void *ctx, void *wire, const float *grad, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx, (void)info;
    memcpy(wire, grad, n * sizeof *grad);
}

static void copy_decode(void *ctx, float *grad, const void *wire, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx, (void)info;
    memcpy(grad, wire, n * sizeof *grad);
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
    struct ddp_hook hook = {.wire = DDP_F32, .encode = copy_encode, .decode = copy_decode};
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

static int case_leave(ddp_t *d)
{
    return leave(d, NULL);
}

static int case_abort(ddp_t *d)
{
    return leave(d, "enough");
}

/* Rank 1 passes something else than the others: all are told, and by which it differs. */
static int case_optimizer(ddp_t *d)
{
    struct ddp_adamw opt = {.lr = ddp_world(d)->rank == 1 ? .25f : .5f, .sgd = true};
    ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0);
    CHECK(ddp_commit(d, &opt, &e) == -1);
    printf("told: %s\n", e.text);
    return 0;
}

static int case_no_optimizer(ddp_t *d)
{
    struct ddp_adamw opt = {.lr = .5f, .sgd = true};
    ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0);
    CHECK(ddp_commit(d, ddp_world(d)->rank == 1 ? NULL : &opt, &e) == -1);
    printf("told: %s\n", e.text);
    return 0;
}

/* Data that ranks open differently, or one of them wrongly, are told to all, and can be opened again. */
static int case_data(ddp_t *d)
{
    struct ddp_adamw opt = {.lr = .5f, .sgd = true};
    bool is_odd = ddp_world(d)->rank == 1;
    int size = ddp_world(d)->size;
    struct ddp_batch k;
    struct ddp_step s;
    ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0);
    CHECK(ddp_commit(d, &opt, &e) == 0);
    CHECK(ddp_data_open(d, 1000, is_odd ? 0 : 2, 1, 0, 1, &e) == -1 && strstr(e.text, "ddp_data_open: a batch of 0"));
    CHECK(ddp_data_open(d, is_odd ? 999 : 1000, 2, 1, 4 * size, 1, &e) == -1 && strstr(e.text, "but rank 0 has"));
    CHECK(ddp_memory(d).partials == 0);
    CHECK(ddp_data_open(d, 1000, 2, 1, 0, 1, &e) == 0);
    for (int step = 0; step < 3; step++) { /* nothing is left of the shards */
        CHECK(ddp_batch_next(d, &k, &e) == 0 && k.sync);
        ((float *)ddp_param_get(d, 0).grad)[4] = 2;
        ddp_grad_ready(d, 0);
        CHECK(ddp_backward_end(d, 1, 2, &e) == 0 && ddp_step(d, &s, &e) == 0);
    }
    CHECK(((float *)ddp_param_get(d, 0).value)[4] == -1.5f);
    return 0;
}

/* Rank 1 marks a gradient after its micro-step. */
static int case_stray(ddp_t *d)
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

/* Calls that do not fit, made by all ranks alike: refused, and the handle goes on. */
static int case_refuse(ddp_t *d)
{
    struct ddp_batch k;
    struct ddp_step s;
    float x = 1;
    bool sync = false;
    CHECK(open_three(d, 5, 2) == 0 && ddp_batch_next(d, &k, &e) == 0 && !k.sync);
    ddp_grad_ready(d, 2);
    CHECK(ddp_barrier(d, &e) == -1 && strstr(e.text, "gradients are on their way"));
    CHECK(!ddp_allreduce(d, &x, 1, DDP_F32, DDP_SUM, &e) && strstr(e.text, "gradients are on their way"));
    ddp_grad_ready(d, 1);
    ddp_grad_ready(d, 0);
    CHECK(ddp_backward_end(d, 1, 2, &e) == 0);
    CHECK(ddp_step(d, &s, &e) == -1 && strstr(e.text, "call ddp_batch_next first"));
    CHECK(ddp_join(d, &e) == -1 && strstr(e.text, "a step has begun"));
    CHECK(micro_step(d, (int[]){0, 1, 2}, 3, &sync) == 0 && sync && ddp_step(d, &s, &e) == 0);
    for (sync = false; !sync;) { /* no items */
        CHECK(ddp_batch_next(d, &k, &e) == 0);
        for (int i = 0; i < 3; i++)
            ddp_grad_ready(d, i);
        CHECK(ddp_backward_end(d, 0, 0, &e) == 0);
        sync = k.sync;
    }
    CHECK(ddp_step(d, &s, &e) == -1 && strstr(e.text, "no rank reported any item"));
    return 0;
}

static int case_two_hooks(ddp_t *d)
{
    struct ddp_hook hook = {.wire = DDP_F32, .encode = copy_encode, .decode = copy_decode};
    CHECK(ddp_hook(d, &hook, &e) == 0 && ddp_option(d, "compress", "bf16", &e) == 0);
    CHECK(open_three(d, 5, 1) == -1 && strstr(e.text, "leave one out"));
    return 0;
}

static int case_shards(ddp_t *d)
{
    struct ddp_adamw opt = {.lr = .5f, .sgd = true};
    CHECK(ddp_option(d, "compress", "bf16", &e) == 0);
    ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0);
    CHECK(ddp_commit(d, &opt, &e) == 0);
    CHECK(ddp_data_open(d, 1000, 2, 1, 4, 1, &e) == -1 && strstr(e.text, "gradients must travel as they are"));
    return 0;
}

static int case_shards_join(ddp_t *d)
{
    struct ddp_adamw opt = {.lr = .5f, .sgd = true};
    ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0);
    CHECK(ddp_commit(d, &opt, &e) == 0 && ddp_data_open(d, 1000, 2, 1, 4, 1, &e) == 0);
    CHECK(ddp_join(d, &e) == -1 && strstr(e.text, "with shards no rank"));
    return 0;
}

/* 64 steps in a row whose gradient is not finite end training; one that is finite starts the count anew. */
static int case_diverged(ddp_t *d)
{
    struct ddp_batch k;
    struct ddp_step s;
    CHECK(open_three(d, 5, 1) == 0);
    for (int step = 0; step < 10 + 1 + 64; step++) {
        CHECK(ddp_batch_next(d, &k, &e) == 0);
        ((float *)ddp_param_get(d, 0).grad)[0] = step == 10 ? 1 : strtof("inf", NULL);
        for (int i = 2; i >= 0; i--)
            ddp_grad_ready(d, i);
        CHECK(ddp_backward_end(d, 1, 2, &e) == 0);
        bool is_last = step == 10 + 64;
        CHECK(ddp_step(d, &s, &e) == (is_last ? -1 : 0));
        CHECK(is_last ? strstr(e.text, "64 steps in a row") != NULL : s.skipped == (step != 10));
    }
    return 0;
}

/* A gradient of rank 1 that is not finite: named on every rank, and the step is skipped. */
static int case_nan(ddp_t *d)
{
    struct ddp_batch k;
    struct ddp_step s;
    CHECK(open_three(d, 5, 2) == 0);
    for (int step = 0; step < 3; step++) {
        do {
            CHECK(ddp_batch_next(d, &k, &e) == 0);
            for (int i = 2; i >= 0; i--) {
                float *g = ddp_param_get(d, i).grad;
                g[4] += 1;
                if (step == 1 && i == 1 && ddp_world(d)->rank == 1)
                    g[3] = strtof("nan", NULL);
                ddp_grad_ready(d, i);
            }
            CHECK(ddp_backward_end(d, 1, 2, &e) == 0);
        } while (!k.sync);
        CHECK(ddp_step(d, &s, &e) == 0);
        CHECK(s.skipped == (step == 1) && s.bad_param == (step == 1 ? 1 : -1));
    }
    float *v = ddp_param_get(d, 1).value; /* two steps of lr 0.5, gradient 1/2 each */
    CHECK(s.step == 2 && v[4] == -.5f && v[3] == 0);
    return 0;
}

/* Rank r takes 4 + 3 (R - 1 - r) steps, the last rank fewest; the sums are computed here once more. */
static int n_steps(const struct ddp_world *w, int rank)
{
    return 4 + 3 * (w->size - 1 - rank);
}

static float gradient(int rank, int step, int id)
{
    return (float)((rank * 7 + step * 3 + id) % 11);
}

static void serial_steps(const struct ddp_world *w, float *value)
{
    for (int step = 0; step < n_steps(w, 0); step++) {
        float sum[3] = {0};
        int items = 0;
        for (int r = 0; r < w->size; r++) {
            items += step < n_steps(w, r) ? 2 : 0;
            for (int id = 0; id < 3; id++)
                sum[id] += step < n_steps(w, r) ? gradient(r, step, id) : 0;
        }
        for (int id = 0; id < 3; id++)
            value[id] = value[id] * 1 - .5f * (float)(1 / (double)items) * sum[id];
    }
}

static int case_join(ddp_t *d)
{
    const struct ddp_world *w = ddp_world(d);
    struct ddp_batch k;
    struct ddp_step s = {0};
    float want[3] = {0};
    n_samples = (uint64_t)(w->size * (2 * n_steps(w, 0) + 1)); /* one sample more per rank than these steps take */
    CHECK(open_three(d, 9000, 1) == 0);
    for (int step = 0; step < n_steps(w, w->rank); step++) {
        CHECK(ddp_batch_next(d, &k, &e) == 0);
        for (int id = 2; id >= 0; id--) {
            ((float *)ddp_param_get(d, id).grad)[8999] = gradient(w->rank, step, id);
            ddp_grad_ready(d, id);
        }
        CHECK(ddp_backward_end(d, 1, 2, &e) == 0);
        CHECK(ddp_step(d, &s, &e) == 0);
    }
    CHECK(ddp_join(d, &e) == 0);
    serial_steps(w, want);
    for (int id = 0; id < 3; id++) {
        const float *v = ddp_param_get(d, id).value;
        if (v[8999] != want[id] || v[0] != 0)
            printf("parameter %d is %.9g, not %.9g\n", id, (double)v[8999], (double)want[id]);
        CHECK(v[8999] == want[id] && v[0] == 0);
    }
    struct ddp_metrics m;
    CHECK(ddp_metrics(d, &m) == 0 && m.steps == (uint64_t)n_steps(w, 0) + 1); /* in the last one all had joined */
    CHECK(ddp_batch_next(d, &k, &e) == 0); /* and training may go on, with what is left of the epoch on all ranks */
    CHECK(k.n_samples == 1 && k.epoch == 0 && k.sync);
    CHECK(ddp_join(d, &e) == -1 && strstr(e.text, "a micro-step is open"));
    return 0;
}

/* Rank argv[2] is told to end while rank 0 trains and the others have joined: all stop after the same step. */
static int case_join_stop(ddp_t *d)
{
    bool is_told = (size_t)ddp_world(d)->rank == n_elems, is_first = ddp_world(d)->rank == 0;
    struct ddp_step s = {0};
    CHECK(open_three(d, 5, 1) == 0);
    if (is_told && !is_first)
        raise(SIGTERM);
    while (is_first && !s.stop && s.step < 100) {
        bool sync = false;
        CHECK(micro_step(d, (int[]){0, 1, 2}, 3, &sync) == 0 && ddp_step(d, &s, &e) == 0);
        if (is_told && s.step == 6)
            raise(SIGTERM);
    }
    if (is_first)
        CHECK(s.stop && s.step == (is_told ? 7 : 1));
    else
        CHECK(ddp_join(d, &e) == 1);
    CHECK(ddp_barrier(d, &e) == 0);
    return 0;
}

/* Prints why ddp_commit fails, if it does; else touches everything. */
static int case_memory(ddp_t *d)
{
    struct ddp_adamw opt = {.lr = .5f};
    ddp_param_add(d, "w", DDP_F32, &n_elems, 1, 0);
    if (ddp_commit(d, &opt, &e) < 0) {
        printf("told: %s\n", e.text);
        return 0;
    }
    struct ddp_param p = ddp_param_get(d, 0);
    memset(p.value, 1, n_elems * sizeof(float));
    memset(p.grad, 1, n_elems * sizeof(float));
    return 0;
}

static const struct {
    const char *name;
    int (*run)(ddp_t *d);
} cases[] = {
    {"allreduce", case_allreduce},
    {"options", case_options},
    {"twice", case_twice},
    {"never", case_never},
    {"silent", case_silent},
    {"unknown", case_unknown},
    {"leave", case_leave},
    {"abort", case_abort},
    {"optimizer", case_optimizer},
    {"no-optimizer", case_no_optimizer},
    {"data", case_data},
    {"stray", case_stray},
    {"refuse", case_refuse},
    {"two-hooks", case_two_hooks},
    {"shards", case_shards},
    {"shards-join", case_shards_join},
    {"diverged", case_diverged},
    {"nan", case_nan},
    {"join", case_join},
    {"join-stop", case_join_stop},
    {"memory", case_memory},
};

int main(int argc, char **argv)
{
    int rc = 2;
    ddp_t *d = ddp_init(&argc, &argv, &e);
    if (!d)
        return fprintf(stderr, "%s\n", e.text), 1;
    in_thread = argc > 2 && !strcmp(argv[2], "thread");
    n_elems = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            rc = cases[i].run(d);
    if (rc == 0)
        puts("ok");
    ddp_finalize(d);
    return rc;
}
