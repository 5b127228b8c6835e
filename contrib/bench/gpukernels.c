/* gpukernels.c - how near the kernels of libddp's step on a GPU come to what its memory can do.
 *
 * Each kernel runs over the tensors of a GPT-2, as ddp_step runs it, in turn with copies within the device's memory
 * that move as many bytes (a copy of n bytes moves 2 n). Both are timed by events, with cold caches: before each a fill
 * sweeps through memory that is larger than they are. ratio = time of the copy / time of the kernel: the share of a
 * copy's bandwidth that the kernel reaches. limit is the time of the copy: bytes over a copy's bandwidth. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/bench/gpureport.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/fold.h"
#include "kernels/cuda/optim.h"
#include "kernels/cuda/reduce.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/knob.h"
#include "runtime/device/device.h"

#ifdef DDP_CUDA_EMULATED
#define IS_EMULATED true
#else
#define IS_EMULATED false
#endif

#define GOAL 0.9
#define ALIGN_ELEMS 16 /* tensors begin at 64 bytes, as in libddp's arenas */
#define N_TERMS 8      /* of the sums over several arrays */
#define COLD_BYTES ((size_t)512 << 20)
#define WAIT_S 60

enum { DEVICE, LAYERS, WIDTH, CONTEXT, VOCAB, COPIES, ITERATIONS, WARMUP, JSON, N_KNOBS };
static const struct knob knobs[N_KNOBS] = {
    [DEVICE] = {.name = "--device", .type = KNOB_INT, .def = "0", .max = 1000, .help = "the GPU's number"},
    [LAYERS] = {.name = "--layers", .type = KNOB_INT, .def = "12", .min = 1, .max = 1000,
                .help = "blocks of the GPT-2 whose tensors are taken"},
    [WIDTH] = {.name = "--width", .type = KNOB_INT, .def = "768", .min = 1, .max = 1 << 16, .help = "its width"},
    [CONTEXT] = {.name = "--context", .type = KNOB_INT, .def = "1024", .min = 1, .max = 1 << 20,
                 .help = "its positions"},
    [VOCAB] = {.name = "--vocab", .type = KNOB_INT, .def = "50257", .min = 1, .max = 1 << 20, .help = "its vocabulary"},
    [COPIES] = {.name = "--copies", .type = KNOB_INT, .def = "2", .min = 1, .max = 1000, .help = "so many of it"},
    [ITERATIONS] = {.name = "-n", .type = KNOB_INT, .def = "30", .min = 1, .max = 100000,
                    .help = "timed iterations of each kernel"},
    [WARMUP] = {.name = "-w", .type = KNOB_INT, .def = "5", .max = 100000, .help = "iterations before them"},
    [JSON] = {.name = "--json", .type = KNOB_STRING, .help = "a file for a JSON object per kernel"},
};

struct bench {
    struct knob_value v[N_KNOBS];
    size_t *tensor, n_tensors; /* elements of each */
    size_t n_elems;            /* room for all, padded */
    device_t *device;
    device_stream_t *stream;
    device_event_t *event[4]; /* before and after the kernel, before and after the copy */
    float *value, *m, *v2, *grad; /* [n_elems] each, one behind the other */
    uint16_t *half, *copy;        /* [n_elems]: gradients as they travel; values in bfloat16 */
    double *sums;                 /* one per block of each tensor */
    char *other;                  /* copies go there, and it is filled */
    size_t other_bytes, n_sums;
    struct cuda_range *range;     /* [n_tensors] each */
    struct cuda_norm_range *norm;
    struct cuda_optim_range *adamw;
    double *kernel_ms, *copy_ms;
};

/* ---- the tensors ---- */

static void add(struct bench *b, size_t n)
{
    if (b->tensor)
        b->tensor[b->n_tensors] = n;
    b->n_tensors++;
    b->n_elems += (n + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
    b->n_sums += (n + NORM_BLOCK - 1) / NORM_BLOCK;
}

static void add_all(struct bench *b)
{
    size_t w = (size_t)b->v[WIDTH].i;
    const size_t block[] = {w, w, 3 * w * w, 3 * w, w * w, w, w, w, 4 * w * w, 4 * w, 4 * w * w, w};
    b->n_tensors = b->n_elems = b->n_sums = 0;
    for (int64_t k = 0; k < b->v[COPIES].i; k++) {
        add(b, (size_t)b->v[VOCAB].i * w);
        add(b, (size_t)b->v[CONTEXT].i * w);
        for (int64_t l = 0; l < b->v[LAYERS].i; l++)
            for (size_t i = 0; i < sizeof block / sizeof *block; i++)
                add(b, block[i]);
        add(b, w);
        add(b, w);
    }
}

/* Which tensor lies where. */
static void make_ranges(struct bench *b)
{
    size_t at = 0, sum = 0;
    for (size_t i = 0; i < b->n_tensors; i++) {
        size_t n = b->tensor[i];
        b->norm[i] = (struct cuda_norm_range){.in = b->grad + at, .sums = b->sums + sum, .n = n};
        b->adamw[i] = (struct cuda_optim_range){.value = b->value + at, .moment = {b->m + at, b->v2 + at},
                                                .grad = b->grad + at, .n = n, .weight_decay = 0.1f};
        sum += (n + NORM_BLOCK - 1) / NORM_BLOCK;
        at += (n + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
    }
}

static size_t bytes_needed(const struct bench *b)
{
    return b->n_elems * (4 * sizeof(float) + 2 * sizeof(uint16_t)) + b->other_bytes + b->n_sums * sizeof(double);
}

static int check_memory(const struct bench *b, ddp_error_t *errp)
{
    size_t free_bytes, needed = bytes_needed(b) + ((size_t)64 << 20);
    if (device_memory_free(b->device, &free_bytes, errp) < 0)
        return -1;
    return needed <= free_bytes ? 0
                                : error_set(errp, DDP_E_USAGE, ENOMEM, "%zu MiB of the GPU's memory are needed, %zu "
                                            "are free: take fewer --copies, or smaller sizes", needed >> 20,
                                            free_bytes >> 20);
}

static int allocate(struct bench *b, ddp_error_t *errp)
{
    size_t n = b->n_elems;
    b->other_bytes = n * 8;
    if (!IS_EMULATED && b->other_bytes < COLD_BYTES)
        b->other_bytes = COLD_BYTES;
    if (check_memory(b, errp) < 0)
        return -1;
    b->value = device_malloc(b->device, n * 4 * sizeof(float), "values, moments and gradients", errp);
    b->half = b->value ? device_malloc(b->device, n * 2 * sizeof(uint16_t), "16-bit gradients and values", errp) : NULL;
    b->sums = b->half ? device_malloc(b->device, b->n_sums * sizeof(double), "sums", errp) : NULL;
    b->other = b->sums ? device_malloc(b->device, b->other_bytes, "a copy", errp) : NULL;
    if (!b->other)
        return -1;
    b->m = b->value + n;
    b->v2 = b->value + 2 * n;
    b->grad = b->value + 3 * n;
    b->copy = b->half + n;
    b->tensor = calloc(b->n_tensors, sizeof *b->tensor);
    b->range = calloc(b->n_tensors, sizeof *b->range);
    b->norm = calloc(b->n_tensors, sizeof *b->norm);
    b->adamw = calloc(b->n_tensors, sizeof *b->adamw);
    b->kernel_ms = calloc((size_t)b->v[ITERATIONS].i, sizeof *b->kernel_ms);
    b->copy_ms = calloc((size_t)b->v[ITERATIONS].i, sizeof *b->copy_ms);
    if (!b->tensor || !b->range || !b->norm || !b->adamw || !b->kernel_ms || !b->copy_ms)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu tensors", b->n_tensors);
    add_all(b);
    make_ranges(b);
    /* bytes of 0x3c are 0.0115 in every type here */
    return device_fill(b->stream, b->value, 0x3c, n * 4 * sizeof(float), errp) < 0 ||
                   device_fill(b->stream, b->half, 0x3c, n * 2 * sizeof(uint16_t), errp) < 0
               ? -1
               : 0;
}

/* ---- the kernels ---- */

static int cast(struct bench *b, enum ddp_dtype to)
{
    size_t at = 0;
    for (size_t i = 0; i < b->n_tensors; i++) {
        b->range[i] = (struct cuda_range){b->half + at, b->grad + at, b->tensor[i]};
        at += (b->tensor[i] + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
    }
    return cuda_cast(b->range, b->n_tensors, to, 1, device_native_stream(b->stream));
}

static int f32_to_bf16(struct bench *b)
{
    return cast(b, DDP_BF16);
}

static int f32_to_f16(struct bench *b)
{
    return cast(b, DDP_F16);
}

static int norm(struct bench *b, void *from, enum ddp_dtype type, bool write)
{
    size_t at = 0;
    for (size_t i = 0; i < b->n_tensors; i++) {
        b->norm[i].in = (char *)from + at * dtype_size(type);
        b->norm[i].out = write ? b->grad + at : NULL;
        at += (b->tensor[i] + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
    }
    return cuda_norm_blocks(b->norm, b->n_tensors, type, -1, device_native_stream(b->stream));
}

static int norm_alone(struct bench *b)
{
    return norm(b, b->grad, DDP_F32, false);
}

static int norm_from_bf16(struct bench *b)
{
    return norm(b, b->half, DDP_BF16, true);
}

static int adamw(struct bench *b, bool copies)
{
    const struct optim_args a = {.lr = 1e-6f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .bias1 = 0.1f,
                                 .bias2 = 0.05f, .grad_scale = 1};
    size_t at = 0;
    for (size_t i = 0; i < b->n_tensors; i++) {
        b->adamw[i].copy = copies ? b->copy + at : NULL;
        b->adamw[i].copy_type = DDP_BF16;
        at += (b->tensor[i] + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
    }
    return cuda_optim_find("adamw")(b->adamw, b->n_tensors, &a, device_native_stream(b->stream));
}

static int adamw_f32(struct bench *b)
{
    return adamw(b, false);
}

static int adamw_copies(struct bench *b)
{
    return adamw(b, true);
}

/* N_TERMS arrays as large as fit into the gradients. */
static size_t terms(const struct bench *b, const float *in[N_TERMS])
{
    size_t n = b->n_elems / N_TERMS / ALIGN_ELEMS * ALIGN_ELEMS;
    for (int k = 0; k < N_TERMS; k++)
        in[k] = b->grad + (size_t)k * n;
    return n;
}

static int tree(struct bench *b)
{
    const float *in[N_TERMS];
    size_t n = terms(b, in);
    void *out = b->m;
    const void *all[N_TERMS];
    memcpy(all, in, sizeof all);
    return cuda_reduce_tree(&out, 1, all, N_TERMS, n, DDP_F32, device_native_stream(b->stream));
}

static int fold(struct bench *b)
{
    const float *in[N_TERMS];
    size_t n = terms(b, in);
    return cuda_fold(b->m, in, N_TERMS, n, device_native_stream(b->stream));
}

#define SUM_BYTES (4.0 * (N_TERMS + 1) / N_TERMS)
static const struct measured {
    const char *what;
    int (*launch)(struct bench *b);
    double bytes; /* moved per element */
    double goal;
} kernels[] = {
    {"cast float32 to bfloat16", f32_to_bf16, 6, GOAL},
    {"cast float32 to float16", f32_to_f16, 6, GOAL},
    {"norm of float32", norm_alone, 4 + 8.0 / NORM_BLOCK, GOAL},
    {"norm of bfloat16, written as float32", norm_from_bf16, 6 + 8.0 / NORM_BLOCK, GOAL},
    {"AdamW", adamw_f32, 28, GOAL},
    {"AdamW, and values in bfloat16", adamw_copies, 30, GOAL},
    {"sum of 8 arrays by the tree", tree, SUM_BYTES, 0},
    {"sum of 8 arrays from the last", fold, SUM_BYTES, 0},
};

/* ---- measuring ---- */

/* Within the device, so many bytes moved. */
static int copy(struct bench *b, double moved, ddp_error_t *errp)
{
    size_t n = (size_t)(moved / 2), room = b->n_elems * 8; /* as much as `other` has room for */
    for (size_t part; n > 0; n -= part) {
        part = n < room ? n : room;
        if (device_copy(b->stream, b->other, b->value, part, DEVICE_WITHIN, errp) < 0)
            return -1;
    }
    return 0;
}

static int cool(struct bench *b, ddp_error_t *errp)
{
    return device_fill(b->stream, b->other, 0x3c, b->other_bytes, errp);
}

/* One run of the kernel and one of the copy. */
static int run_once(struct bench *b, const struct measured *k, double moved, double *ret_kernel, double *ret_copy,
                    ddp_error_t *errp)
{
    if (cool(b, errp) < 0 || device_event_record(b->event[0], b->stream, errp) < 0 ||
        device_result(b->device, k->launch(b), k->what, errp) < 0 ||
        device_event_record(b->event[1], b->stream, errp) < 0 || cool(b, errp) < 0 ||
        device_event_record(b->event[2], b->stream, errp) < 0 || copy(b, moved, errp) < 0 ||
        device_event_record(b->event[3], b->stream, errp) < 0 ||
        device_event_wait(b->event[3], deadline_in(WAIT_S), NULL, NULL, errp) < 0 ||
        device_event_ms(b->event[0], b->event[1], ret_kernel, errp) < 0 ||
        device_event_ms(b->event[2], b->event[3], ret_copy, errp) < 0)
        return -1;
    return 0;
}

static int measure(struct bench *b, const struct measured *k, ddp_error_t *errp)
{
    double moved = 0, kernel_ms, copy_ms;
    char note[64];
    for (size_t i = 0; i < b->n_tensors; i++)
        moved += (double)b->tensor[i] * k->bytes;
    for (int64_t i = -b->v[WARMUP].i; i < b->v[ITERATIONS].i; i++) {
        if (run_once(b, k, moved, &kernel_ms, &copy_ms, errp) < 0)
            return -1;
        if (i >= 0) {
            b->kernel_ms[i] = kernel_ms;
            b->copy_ms[i] = copy_ms;
        }
    }
    struct report_entry e = {.what = k->what, .unit = "ms", .goal = k->goal, .ratio_of = "of a copy's bandwidth",
                             .stats = stats_of(b->kernel_ms, (size_t)b->v[ITERATIONS].i)};
    e.limit = stats_of(b->copy_ms, (size_t)b->v[ITERATIONS].i).median;
    e.ratio = e.stats.median > 0 ? e.limit / e.stats.median : 0;
    snprintf(note, sizeof note, "%.0f GB/s of %.0f", e.stats.median > 0 ? moved / e.stats.median * 1e-6 : 0,
             e.limit > 0 ? moved / e.limit * 1e-6 : 0);
    e.note = note;
    report_entry(&e);
    return 0;
}

static int open_device(struct bench *b, ddp_error_t *errp)
{
    int n = device_cuda_count(errp);
    if (n <= 0)
        return -1;
    if (b->v[DEVICE].i >= n)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--device=%lld: there are %d GPUs", (long long)b->v[DEVICE].i, n);
    b->device = device_open((int)b->v[DEVICE].i, 0, errp);
    b->stream = b->device ? device_stream_create(b->device, DEVICE_NORMAL, errp) : NULL;
    if (!b->stream)
        return -1;
    for (int i = 0; i < 4; i++)
        if (!(b->event[i] = device_event_create(b->device, true, errp)))
            return -1;
    return 0;
}

static int run(struct bench *b, ddp_error_t *errp)
{
    char title[300];
    if (open_device(b, errp) < 0)
        return -1;
    add_all(b);
    if (allocate(b, errp) < 0)
        return -1;
    snprintf(title, sizeof title, "Kernels over %zu tensors, %zu elements, on %s: ms, beside a copy of as many bytes",
             b->n_tensors, b->n_elems, device_info(b->device)->name);
    if (report_begin(b->v[JSON].is_set ? b->v[JSON].text : NULL, IS_EMULATED, title, errp) < 0)
        return -1;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (measure(b, &kernels[i], errp) < 0)
            return -1;
    return report_end(errp);
}

static void close_all(struct bench *b)
{
    for (int i = 0; i < 4; i++)
        device_event_destroy(b->event[i]);
    device_stream_destroy(b->stream);
    if (b->device) {
        device_free(b->device, b->value);
        device_free(b->device, b->half);
        device_free(b->device, b->sums);
        device_free(b->device, b->other);
    }
    device_close(b->device);
    free(b->tensor);
    free(b->range);
    free(b->norm);
    free(b->adamw);
    free(b->kernel_ms);
    free(b->copy_ms);
}

int main(int argc, char **argv)
{
    static struct bench b;
    ddp_error_t e = {0};
    int rc = knob_argv(knobs, N_KNOBS, "--help", argc, argv, b.v, NULL, &e);
    if (rc == 1) {
        printf("usage: gpukernels [OPTION...]\nTimes libddp's kernels on a GPU beside copies within its memory.\n");
        knob_help(stdout, knobs, N_KNOBS);
        return 0;
    }
    rc = rc < 0 ? rc : run(&b, &e);
    if (rc < 0)
        fprintf(stderr, "gpukernels: %s\n", e.text);
    close_all(&b);
    return rc < 0;
}
