/* gpuprobe.c - training steps whose gradients are made up, on the processor or on a GPU: what libddp makes of them must
 * be the same bits.
 *
 * gpuprobe STEPS [KEY=VALUE]...   prints each step and a hash of all values; exit code 0, or 1 with the error.
 *   accum=N    micro-steps                 unused=on  parameter 1 is used in odd steps alone
 *   nan=S      step S has a NaN            clip=X     sgd=on
 *   shards=V   logical shards, whose gradients depend on their numbers alone
 *   hook=on    the program sets one, which computes on the processor
 *   join=on    odd ranks have no data from step 2 on
 *   ckpt=DIR   goes on from there, to step STEPS, and saves there: prints "resumed STEP", a hash, and in the end
 *              "status COMMITTED FAILED LAST" and on rank 0 "warning TEXT"; exit code 75 where it stopped
 *   wait=on    each checkpoint is waited for      stop=S  SIGTERM in the first micro-step of step S
 *   load=DIR   values from there
 *   f16=on     values are kept in float16, not in bfloat16
 *   pad=on     parameters have DDP_PAD_ROWS, and something is left in the rows behind each gradient
 * --ddp-device=cpu|cuda says where. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/ddp.h"

enum { PARAMS = 5 };
static const size_t shape[PARAMS][2] = {{3, 1}, {57, 163}, {4096, 1}, {129, 64}, {1, 1}};

struct probe {
    ddp_t *ddp;
    bool is_gpu;
    cudaStream_t stream;
    float *host[PARAMS]; /* on a GPU: gradients as they were and will be, pinned */
    float *value;        /* of the largest parameter */
    uint16_t *kept;      /* its values in 16 bits */
    char *behind;        /* what lies behind a parameter */
    int accum, nan_step, stop_step, shards;
    bool unused, join, wait, hook, f16, pad;
    const char *ckpt, *load; /* NULL: none */
};

static ddp_error_t e;

static int fail(const char *what)
{
    fprintf(stderr, "gpuprobe: %s\n", what);
    return -1;
}

/* Numbers of many magnitudes, the same wherever and whenever. */
static float number(uint64_t a, uint64_t b)
{
    uint64_t h = hash_step(hash_step(HASH_START, (uint32_t)a), (uint32_t)b);
    return (float)((double)(int64_t)h * 0x1p-63) * ldexpf(1, (int)(h % 13) - 6);
}

/* What is there of gradients, zeros or an earlier micro-step's. */
static int read_gradients(struct probe *p)
{
    for (int id = 0; p->is_gpu && id < PARAMS; id++) {
        struct ddp_param t = ddp_param_get(p->ddp, id);
        if (cudaMemcpyAsync(p->host[id], t.grad, t.n_elems * sizeof(float), cudaMemcpyDeviceToHost, p->stream))
            return fail("a gradient cannot be read");
    }
    return p->is_gpu && cudaStreamSynchronize(p->stream) ? fail("the stream failed") : 0;
}

/* Elements of parameter id, and of the rows behind it. */
static size_t n_with_rows(int id)
{
    return (shape[id][0] + DDP_PAD_MULTIPLE - 1) / DDP_PAD_MULTIPLE * DDP_PAD_MULTIPLE * shape[id][1];
}

/* 0x44444444 is 785 and a bit. */
static int leave_in_rows_behind(struct probe *p, const struct ddp_param *t, int id)
{
    float *at = (float *)t->grad + t->n_elems;
    size_t n = (n_with_rows(id) - t->n_elems) * sizeof *at;
    if (p->is_gpu)
        return cudaMemsetAsync(at, 0x44, n, p->stream) ? fail("rows behind a gradient cannot be written") : 0;
    memset(at, 0x44, n);
    return 0;
}

/* Adds this micro-step's gradient of parameter id; on a GPU it is there when the stream has come so far. */
static int add_gradient(struct probe *p, int id, uint64_t seed, bool is_nan)
{
    struct ddp_param t = ddp_param_get(p->ddp, id);
    float *at = p->is_gpu ? p->host[id] : t.grad;
    for (size_t i = 0; i < t.n_elems; i++)
        at[i] += number(seed * PARAMS + (uint64_t)id, i);
    if (is_nan)
        at[t.n_elems / 2] = NAN;
    if (p->is_gpu && cudaMemcpyAsync(t.grad, at, t.n_elems * sizeof(float), cudaMemcpyHostToDevice, p->stream))
        return fail("a gradient cannot be written");
    return p->pad ? leave_in_rows_behind(p, &t, id) : 0;
}

static int micro_step(struct probe *p, int step, int micro, bool *ret_sync)
{
    const struct ddp_world *w = ddp_world(p->ddp);
    struct ddp_batch b;
    if (ddp_batch_next(p->ddp, &b, &e) < 0)
        return -1;
    *ret_sync = b.sync;
    if (step == p->stop_step && micro == 0)
        raise(SIGTERM);
    if (read_gradients(p) < 0)
        return -1;
    for (int id = PARAMS - 1; id >= 0; id--) {
        uint64_t who = (uint64_t)(p->shards ? b.shard : w->rank),
                 seed = ((uint64_t)step * 16 + (uint64_t)micro) * 64 + who;
        seed = p->shards ? (uint64_t)step * 64 + who : seed;
        if (p->unused && id == 1 && step % 2 == 0) {
            ddp_grad_unused(p->ddp, id);
            continue;
        }
        if (add_gradient(p, id, seed, step == p->nan_step && id == 3 && w->rank == w->size - 1) < 0)
            return -1;
        ddp_grad_ready(p->ddp, id);
    }
    return ddp_backward_end(p->ddp, (double)number(77, (uint64_t)(step + (p->shards ? b.shard : w->rank))), 3, &e);
}

static int one_step(struct probe *p, int step, struct ddp_step *s)
{
    bool sync = false;
    for (int micro = 0; !sync; micro++)
        if (micro_step(p, step, micro, &sync) < 0)
            return -1;
    if (ddp_step(p->ddp, s, &e) < 0)
        return -1;
    if (!s->cut)
        printf("step %d loss %a norm %a%s\n", step, s->loss, s->grad_norm, s->skipped ? " skipped" : "");
    if (p->ckpt && (s->checkpoint || s->stop) && ddp_checkpoint(p->ddp, p->ckpt, &e) < 0)
        return -1;
    return p->wait ? ddp_checkpoint_wait(p->ddp, &e) : 0;
}

static bool is_bf16_of(uint16_t h, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return h == (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Of the numbers with these bits, none is nearer; of two, it is the even one. Values here are far from infinite. */
static bool is_f16_of(uint16_t h, float value)
{
    double away[3];
    for (int i = 0; i < 3; i++) {
        int bits = (h & 0x7fff) + i - 1, exponent = bits >> 10;
        double size = exponent ? ldexp(1024 + bits % 1024, exponent - 25) : ldexp(bits, -24);
        away[i] = bits < 0 ? INFINITY : fabs(fabs((double)value) - size);
    }
    return (!signbit(value) == !(h & 0x8000)) && away[1] <= away[0] && away[1] <= away[2] &&
           ((away[1] != away[0] && away[1] != away[2]) || h % 2 == 0);
}

/* The value in 16 bits is what the value rounds to. */
static int check_kept(struct probe *p, const struct ddp_param *t)
{
    if (!p->is_gpu)
        return 0;
    if (!t->copy || t->copy_dtype != (p->f16 ? DDP_F16 : DDP_BF16) || cudaStreamSynchronize(p->stream) ||
        cudaMemcpy(p->kept, t->copy, t->n_elems * sizeof *p->kept, cudaMemcpyDeviceToHost))
        return fail("no values in 16 bits, or in the other type");
    for (size_t i = 0; i < t->n_elems; i++)
        if (!(p->f16 ? is_f16_of : is_bf16_of)(p->kept[i], p->value[i]))
            return fail("a value in 16 bits is another one");
    return 0;
}

static bool are_zeros(struct probe *p, const void *at, size_t n)
{
    size_t i = 0;
    if (p->is_gpu && (cudaStreamSynchronize(p->stream) || cudaMemcpy(p->behind, at, n, cudaMemcpyDeviceToHost)))
        return false;
    if (!p->is_gpu)
        memcpy(p->behind, at, n);
    while (i < n && p->behind[i] == 0)
        i++;
    return i == n;
}

static int check_rows_behind(struct probe *p, const struct ddp_param *t, int id)
{
    size_t n = n_with_rows(id) - t->n_elems;
    if (!p->pad || n == 0)
        return 0;
    if (!are_zeros(p, (float *)t->value + t->n_elems, n * sizeof(float)) ||
        (t->copy && !are_zeros(p, (uint16_t *)t->copy + t->n_elems, n * sizeof(uint16_t))))
        return fail("what lies behind a value is not zero");
    return 0;
}

static int print_hash(struct probe *p)
{
    uint64_t hash = HASH_START;
    for (int id = 0; id < PARAMS; id++) {
        struct ddp_param t = ddp_param_get(p->ddp, id);
        if (ddp_param_read(p->ddp, id, p->value, &e) < 0 || check_kept(p, &t) < 0 ||
            check_rows_behind(p, &t, id) < 0)
            return -1;
        for (size_t i = 0; i < t.n_elems; i++) {
            uint32_t word;
            memcpy(&word, &p->value[i], sizeof word);
            hash = hash_step(hash, word);
        }
    }
    printf("values %016" PRIx64 "\n", hash);
    return 0;
}

static int open_memory(struct probe *p)
{
    size_t most = 0;
    for (int id = 0; id < PARAMS; id++)
        most = n_with_rows(id) > most ? n_with_rows(id) : most;
    p->value = calloc(most, sizeof *p->value);
    p->kept = calloc(most, sizeof *p->kept);
    p->behind = calloc(most, sizeof(float));
    if (!p->value || !p->kept || !p->behind)
        return fail("no memory");
    if (p->is_gpu && cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking))
        return fail("no stream");
    for (int id = 0; p->is_gpu && id < PARAMS; id++)
        if (cudaHostAlloc((void **)&p->host[id], shape[id][0] * shape[id][1] * sizeof(float), cudaHostAllocDefault))
            return fail("no pinned memory");
    return 0;
}

/* Values are rank 0's. */
static int fill_values(struct probe *p)
{
    for (int id = 0; ddp_world(p->ddp)->rank == 0 && id < PARAMS; id++) {
        for (size_t i = 0; i < shape[id][0] * shape[id][1]; i++)
            p->value[i] = number(1000 + (uint64_t)id, i);
        if (ddp_param_write(p->ddp, id, p->value, &e) < 0)
            return -1;
    }
    return ddp_sync_params(p->ddp, &e);
}

/* Values from `load`, or made up. */
static int begin(struct probe *p)
{
    return p->load ? ddp_load(p->ddp, p->load, NULL, &e) : fill_values(p);
}

/* Where there is a checkpoint. */
static int resume(struct probe *p)
{
    int rc = p->ckpt ? ddp_resume(p->ddp, p->ckpt, &e) : 0;
    if (rc > 0)
        printf("resumed %d\n", (int)ddp_steps_done(p->ddp));
    return rc > 0 ? print_hash(p) : rc;
}

static int train(struct probe *p, int steps)
{
    struct ddp_step s = {0};
    for (int step = (int)ddp_steps_done(p->ddp) + 1; step <= steps && !s.stop; step++) {
        if (p->join && step > 1 && ddp_world(p->ddp)->rank % 2)
            break;
        if (one_step(p, step, &s) < 0)
            return -1;
    }
    if (p->join && ddp_join(p->ddp, &e) < 0)
        return -1;
    return p->ckpt && ddp_checkpoint_wait(p->ddp, &e) < 0 ? -1 : s.stop;
}

static void print_status(const struct probe *p)
{
    struct ddp_checkpoint_status s;
    if (!p->ckpt || ddp_checkpoint_status(p->ddp, &s) < 0)
        return;
    printf("status %d %d %d\n", (int)s.n_committed, (int)s.n_failed, (int)s.last_step);
    if (*s.warning)
        printf("warning %s\n", s.warning);
}

static void leave_as_is(void *ctx, void *wire, const float *grad, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx, (void)info;
    memcpy(wire, grad, n * sizeof *grad);
}

static void take_as_is(void *ctx, float *grad, const void *wire, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx, (void)info;
    memcpy(grad, wire, n * sizeof *grad);
}

/* 1 where it was to stop. */
static int run(struct probe *p, int steps, const struct ddp_optimizer *opt)
{
    struct ddp_device device;
    if (ddp_device(p->ddp, &device, &e) < 0)
        return -1;
    p->is_gpu = device.is_gpu;
    if (open_memory(p) < 0 || ddp_stream(p->ddp, p->stream, &e) < 0)
        return -1;
    for (int id = 0; id < PARAMS; id++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", id);
        ddp_param_add(p->ddp, name, DDP_F32, shape[id], shape[id][1] > 1 ? 2 : 1,
                      (p->f16 ? DDP_KEEP_F16 : DDP_KEEP_BF16) | (p->pad ? DDP_PAD_ROWS : 0));
    }
    const struct ddp_hook hook = {.wire = DDP_F32, .encode = leave_as_is, .decode = take_as_is};
    if (p->hook && ddp_hook(p->ddp, &hook, &e) < 0)
        return -1;
    if (ddp_commit(p->ddp, opt, &e) < 0 || begin(p) < 0 || print_hash(p) < 0 ||
        ddp_data_open(p->ddp, 100000, 2, p->accum, p->shards, 1, &e) < 0 || resume(p) < 0)
        return -1;
    int rc = train(p, steps);
    if (rc < 0 || print_hash(p) < 0)
        return -1;
    print_status(p);
    return rc;
}

static void close_memory(struct probe *p)
{
    for (int id = 0; id < PARAMS; id++)
        cudaFreeHost(p->host[id]);
    if (p->stream)
        cudaStreamDestroy(p->stream);
    free(p->value);
    free(p->kept);
    free(p->behind);
}

static void set(struct probe *p, struct ddp_optimizer *opt, const char *arg)
{
    const char *value = strchr(arg, '=') ? strchr(arg, '=') + 1 : "";
    p->accum = strncmp(arg, "accum=", 6) ? p->accum : atoi(value);
    p->shards = strncmp(arg, "shards=", 7) ? p->shards : atoi(value);
    p->nan_step = strncmp(arg, "nan=", 4) ? p->nan_step : atoi(value);
    opt->clip = strncmp(arg, "clip=", 5) ? opt->clip : strtof(value, NULL);
    p->stop_step = strncmp(arg, "stop=", 5) ? p->stop_step : atoi(value);
    p->ckpt = strncmp(arg, "ckpt=", 5) ? p->ckpt : value;
    p->load = strncmp(arg, "load=", 5) ? p->load : value;
    p->f16 |= !strcmp(arg, "f16=on");
    p->pad |= !strcmp(arg, "pad=on");
    p->wait |= !strcmp(arg, "wait=on");
    p->hook |= !strcmp(arg, "hook=on");
    p->unused |= !strcmp(arg, "unused=on");
    p->join |= !strcmp(arg, "join=on");
    if (!strcmp(arg, "sgd=on"))
        opt->rule = "sgd";
}

int main(int argc, char **argv)
{
    struct ddp_optimizer opt = {.lr = .01f, .beta1 = .9f, .beta2 = .95f, .eps = 1e-8f, .weight_decay = .1f};
    opt.warmup = 2;
    struct probe p = {.accum = 1};
    p.ddp = ddp_init(&argc, &argv, &e);
    for (int i = 2; i < argc; i++)
        set(&p, &opt, argv[i]);
    int rc = p.ddp && argc > 1 ? run(&p, atoi(argv[1]), &opt) : -1;
    if (rc < 0) {
        fprintf(stderr, "gpuprobe: %s\n", e.text);
        ddp_abort(p.ddp, 1, e.text[0] ? e.text : "gpuprobe failed");
    }
    ddp_finalize(p.ddp); /* before the stream goes */
    close_memory(&p);
    return rc < 0 ? 1 : rc > 0 ? DDP_EXIT_STOPPED : 0;
}
