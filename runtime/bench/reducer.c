/* reducer.c - `ddp bench reducer`: what the layer above all-reduce costs, and what it hides.
 *
 * A made-up model of N tensors of equal size, whose backward pass does a fixed amount of work before each of them is
 * ready. Every step has three micro-steps; the last sums its gradients over the ranks, the one before does not:
 *   exposed = sync - quiet       what communication costs a step (median over the steps, each of its own two)
 *   comm                         one plain all-reduce of as many bytes, with nothing else going on
 *   hidden  = 1 - exposed / comm
 * With --backward-ms 0 there is nothing to hide behind, and exposed / comm is our layer's time over raw all-reduce. */
#include <errno.h>
#include <stdlib.h>

#include "kernels/model/vector.h"
#include "runtime/base/error.h"
#include "runtime/bench/bench.h"

enum { TENSORS, MEBIBYTES, BACKWARD_MS, STEPS, WARMUP, JSON, N_KNOBS };

#define ACCUM 3
#define WORK_ELEMS 2048 /* one unit of work adds so many floats, within the nearest cache */
#define N_COMM 9

static const struct knob knobs[N_KNOBS] = {
    [TENSORS] = {.name = "--tensors", .type = KNOB_INT, .def = "100", .min = 1, .max = 100000, .help = "tensors"},
    [MEBIBYTES] = {.name = "--mb", .type = KNOB_DOUBLE, .def = "50", .min = 0.001, .max = 65536,
                   .help = "their size altogether, in MiB"},
    [BACKWARD_MS] = {.name = "--backward-ms", .type = KNOB_DOUBLE, .def = "100", .max = 60000,
                     .help = "how long a backward pass computes"},
    [STEPS] = {.name = "--steps", .type = KNOB_INT, .def = "30", .min = 1, .max = 1000000, .help = "timed steps"},
    [WARMUP] = {.name = "--warmup", .type = KNOB_INT, .def = "12", .max = 1000000,
                .help = "steps before them, in which buckets are planned"},
    [JSON] = {.name = "--json", .type = KNOB_BOOL, .def = "off", .help = "print JSON, with every digit"},
};

struct bench {
    ddp_t *d;
    struct knob_value v[N_KNOBS];
    int n_tensors;
    size_t tensor_elems, n_steps;
    uint64_t units; /* of work before each tensor */
    float work[2][WORK_ELEMS];
    double *quiet, *sync, *exposed; /* [n_steps] */
    double comm[N_COMM];
};

static void do_work(struct bench *b, uint64_t units)
{
    for (uint64_t i = 0; i < units; i++)
        kernel_add(b->work[0], b->work[0], b->work[1], WORK_ELEMS);
}

/* Units of work in so many seconds, by the best of some tries: a rank that was interrupted must not get less to do. */
static uint64_t calibrate(struct bench *b, double seconds)
{
    const uint64_t probe = 2000;
    double best = 0;
    do_work(b, probe);
    for (int i = 0; i < 20; i++) {
        double start = bench_now_s();
        do_work(b, probe);
        double took = bench_now_s() - start;
        best = i == 0 || took < best ? took : best;
    }
    return (uint64_t)(seconds / best * (double)probe);
}

static int open_model(struct bench *b, ddp_error_t *errp)
{
    struct ddp_optimizer opt = {.rule = "sgd", .lr = 1e-3f};
    for (int i = 0; i < b->n_tensors; i++) {
        char name[32];
        snprintf(name, sizeof name, "tensor.%d", i);
        ddp_param_add(b->d, name, DDP_F32, &b->tensor_elems, 1, 0);
    }
    return ddp_commit(b->d, &opt, errp) < 0 || ddp_data_open(b->d, 1 << 20, 1, ACCUM, 0, 42, errp) < 0 ? -1 : 0;
}

static int micro_step(struct bench *b, bool *ret_sync, double *ret_s, ddp_error_t *errp)
{
    struct ddp_batch batch;
    if (ddp_batch_next(b->d, &batch, errp) < 0)
        return -1;
    double start = bench_now_s();
    for (int i = b->n_tensors - 1; i >= 0; i--) {
        do_work(b, b->units);
        ddp_grad_ready(b->d, i);
    }
    if (ddp_backward_end(b->d, 0, 1, errp) < 0)
        return -1;
    *ret_s = bench_now_s() - start;
    *ret_sync = batch.sync;
    return 0;
}

static int step(struct bench *b, double *ret_quiet, double *ret_sync, ddp_error_t *errp)
{
    double took[ACCUM];
    bool sync = false;
    struct ddp_step s;
    if (ddp_barrier(b->d, errp) < 0)
        return -1;
    for (int k = 0; !sync && k < ACCUM; k++)
        if (micro_step(b, &sync, &took[k], errp) < 0)
            return -1;
    *ret_quiet = took[ACCUM - 2];
    *ret_sync = took[ACCUM - 1];
    return ddp_step(b->d, &s, errp);
}

static int slowest(struct bench *b, double *x, size_t n, ddp_error_t *errp)
{
    ddp_work_t *w = ddp_allreduce(b->d, x, n, DDP_F64, DDP_MAX, errp);
    return w ? ddp_wait(w, errp) : -1;
}

static int time_steps(struct bench *b, ddp_error_t *errp)
{
    double ignored[2];
    for (int64_t i = 0; i < b->v[WARMUP].i; i++)
        if (step(b, &ignored[0], &ignored[1], errp) < 0)
            return -1;
    for (size_t i = 0; i < b->n_steps; i++)
        if (step(b, &b->quiet[i], &b->sync[i], errp) < 0)
            return -1;
    if (slowest(b, b->quiet, b->n_steps, errp) < 0 || slowest(b, b->sync, b->n_steps, errp) < 0)
        return -1;
    for (size_t i = 0; i < b->n_steps; i++)
        b->exposed[i] = b->sync[i] - b->quiet[i];
    return 0;
}

static int time_comm(struct bench *b, ddp_error_t *errp)
{
    size_t n = (size_t)b->n_tensors * b->tensor_elems;
    float *data = ddp_alloc(b->d, n * sizeof *data, errp);
    if (!data)
        return -1;
    for (int i = -2; i < N_COMM; i++) {
        if (ddp_barrier(b->d, errp) < 0)
            return -1;
        double start = bench_now_s();
        ddp_work_t *w = ddp_allreduce(b->d, data, n, DDP_F32, DDP_SUM, errp);
        if (!w || ddp_wait(w, errp) < 0)
            return -1;
        if (i >= 0)
            b->comm[i] = bench_now_s() - start;
    }
    return slowest(b, b->comm, N_COMM, errp);
}

struct result {
    struct stats quiet, sync, exposed, comm;
    double hidden;
    struct ddp_metrics metrics;
};

static void print_line(const char *name, struct stats s)
{
    printf("%-10s %10.3f  %9.3f .. %.3f\n", name, s.median * 1e3, s.q1 * 1e3, s.q3 * 1e3);
}

static void print_table(const struct bench *b, const struct result *r)
{
    const struct ddp_world *w = ddp_world(b->d);
    printf("# %d ranks on %d nodes; %d tensors of %zu bytes, %d buckets; %zu steps after %lld; milliseconds\n"
           "%-10s %10s  %9s\n",
           w->size, w->n_nodes, b->n_tensors, b->tensor_elems * sizeof(float), r->metrics.n_buckets, b->n_steps,
           (long long)b->v[WARMUP].i, "#", "median", "quartiles");
    print_line("quiet", r->quiet);
    print_line("sync", r->sync);
    print_line("exposed", r->exposed);
    print_line("comm", r->comm);
    printf("# exposed / comm %.3f; hidden %.1f%%\n", 1 - r->hidden, 100 * r->hidden);
}

static void print_json(const struct bench *b, const struct result *r)
{
    const struct ddp_world *w = ddp_world(b->d);
    printf("{\"bench\": \"reducer\", \"ranks\": %d, \"nodes\": %d, \"tensors\": %d, \"bytes\": %zu, \"buckets\": %d, "
           "\"alpha_s\": %.9g, \"beta_s_per_byte\": %.9g, ", w->size, w->n_nodes, b->n_tensors,
           (size_t)b->n_tensors * b->tensor_elems * sizeof(float), r->metrics.n_buckets, r->metrics.alpha_s,
           r->metrics.beta_s_per_byte);
    bench_json_stats(stdout, "quiet_s", r->quiet, 1);
    printf(", ");
    bench_json_stats(stdout, "sync_s", r->sync, 1);
    printf(", ");
    bench_json_stats(stdout, "exposed_s", r->exposed, 1);
    printf(", ");
    bench_json_stats(stdout, "comm_s", r->comm, 1);
    printf(", \"hidden\": %.9g}\n", r->hidden);
}

static int measure(struct bench *b, ddp_error_t *errp)
{
    struct result r;
    if (time_steps(b, errp) < 0 || ddp_metrics(b->d, &r.metrics) < 0 || time_comm(b, errp) < 0)
        return -1;
    r.quiet = stats_of(b->quiet, b->n_steps);
    r.sync = stats_of(b->sync, b->n_steps);
    r.exposed = stats_of(b->exposed, b->n_steps);
    r.comm = stats_of(b->comm, N_COMM);
    r.hidden = 1 - r.exposed.median / r.comm.median;
    if (ddp_world(b->d)->rank == 0)
        (b->v[JSON].b ? print_json : print_table)(b, &r);
    return 0;
}

static int prepare(struct bench *b, ddp_error_t *errp)
{
    double elems = b->v[MEBIBYTES].d * (1 << 20) / sizeof(float);
    b->n_tensors = (int)b->v[TENSORS].i;
    b->n_steps = (size_t)b->v[STEPS].i;
    b->tensor_elems = (size_t)(elems / b->n_tensors);
    if (!b->tensor_elems)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--mb=%g is less than one element for each of --tensors=%d: take "
                         "more or fewer", b->v[MEBIBYTES].d, b->n_tensors);
    b->quiet = bench_private(3 * b->n_steps * sizeof *b->quiet, errp);
    if (!b->quiet || open_model(b, errp) < 0)
        return -1;
    b->sync = b->quiet + b->n_steps;
    b->exposed = b->sync + b->n_steps;
    b->units = calibrate(b, b->v[BACKWARD_MS].d / 1e3) / (uint64_t)b->n_tensors;
    return 0;
}

static int run(ddp_t *d, int argc, char **argv, ddp_error_t *errp)
{
    struct bench b = {.d = d};
    int rc = knob_argv(knobs, N_KNOBS, "\"ddp bench reducer --help\"", argc, argv, b.v, NULL, errp);
    if (rc == 0)
        rc = prepare(&b, errp);
    if (rc == 0)
        rc = measure(&b, errp);
    free(b.quiet);
    return rc;
}

static void help(FILE *f)
{
    fprintf(f, "usage: ddp bench reducer [OPTION...]\n"
               "A made-up backward pass with and without summing its gradients, beside a plain all-reduce of as many\n"
               "bytes: what communication costs a step, and which share of it is hidden. --ddp-bucket-mb=25 fixes the\n"
               "buckets, else they are planned.\n\n");
    knob_help(f, knobs, N_KNOBS);
}

const struct bench_verb bench_reducer = {"reducer", "share of communication hidden behind a backward pass", run, help};
