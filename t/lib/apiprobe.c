/* apiprobe.c - small libddp programs for shell tests, one per word: apiprobe CASE. Prints "ok" on every rank, or what is
 * wrong; exit code 1 then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    CHECK(ddp_option(d, "bucket-mb", "2", &e) == -1 && strstr(e.text, "after ddp_commit"));
    CHECK(ddp_metrics(d, &m) == 0 && m.steps == 0 && m.bytes_reduced == 0 && m.alpha_s == 0);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(ddp_t *d);
} cases[] = {
    {"allreduce", case_allreduce},
    {"options", case_options},
};

int main(int argc, char **argv)
{
    int rc = 2;
    ddp_t *d = ddp_init(&argc, &argv, &e);
    if (!d)
        return fprintf(stderr, "%s\n", e.text), 1;
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            rc = cases[i].run(d);
    if (rc == 0)
        puts("ok");
    ddp_finalize(d);
    return rc;
}
