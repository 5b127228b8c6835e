/* What programs pass once: collectives in flight, options, the optimizer, data; and calls that do not fit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "t/lib/apiprobe.h"

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
int case_allreduce(ddp_t *d)
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

static int group_put(void *ctx, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    (void)key, (void)errp;
    memcpy(ctx, data, n); /* one rank gets what it has put last */
    *(size_t *)((char *)ctx + 4096) = n;
    return 0;
}

static long group_get(void *ctx, const char *key, void *data, size_t size, double timeout_s, ddp_error_t *errp)
{
    size_t n = *(size_t *)((char *)ctx + 4096);
    (void)key, (void)errp;
    memcpy(data, ctx, n < size && timeout_s > 0 ? n : 0);
    return (long)n;
}

/* A group of this rank alone, beside the job's handle. */
static int check_group(void)
{
    _Alignas(16) char store[4096 + sizeof(size_t)];
    struct ddp_group g = {.size = 1, .timeout_s = 30, .ctx = store, .put = group_put, .get = group_get};
    float x = 3, y = 0;
    ddp_t *d = ddp_group(&g, &e);
    CHECK(d && ddp_world(d)->size == 1 && ddp_barrier(d, &e) == 0);
    CHECK(ddp_reduce_scatter(d, &x, 1, DDP_F32, DDP_SUM, &y, &e) == 0 && y == 3);
    ddp_finalize(d);
    g.timeout_s = INFINITY;
    d = ddp_group(&g, &e);
    CHECK(d && ddp_barrier(d, &e) == 0);
    ddp_finalize(d);
    g.timeout_s = -1;
    CHECK(!ddp_group(&g, &e) && strstr(e.text, "ddp_group: timeout_s -1: give seconds, or 0 for DDP_TIMEOUT"));
    g.timeout_s = NAN;
    CHECK(!ddp_group(&g, &e) && strstr(e.text, "ddp_group: timeout_s nan"));
    g.rank = 1;
    CHECK(!ddp_group(&g, &e) && strstr(e.text, "ddp_group: rank 1 of 1 ranks"));
    g = (struct ddp_group){.size = 1};
    CHECK(!ddp_group(&g, &e) && strstr(e.text, "ddp_group: it needs put and get"));
    return 0;
}

/* Rank r gives rank s r + s floats. */
static int check_alltoall(ddp_t *d)
{
    const struct ddp_world *w = ddp_world(d);
    enum { MOST = 16 };
    float given[MOST][2 * MOST], taken[MOST][2 * MOST] = {{0}};
    const void *in[MOST];
    void *out[MOST];
    size_t n[MOST];
    CHECK(w->size <= MOST);
    for (int r = 0; r < w->size; r++) {
        in[r] = given[r];
        out[r] = taken[r];
        n[r] = (size_t)(w->rank + r) * sizeof(float);
        for (int i = 0; i < w->rank + r; i++)
            given[r][i] = value(w->rank, (size_t)(i + r));
    }
    CHECK(ddp_alltoall(d, in, n, out, n, &e) == 0);
    for (int r = 0; r < w->size; r++)
        for (int i = 0; i < 2 * MOST; i++)
            CHECK(taken[r][i] == (i < w->rank + r ? value(r, (size_t)(i + w->rank)) : 0));
    n[0]++;
    CHECK(ddp_alltoall(d, in, n, out, (size_t[MOST]){0}, &e) == -1 && strstr(e.text, "which has room for 0"));
    return 0;
}

/* All-gather, all-to-all and reduce-scatter; a group. */
int case_gather(ddp_t *d)
{
    enum { N = 70001 };
    const struct ddp_world *w = ddp_world(d);
    size_t size = (size_t)w->size, at = (size_t)w->rank * N;
    float *all = malloc(size * N * sizeof *all), *part = malloc(N * sizeof *part);
    CHECK(all && part);
    for (size_t i = 0; i < N; i++)
        all[at + i] = value(w->rank, i);
    CHECK(ddp_allgather(d, all + at, N, DDP_F32, all, &e) == 0);
    for (size_t i = 0; i < size * N; i++)
        CHECK(all[i] == value((int)(i / N), i % N));
    CHECK(check_alltoall(d) == 0);
    CHECK(ddp_reduce_scatter(d, all, N, DDP_F32, DDP_MAX, part, &e) == 0);
    for (size_t i = 0; i < N; i++)
        CHECK(part[i] == value(w->rank, i));
    CHECK(ddp_reduce_scatter(d, all, N, DDP_F32, 9, part, &e) == -1 && strstr(e.text, "unknown operator 9"));
    CHECK(ddp_allgather(d, all, N, 9, all, &e) == -1 && strstr(e.text, "ddp_allgather: unknown type 9"));
    free(all);
    free(part);
    return check_group();
}

int case_options(ddp_t *d)
{
    struct ddp_metrics m;
    struct ddp_optimizer opt = {.lr = 1, .rule = "sgd"};
    CHECK(ddp_option(d, "bucket-mb", "2", &e) == 0);
    CHECK(ddp_option(d, "bucket-mb", "x", &e) == -1 && strstr(e.text, "ddp_option: bucket-mb=x is not allowed"));
    CHECK(ddp_option(d, "colour", "red", &e) == -1 && strstr(e.text, "unknown option colour"));
    CHECK(ddp_option(d, "timeout", "3", &e) == -1 && strstr(e.text, "--ddp-timeout=3"));
    CHECK(ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0) == 0);
    CHECK(ddp_record(d, "epoch", "", &e) == -1 && strstr(e.text, "call ddp_commit or ddp_state_open first"));
    CHECK(ddp_commit(d, &opt, &e) == 0);
    CHECK(ddp_option(d, "bucket-mb", "2", &e) == -1 && strstr(e.text, "before ddp_commit"));
    CHECK(ddp_metrics(d, &m) == 0 && m.steps == 0 && m.bytes_reduced == 0 && m.alpha_s == 0);
    CHECK(m.wall_s == 0 && m.efficiency == 0);
    CHECK(ddp_record(d, "epoch", "\"number\": 3", &e) == 0);
    CHECK(ddp_record(d, "Epoch 3", "", &e) == -1 && strstr(e.text, "letters of a-z"));
    CHECK(ddp_record(d, "stop", "", &e) == -1 && strstr(e.text, "stop is an event of libddp's own: choose another"));
    CHECK(ddp_record(d, "epoch", "\"number\": {", &e) == -1 && strstr(e.text, "JSON on one line"));
    return 0;
}

/* Rank 1 passes something else than the others: all are told, and by which it differs. */
int case_optimizer(ddp_t *d)
{
    struct ddp_optimizer opt = {.lr = ddp_world(d)->rank == 1 ? .25f : .5f, .rule = "sgd"};
    ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0);
    CHECK(ddp_commit(d, &opt, &e) == -1);
    printf("told: %s\n", e.text);
    return 0;
}

int case_no_optimizer(ddp_t *d)
{
    struct ddp_optimizer opt = {.lr = .5f, .rule = "sgd"};
    ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0);
    CHECK(ddp_commit(d, ddp_world(d)->rank == 1 ? NULL : &opt, &e) == -1);
    printf("told: %s\n", e.text);
    return 0;
}

/* Data that ranks open differently, or one of them wrongly, are told to all, and can be opened again. */
int case_data(ddp_t *d)
{
    struct ddp_optimizer opt = {.lr = .5f, .rule = "sgd"};
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

/* Calls that do not fit, made by all ranks alike: refused, and the handle goes on. */
int case_refuse(ddp_t *d)
{
    struct ddp_batch k;
    struct ddp_step s;
    float x = 1;
    bool sync = false;
    CHECK(open_three(d, 5, 2) == 0);
    CHECK(ddp_data_open(d, 1000, 2, 2, 0, 1, &e) == -1 && strstr(e.text, "the data are opened once, after ddp_commit"));
    CHECK(ddp_batch_next(d, &k, &e) == 0 && !k.sync);
    CHECK(ddp_data_open(d, 1000, 2, 2, 0, 1, &e) == -1 && strstr(e.text, "the data are opened once, after ddp_commit"));
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

int case_two_hooks(ddp_t *d)
{
    struct ddp_hook hook = copy_hook();
    CHECK(ddp_hook(d, &hook, &e) == 0 && ddp_option(d, "compress", "bf16", &e) == 0);
    CHECK(open_three(d, 5, 1) == -1 && strstr(e.text, "leave one out"));
    return 0;
}

int case_shards(ddp_t *d)
{
    struct ddp_optimizer opt = {.lr = .5f, .rule = "sgd"};
    CHECK(ddp_option(d, "compress", "bf16", &e) == 0);
    ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0);
    CHECK(ddp_commit(d, &opt, &e) == 0);
    CHECK(ddp_data_open(d, 1000, 2, 1, 4, 1, &e) == -1 && strstr(e.text, "gradients must travel as they are"));
    return 0;
}

int case_shards_join(ddp_t *d)
{
    struct ddp_optimizer opt = {.lr = .5f, .rule = "sgd"};
    ddp_param_add(d, "w", DDP_F32, (size_t[]){5}, 1, 0);
    CHECK(ddp_commit(d, &opt, &e) == 0 && ddp_data_open(d, 1000, 2, 1, 4, 1, &e) == 0);
    CHECK(ddp_join(d, &e) == -1 && strstr(e.text, "with shards no rank"));
    return 0;
}

/* Prints why ddp_commit fails, if it does; else touches everything. */
int case_memory(ddp_t *d)
{
    struct ddp_optimizer opt = {.lr = .5f};
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

/* Values to and from memory of the program's own. */
int case_values(ddp_t *d)
{
    struct ddp_optimizer opt = {.lr = .5f};
    float x[15], y[15];
    for (int i = 0; i < 15; i++)
        x[i] = (float)(i + 1) / 8;
    CHECK(ddp_stream(d, NULL, &e) == 0);
    ddp_param_add(d, "v", DDP_F32, (size_t[]){1}, 1, 0);
    ddp_param_add(d, "w", DDP_F32, (size_t[]){3, 5}, 2, DDP_KEEP_BF16);
    CHECK(ddp_param_write(d, 1, x, &e) == -1 && strstr(e.text, "call ddp_commit first"));
    CHECK(ddp_commit(d, &opt, &e) == 0);
    CHECK(ddp_stream(d, NULL, &e) == -1 && strstr(e.text, "ddp_stream: comes too late"));
    CHECK(!ddp_param_get(d, 1).copy && ddp_param_get(d, 1).copy_dtype == DDP_F32);
    CHECK(ddp_param_write(d, 2, x, &e) == -1 && strstr(e.text, "ddp_param_write: there is no parameter 2"));
    CHECK(ddp_param_read(d, -1, y, &e) == -1 && strstr(e.text, "ddp_param_read: there is no parameter -1"));
    CHECK(ddp_param_write(d, 1, x, &e) == 0 && memcmp(ddp_param_get(d, 1).value, x, sizeof x) == 0);
    CHECK(ddp_param_read(d, 1, y, &e) == 0 && memcmp(x, y, sizeof x) == 0);
    return 0;
}

/* Values in bfloat16 and in float16, which one job has not. */
int case_kept(ddp_t *d)
{
    struct ddp_optimizer opt = {.lr = .5f};
    CHECK(ddp_param_add(d, "a", DDP_F32, (size_t[]){5}, 1, DDP_KEEP_F16) == 0);
    CHECK(ddp_param_add(d, "b", DDP_F32, (size_t[]){5}, 1, 0) == 1);
    CHECK(ddp_param_add(d, "c", DDP_F32, (size_t[]){5}, 1, DDP_KEEP_F16) == 2);
    CHECK(ddp_param_add(d, "d", DDP_F32, (size_t[]){5}, 1, DDP_KEEP_BF16) == -1);
    CHECK(ddp_param_add(d, "e", DDP_F32, (size_t[]){5}, 1, DDP_KEEP_BF16 | DDP_KEEP_F16) == -1);
    CHECK(ddp_commit(d, &opt, &e) == -1 && e.domain == DDP_E_USAGE);
    CHECK(strstr(e.text, "parameter d: DDP_KEEP_BF16, but parameter a has the other: a job keeps values in one"));
    return 0;
}

/* More collectives of nothing behind one that a rank comes late to than the node's ranks remember calls. */
int case_empty(ddp_t *d)
{
    enum { N = 600 };
    ddp_work_t *w[N];
    double one = 1;
    for (int i = 0; i < N; i++) {
        if (i < 2 && ddp_world(d)->rank == 1)
            usleep(100000); /* the other one has called all */
        CHECK((w[i] = ddp_allreduce(d, &one, i == 0, DDP_F64, DDP_SUM, &e)) != NULL);
    }
    for (int i = 0; i < N; i++)
        CHECK(ddp_wait(w[i], &e) == 0);
    CHECK(one == ddp_world(d)->size);
    return 0;
}

/* A state that is a text only: saved, and after the resume once more, in the same step too; then twice in vain. */
int case_text(ddp_t *d)
{
    struct ddp_state_step s;
    struct ddp_checkpoint_status at;
    const char *dir = getenv("PROBE_DIR");
    CHECK(ddp_state_torn(d, "too early", &e) == -1 && strstr(e.text, "ddp_state_torn"));
    CHECK(ddp_state_open(d, &e) == 0);
    int rc = ddp_state_resume(d, dir, &e);
    CHECK(rc >= 0 && (!rc || !strcmp(ddp_state_text(d), "{\"n\": 2}")));
    CHECK(ddp_state_reset(d, &e) == 0 && ddp_state_step(d, &s, &e) == 0);
    for (int i = 1; i <= 2; i++) {
        CHECK(ddp_state_save(d, dir, i == 1 ? "{\"n\": 1}" : "{\"n\": 2}", &e) == 0);
        CHECK(ddp_checkpoint_wait(d, &e) == 0);
        ddp_checkpoint_status(d, &at);
        CHECK((int)at.n_committed == i && at.last_step == s.step);
    }
    for (int i = 1; i <= 2; i++) {
        CHECK(ddp_state_save(d, dir, "{\"n\": 3}", &e) == 0);
        CHECK(ddp_state_torn(d, i == 1 ? "n is 4" : NULL, &e) == 0 && ddp_checkpoint_wait(d, &e) == 0);
        ddp_checkpoint_status(d, &at);
        CHECK((int)at.n_failed == i && at.n_committed == 2);
        CHECK(ddp_world(d)->rank > 0 || strstr(at.warning, i == 1 ? "n is 4" : "its tensors have changed"));
    }
    return 0;
}
