/* gpumodel.c - where the time of a training step on a GPU goes, by kernel and by matrix product.
 *
 * It trains a GPT-2 in bfloat16 by the trainer's own model and by libddp's own step, alone, on tokens drawn as words
 * are (the r-th most frequent in proportion to 1 / r). First a trial step, every call waited for; then steps that
 * nothing disturbs, timed as a whole; then as many with an event before and behind each call. So a call is timed where
 * it stands in a step, with what lies in the caches there.
 *
 * An entry's limit is the time of the larger of bytes over the bandwidth of a copy, which is measured first, and FLOP
 * over the GPU's peak (gpumodel_wrap.c says which bytes and FLOP). The table begins with what loses most against its
 * limit in a step: there the next gain is to be had.
 *
 * A call that fails is told, and the step goes on. One that breaks the GPU ends the process that has met it, a child of
 * this one; the next child leaves it out. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contrib/bench/gpumodel.h"
#include "contrib/bench/gpureport.h"
#include "runtime/base/clock.h"
#include "runtime/base/knob.h"
#include "runtime/ddp.h"
#include "runtime/train/gmodel_impl.h"

#ifdef DDP_CUDA_EMULATED
#define IS_EMULATED true
#define COPY_BYTES ((size_t)64 << 10)
#else
#define IS_EMULATED false
#define COPY_BYTES ((size_t)512 << 20)
#endif

#define HEAD 64     /* what attention in 16 bits has */
#define N_COPIES 20 /* timed; as many before them */
#define N_BROKEN 8  /* calls that may break the GPU */
#define WAIT_S 60
#define SEED 42

enum { LAYERS, WIDTH, CONTEXT, VOCAB, BATCH, NO_WGMMA, ITERATIONS, JSON, N_KNOBS };
static const struct knob knobs[N_KNOBS] = {
    [LAYERS] = {.name = "--layers", .type = KNOB_INT, .def = "12", .min = 1, .max = 1000,
                .help = "blocks of the GPT-2"},
    [WIDTH] = {.name = "--width", .type = KNOB_INT, .def = "768", .min = HEAD, .max = 1 << 16,
               .help = "its width, in heads of 64"},
    [CONTEXT] = {.name = "--context", .type = KNOB_INT, .def = "1024", .min = 1, .max = 1 << 20,
                 .help = "its positions"},
    [VOCAB] = {.name = "--vocab", .type = KNOB_INT, .def = "50257", .min = 2, .max = 1 << 20, .help = "its vocabulary"},
    [BATCH] = {.name = "--batch", .type = KNOB_INT, .def = "64", .min = 1, .max = 1 << 20, .help = "samples of a step"},
    [NO_WGMMA] = {.name = "--no-wgmma", .type = KNOB_BOOL, .def = "off",
                  .help = "attention as `train --no-wgmma` has it"},
    [ITERATIONS] = {.name = "-n", .type = KNOB_INT, .def = "5", .min = 1, .max = 10000,
                    .help = "timed steps, as a whole, and as many by call"},
    [JSON] = {.name = "--json", .type = KNOB_STRING, .help = "a file for a JSON object per entry"},
};

struct bench {
    struct knob_value v[N_KNOBS];
    struct gmodel_config c;
    ddp_t *ddp;
    struct ddp_device about;
    gmodel_t *model;
    device_t *device;
    device_stream_t *stream;   /* the model's */
    device_event_t *from, *to;
    int32_t *tokens;           /* [batch, context + 1] */
    double *copy_ms, *step_ms; /* [N_COPIES], [-n] */
    size_t n_steps, n_passes;  /* done: as a whole, and by call */
};

/* ---- opening ---- */

/* Log-uniform: the r-th word as often as 1 / r says. */
static int draw_tokens(struct bench *b, ddp_error_t *errp)
{
    size_t n = b->c.batch * (b->c.model.context + 1);
    double vocab = (double)b->c.model.vocab;
    unsigned short state[3] = {SEED, 0, 0};
    b->tokens = calloc(n, sizeof *b->tokens);
    if (!b->tokens)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        double r = exp(erand48(state) * log(vocab));
        b->tokens[i] = (int32_t)(r < vocab ? r : vocab) - 1;
    }
    return 0;
}

static int open_gpu(struct bench *b, ddp_error_t *errp)
{
    b->ddp = ddp_init(NULL, NULL, errp);
    if (!b->ddp)
        return -1;
    if (ddp_world(b->ddp)->size > 1)
        return error_set(errp, DDP_E_USAGE, EINVAL, "gpumodel is for one GPU: start it alone, without `ddp run`");
    if (ddp_option(b->ddp, "device", "cuda", errp) < 0 || ddp_device(b->ddp, &b->about, errp) < 0)
        return -1;
    b->device = device_open(b->about.ordinal, 0, errp);
    b->from = b->device ? device_event_create(b->device, true, errp) : NULL;
    b->to = b->from ? device_event_create(b->device, true, errp) : NULL;
    if (!b->to)
        return -1;
    calls_open(b->device);
    return 0;
}

/* As struct loop_model has them. */
static int bind(void *self, const struct ddp_param *tensor, ddp_error_t *errp)
{
    struct bench *b = self;
    size_t n;
    const struct loop_param *param = gmodel_params(b->model, &n);
    return gmodel_bind(b->model, tensor, errp) < 0 ? -1 : calls_name(param, tensor, n, errp);
}

static void init(void *self, uint64_t seed, size_t id, float *ret)
{
    const struct bench *b = self;
    size_t n;
    model_params_init(&b->c.model, gmodel_params(b->model, &n), id, seed, ret);
}

static int open_model(struct bench *b, ddp_error_t *errp)
{
    const struct ddp_optimizer opt = {.rule = "adamw", .lr = 1e-4f, .min_lr = 1e-4f, .beta1 = 0.9f, .beta2 = 0.95f,
                                      .eps = 1e-8f, .weight_decay = 0.1f, .clip = 1, .total = 1000000};
    struct loop_model m = {.self = b, .bind = bind, .init = init};
    b->model = gmodel_create(&b->c, errp);
    if (!b->model)
        return -1;
    m.param = gmodel_params(b->model, &m.n_params);
    m.stream = gmodel_stream(b->model);
    calls_program(m.stream);
    b->stream = device_stream_borrow(b->device, m.stream, errp);
    if (!b->stream || loop_prepare(b->ddp, &m, &opt, SEED, errp) < 0)
        return -1;
    /* what a call that is left out does not write is 0, and no NaN: a step that has one ends without its update */
    if (device_fill(b->stream, b->model->arena, 0, gmodel_activation_bytes(&b->c) - CUDA_BLAS_WORKSPACE, errp) < 0)
        return -1;
    return ddp_data_open(b->ddp, 1000 * b->c.batch, b->c.batch, 1, 0, SEED, errp);
}

/* ---- measuring ---- */

static int mark(struct bench *b, device_stream_t *s, device_event_t *e, ddp_error_t *errp)
{
    return device_event_record(e, s ? s : b->stream, errp);
}

/* Milliseconds between the two events, the second of which is waited for. */
static int between(struct bench *b, double *ret_ms, ddp_error_t *errp)
{
    return device_event_wait(b->to, deadline_in(WAIT_S), NULL, NULL, errp) < 0
               ? -1
               : device_event_ms(b->from, b->to, ret_ms, errp);
}

static int measure_copy(struct bench *b, ddp_error_t *errp)
{
    device_stream_t *s = device_stream_create(b->device, DEVICE_NORMAL, errp);
    char *a = s ? device_malloc(b->device, COPY_BYTES, "a copy", errp) : NULL;
    char *to = a ? device_malloc(b->device, COPY_BYTES, "a copy", errp) : NULL;
    int rc = to && device_fill(s, a, 0x3c, COPY_BYTES, errp) == 0 ? 0 : -1;
    for (int i = -N_COPIES; i < N_COPIES && rc == 0; i++) {
        double ms;
        rc = mark(b, s, b->from, errp) < 0 || device_copy(s, to, a, COPY_BYTES, DEVICE_WITHIN, errp) < 0 ||
                     mark(b, s, b->to, errp) < 0 || between(b, &ms, errp) < 0
                 ? -1
                 : 0;
        if (rc == 0 && i >= 0)
            b->copy_ms[i] = ms;
    }
    device_free(b->device, a);
    device_free(b->device, to);
    device_stream_destroy(s);
    return rc;
}

static void grad_ready(void *ctx, int id)
{
    ddp_grad_ready(ctx, id);
}

static int step(struct bench *b, ddp_error_t *errp)
{
    struct ddp_batch batch;
    struct ddp_step done;
    double loss;
    return ddp_batch_next(b->ddp, &batch, errp) < 0 ||
                   gmodel_forward_backward(b->model, b->tokens, b->c.batch, batch.grad_scale, grad_ready, b->ddp, &loss,
                                           errp) < 0 ||
                   ddp_backward_end(b->ddp, loss, b->c.batch * b->c.model.context, errp) < 0
               ? -1
               : ddp_step(b->ddp, &done, errp);
}

/* The trial is the warm-up, too; then one more, as the trial has waited for every call. */
static int measure_steps(struct bench *b, ddp_error_t *errp)
{
    size_t n = (size_t)b->v[ITERATIONS].i;
    calls_set(CALLS_TRIAL);
    if (step(b, errp) < 0)
        return -1;
    calls_set(CALLS_UNTIMED);
    if (step(b, errp) < 0)
        return -1;
    for (; b->n_steps < n; b->n_steps++)
        if (mark(b, NULL, b->from, errp) < 0 || step(b, errp) < 0 || mark(b, NULL, b->to, errp) < 0 ||
            between(b, &b->step_ms[b->n_steps], errp) < 0)
            return -1;
    calls_set(CALLS_TIMED);
    for (; b->n_passes < n; b->n_passes++)
        if (step(b, errp) < 0 || calls_collect(errp) < 0)
            return -1;
    return 0;
}

/* ---- telling ---- */

static double report_copy(struct bench *b)
{
    struct stats ms = stats_of(b->copy_ms, N_COPIES);
    double to_gbps = 2e-6 * (double)COPY_BYTES;
    struct stats s = {.median = to_gbps / ms.median, .q1 = to_gbps / ms.q3, .q3 = to_gbps / ms.q1};
    report_entry(&(struct report_entry){.what = "a copy", .unit = "GB/s", .stats = s});
    return s.median * 1e9;
}

static int report(struct bench *b, ddp_error_t *errp)
{
    const struct model_config *m = &b->c.model;
    char title[400], peak[64] = "whose peak is not known";
    if (b->about.peak_flops > 0)
        snprintf(peak, sizeof peak, "peak %.4g TFLOP/s", b->about.peak_flops * 1e-12);
    snprintf(title, sizeof title,
             "A step of a GPT-2, batch %zu, context %zu, width %zu, %zu layers, vocabulary %zu, on %.40s, %s, %s: "
             "ms of a call, warm as in a step", b->c.batch, m->context, m->width, m->layers, m->vocab, b->about.name,
             peak, gmodel_products(b->model));
    if (report_begin(b->v[JSON].is_set ? b->v[JSON].text : NULL, IS_EMULATED, title, errp) < 0)
        return -1;
    double bytes_per_s = report_copy(b);
    if (b->n_steps > 0)
        report_entry(&(struct report_entry){.what = "a step, no call timed", .unit = "ms",
                                            .stats = stats_of(b->step_ms, b->n_steps)});
    int n_failed = calls_report(bytes_per_s, b->about.peak_flops, b->n_passes ? b->n_passes : 1);
    if (report_end(errp) < 0)
        return -1;
    return n_failed ? error_set(errp, DDP_E_SYSTEM, EIO, "%d entries of a step failed: the table says why", n_failed)
                    : 0;
}

static void close_all(struct bench *b)
{
    calls_close();
    device_event_destroy(b->from);
    device_event_destroy(b->to);
    device_stream_destroy(b->stream);
    ddp_finalize(b->ddp);
    gmodel_destroy(b->model);
    device_close(b->device);
    free(b->tokens);
    free(b->copy_ms);
    free(b->step_ms);
}

/* Where steps end early, the table has what was measured until then. */
static int run(struct bench *b, ddp_error_t *errp)
{
    const char *why;
    ddp_error_t later; /* what came first is told */
    b->copy_ms = calloc(N_COPIES, sizeof *b->copy_ms);
    b->step_ms = calloc((size_t)b->v[ITERATIONS].i, sizeof *b->step_ms);
    if (!b->copy_ms || !b->step_ms)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the times");
    if (draw_tokens(b, errp) < 0 || open_gpu(b, errp) < 0 || measure_copy(b, errp) < 0 || open_model(b, errp) < 0)
        return -1;
    int rc = measure_steps(b, errp);
    if (calls_broken(&why))
        return -1;
    return report(b, rc < 0 ? &later : errp) < 0 ? -1 : rc;
}

/* ---- processes ---- */

struct broken {
    char what[80], why[400];
};

/* The child. To `told`: the call that has broken the GPU; with that GPU nothing can be closed. */
static int measure(struct bench *b, int told)
{
    ddp_error_t e = {0};
    struct broken broken = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int rc = run(b, &e);
    const char *why, *what = calls_broken(&why);
    if (what) {
        snprintf(broken.what, sizeof broken.what, "%s", what);
        snprintf(broken.why, sizeof broken.why, "%s", why);
        ssize_t n = write(told, &broken, sizeof broken);
        fflush(NULL);
        _exit(n == (ssize_t)sizeof broken ? 0 : 1);
    }
    if (rc < 0)
        fprintf(stderr, "gpumodel: %s\n", e.text);
    close_all(b);
    return rc < 0;
}

/* Of a child that has ended. */
static int code_of(pid_t child)
{
    int status;
    if (waitpid(child, &status, 0) != child)
        return EXIT_FAILURE;
    if (WIFSIGNALED(status))
        fprintf(stderr, "gpumodel: ended by signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

/* One child. *ret: what has broken its GPU, or no name. Returns the exit code. */
static int measure_apart(struct bench *b, struct broken *ret)
{
    int ends[2];
    fflush(NULL);
    pid_t child = pipe(ends) < 0 ? -1 : fork();
    if (child < 0) {
        perror("gpumodel: no child");
        return EXIT_FAILURE;
    }
    if (child == 0) {
        close(ends[0]);
        exit(measure(b, ends[1]));
    }
    close(ends[1]);
    if (read(ends[0], ret, sizeof *ret) != (ssize_t)sizeof *ret)
        *ret = (struct broken){0};
    close(ends[0]);
    return code_of(child);
}

int main(int argc, char **argv)
{
    static struct bench b;
    ddp_error_t e = {0};
    int rc = knob_argv(knobs, N_KNOBS, "--help", argc, argv, b.v, NULL, &e);
    if (rc == 1) {
        printf("usage: gpumodel [OPTION...]\nTimes every kernel and every product of a training step on a GPU, and "
               "says how far each is from its limit.\n");
        knob_help(stdout, knobs, N_KNOBS);
        return 0;
    }
    if (rc < 0) {
        fprintf(stderr, "gpumodel: %s\n", e.text);
        return EXIT_FAILURE;
    }
    b.c = (struct gmodel_config){.model = {.layers = (size_t)b.v[LAYERS].i, .width = (size_t)b.v[WIDTH].i,
                                           .heads = (size_t)b.v[WIDTH].i / HEAD, .context = (size_t)b.v[CONTEXT].i,
                                           .vocab = (size_t)b.v[VOCAB].i},
                                 .batch = (size_t)b.v[BATCH].i, .dtype = DDP_BF16, .wgmma = !b.v[NO_WGMMA].b,
                                 .timeout_s = WAIT_S};
    for (int i = 0; i < N_BROKEN; i++) {
        struct broken broken;
        rc = measure_apart(&b, &broken);
        if (!broken.what[0])
            return rc;
        fprintf(stderr, "gpumodel: %s broke the GPU, and is left out from here on: %s\n", broken.what, broken.why);
        calls_leave_out(broken.what, broken.why);
    }
    fprintf(stderr, "gpumodel: %d calls broke the GPU: the rest is not measured\n", N_BROKEN);
    return EXIT_FAILURE;
}
