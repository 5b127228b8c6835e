/* gpumodel_wrap.c - the kernels that a step calls, by the linker's --wrap: each call is described, and passed on.
 *
 * bytes: what any kernel that does this must read and write, once each, of arrays as large as the call's; what is small
 * beside it (weights of a layer norm, biases) is left out. flops: a product's; attention's with the half that is masked
 * left out, a backward pass of five products. Others are bound by memory. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/bench/gpumodel.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/optim.h"
#include "kernels/model/cuda/attention.h"
#include "kernels/model/cuda/crossentropy.h"
#include "kernels/model/cuda/embedding.h"
#include "kernels/model/cuda/gelu.h"
#include "kernels/model/cuda/layernorm.h"
#include "kernels/model/cuda/matmul.h"
#include "runtime/grads/norm.h"

/* Not made: 0. Else what calls_end makes of the call's result. */
#define PASS(c, real) (calls_begin(c) ? calls_end(c, real, NULL) : 0)

__attribute__((format(printf, 4, 5))) static struct call call_of(void *stream, double bytes, double flops,
                                                                const char *format, ...)
{
    struct call c = {.bytes = bytes, .flops = flops, .stream = stream};
    va_list ap;
    va_start(ap, format);
    vsnprintf(c.what, sizeof c.what, format, ap);
    va_end(ap);
    return c;
}

static double size_of(enum ddp_dtype t)
{
    return (double)dtype_size(t);
}

/* Two functions of the same type: the one that the callers get, and the one that they meant. */
#define WRAPPED(name, ...)                                                                                             \
    extern __typeof__(name) __real_##name, __wrap_##name;                                                              \
    int __wrap_##name(__VA_ARGS__)

/* ---- the model's kernels ---- */

WRAPPED(cuda_layernorm_forward, enum ddp_dtype branch, void *out, float *mean, float *rstd, const float *in,
        const float *weight, const float *bias, size_t rows, size_t width, void *stream)
{
    double n = (double)rows * (double)width;
    struct call c = call_of(stream, n * (4 + size_of(branch)) + 8 * (double)rows, 0, "layer norm [%zu, %zu]", rows,
                            width);
    return PASS(&c, __real_cuda_layernorm_forward(branch, out, mean, rstd, in, weight, bias, rows, width, stream));
}

WRAPPED(cuda_layernorm_backward, enum ddp_dtype branch, float *din, void *dbranch, float *dweight, float *dbias,
        float *dbias_before, float *work, const void *dout, const float *in, const float *mean, const float *rstd,
        const float *weight, size_t rows, size_t width, bool accumulate, void *stream)
{
    double n = (double)rows * (double)width, copy = dbranch && branch != DDP_F32 ? size_of(branch) : 0;
    struct call c = call_of(stream, n * (size_of(branch) + 8 + (accumulate ? 4 : 0) + copy) + 8 * (double)rows, 0,
                            "layer norm backward%s [%zu, %zu]", accumulate ? "" : ", first", rows, width);
    return PASS(&c, __real_cuda_layernorm_backward(branch, din, dbranch, dweight, dbias, dbias_before, work, dout, in,
                                                   mean, rstd, weight, rows, width, accumulate, stream));
}

/* Pairs of a query and a key that it may see, of all heads. */
static double pairs_of(const struct attention_shape *s)
{
    double t = (double)s->length;
    return (double)s->batch * (double)s->heads * t * (t + 1) / 2;
}

static double attention_elems(const struct attention_shape *s)
{
    return (double)s->batch * (double)s->length * (double)s->width;
}

static const char *name_of(enum cuda_attention_way way)
{
    return way == CUDA_ATTENTION_WGMMA ? "wgmma" : "mma.sync";
}

WRAPPED(cuda_attention_forward, enum ddp_dtype type, enum cuda_attention_way way, void *out, float *stats,
        const void *qkv, const struct attention_shape *s, void *stream)
{
    double stats_bytes = 4 * (double)cuda_attention_stats_elems(s), head = (double)(s->width / s->heads);
    struct call c = call_of(stream, attention_elems(s) * 4 * size_of(type) + stats_bytes, pairs_of(s) * 4 * head,
                            "attention, %s [%zu, %zu, %zu]", name_of(way), s->batch, s->length, s->width);
    return PASS(&c, __real_cuda_attention_forward(type, way, out, stats, qkv, s, stream));
}

WRAPPED(cuda_attention_backward, enum ddp_dtype type, enum cuda_attention_way way, void *dqkv, float *work,
        const void *dout, const void *out, const void *qkv, const float *stats, const struct attention_shape *s,
        void *stream)
{
    double stats_bytes = 4 * (double)cuda_attention_stats_elems(s), head = (double)(s->width / s->heads);
    struct call c = call_of(stream, attention_elems(s) * 8 * size_of(type) + stats_bytes, pairs_of(s) * 10 * head,
                            "attention backward, %s [%zu, %zu, %zu]", name_of(way), s->batch, s->length,
                            s->width);
    return PASS(&c, __real_cuda_attention_backward(type, way, dqkv, work, dout, out, qkv, stats, s, stream));
}

WRAPPED(cuda_gelu_forward, enum ddp_dtype type, void *out, const void *in, const float *bias, size_t rows,
        size_t width, void *stream)
{
    struct call c = call_of(stream, (double)rows * (double)width * 2 * size_of(type), 0, "gelu [%zu, %zu]", rows,
                            width);
    return PASS(&c, __real_cuda_gelu_forward(type, out, in, bias, rows, width, stream));
}

WRAPPED(cuda_gelu_backward, enum ddp_dtype type, void *din, float *dbias, float *work, const void *dout, const void *in,
        const float *bias, size_t rows, size_t width, void *stream)
{
    struct call c = call_of(stream, (double)rows * (double)width * 3 * size_of(type), 0, "gelu backward [%zu, %zu]",
                            rows, width);
    return PASS(&c, __real_cuda_gelu_backward(type, din, dbias, work, dout, in, bias, rows, width, stream));
}

WRAPPED(cuda_bias_backward, enum ddp_dtype type, float *dbias, float *work, const void *dout, size_t rows, size_t width,
        void *stream)
{
    struct call c = call_of(stream, (double)rows * (double)width * size_of(type), 0, "bias backward [%zu, %zu]", rows,
                            width);
    return PASS(&c, __real_cuda_bias_backward(type, dbias, work, dout, rows, width, stream));
}

WRAPPED(cuda_crossentropy_forward, enum ddp_dtype type, double *loss, const void *logits, const int32_t *target,
        size_t rows, size_t vocab, size_t stride, void *stream)
{
    struct call c = call_of(stream, (double)rows * (double)vocab * size_of(type), 0, "cross entropy [%zu, %zu]", rows,
                            vocab);
    return PASS(&c, __real_cuda_crossentropy_forward(type, loss, logits, target, rows, vocab, stride, stream));
}

WRAPPED(cuda_crossentropy_backward, enum ddp_dtype type, double *loss, void *logits, const int32_t *target,
        float grad_scale, size_t rows, size_t vocab, size_t stride, void *stream)
{
    struct call c = call_of(stream, (double)rows * (double)vocab * 2 * size_of(type), 0,
                            "cross entropy backward [%zu, %zu]", rows, vocab);
    return PASS(&c, __real_cuda_crossentropy_backward(type, loss, logits, target, grad_scale, rows, vocab, stride,
                                                      stream));
}

/* What the embeddings read and write of wte is no more than a row for each token, and is taken for that. */
static double embedding_bytes(const struct embedding_shape *s, double of_row, double of_position)
{
    double rows = (double)s->batch * (double)s->length, width = 4 * (double)s->width;
    return width * (rows * of_row + (double)s->length * of_position);
}

WRAPPED(cuda_embedding_forward, float *out, const int32_t *tokens, const float *wte, const float *wpe,
        const struct embedding_shape *s, void *stream)
{
    struct call c = call_of(stream, embedding_bytes(s, 2, 1), 0, "embedding [%zu, %zu, %zu]", s->batch, s->length,
                            s->width);
    return PASS(&c, __real_cuda_embedding_forward(out, tokens, wte, wpe, s, stream));
}

WRAPPED(cuda_embedding_sort, uint32_t *sorted, const int32_t *tokens, const struct embedding_shape *s, size_t vocab,
        void *stream)
{
    double rows = (double)s->batch * (double)s->length;
    struct call c = call_of(stream, 4 * (rows + (double)cuda_embedding_sorted_elems(s)), 0,
                            "embedding's rows sorted [%zu, %zu]", s->batch, s->length);
    return PASS(&c, __real_cuda_embedding_sort(sorted, tokens, s, vocab, stream));
}

WRAPPED(cuda_embedding_backward, float *dwte, float *dwpe, const float *dout, const uint32_t *sorted,
        const struct embedding_shape *s, void *stream)
{
    struct call c = call_of(stream, embedding_bytes(s, 3, 2), 0, "embedding backward [%zu, %zu, %zu]", s->batch,
                            s->length, s->width);
    return PASS(&c, __real_cuda_embedding_backward(dwte, dwpe, dout, sorted, s, stream));
}

/* ---- products ---- */

static struct {
    const struct loop_param *param;
    struct ddp_param *tensor;
    size_t n;
} names;

int calls_name(const struct loop_param *param, const struct ddp_param *tensor, size_t n, ddp_error_t *errp)
{
    free(names.tensor);
    names.tensor = calloc(n, sizeof *tensor);
    names.n = 0;
    if (!names.tensor)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the places of %zu parameters", n);
    memcpy(names.tensor, tensor, n * sizeof *tensor);
    names.param = param;
    names.n = n;
    return 0;
}

/* "mlp.c_fc" of "h.3.mlp.c_fc.weight": blocks are alike. */
static void short_name(size_t id, char *buf, size_t size)
{
    const char *name = names.param[id].name;
    int at = 0;
    if (sscanf(name, "h.%*u.%n", &at) == 0 && at > 0)
        name += at;
    snprintf(buf, size, "%s", name);
    char *end = strstr(buf, ".weight");
    if (end)
        *end = '\0';
}

/* Whose product it is, by the weight that it takes or whose gradient it adds to. wte is stored transposed. */
static void name_product(char *buf, size_t size, const void *out, const void *b, const struct cuda_matmul *s)
{
    char of[64];
    for (size_t id = 0; id < names.n; id++) {
        const struct ddp_param *p = &names.tensor[id];
        bool is_weight = b == p->value || (p->copy && b == p->copy);
        short_name(id, of, sizeof of);
        if (out == p->grad)
            snprintf(buf, size, "%s d weight", of);
        else if (is_weight)
            snprintf(buf, size, "%s%s", of, s->b_transposed != (id == WTE) ? " d input" : "");
        if (out == p->grad || is_weight)
            return;
    }
    snprintf(buf, size, "product");
}

static double product_bytes(const struct cuda_matmul *s)
{
    double m = (double)s->m, n = (double)s->n, k = (double)s->k, out = size_of(s->out);
    return size_of(s->in) * (m * k + k * n) + out * m * n * (1 + (s->accumulate ? 1 : 0) + (s->add ? 1 : 0));
}

WRAPPED(cuda_matmul, cuda_blas_t *blas, void *out, const void *a, const void *b, const struct cuda_matmul *s,
        void *stream, ddp_error_t *errp)
{
    char name[80];
    ddp_error_t why = {0};
    name_product(name, sizeof name, out, b, s);
    struct call c = call_of(stream, product_bytes(s), 2 * (double)s->m * (double)s->n * (double)s->k,
                            "%.32s %zux%zux%zu", name, s->m, s->n, s->k);
    if (!calls_begin(&c))
        return 0;
    int rc = __real_cuda_matmul(blas, out, a, b, s, stream, &why);
    if (rc < 0)
        error_set(errp, why.domain, why.code, "%s", why.text);
    else
        cuda_matmul_algorithm(blas, s, c.algorithm, sizeof c.algorithm);
    return calls_end(&c, rc, &why);
}

/* ---- the step's ---- */

WRAPPED(cuda_cast, const struct cuda_range *range, size_t n_ranges, enum ddp_dtype to, float scale, void *stream)
{
    double n = 0;
    for (size_t i = 0; i < n_ranges; i++)
        n += (double)range[i].n;
    struct call c = call_of(stream, n * 6, 0, "cast to %s of %.0f", dtype_name(to), n);
    return PASS(&c, __real_cuda_cast(range, n_ranges, to, scale, stream));
}

WRAPPED(cuda_norm_blocks, const struct cuda_norm_range *range, size_t n_ranges, enum ddp_dtype from, float scale,
        void *stream)
{
    double n = 0, bytes = 0;
    for (size_t i = 0; i < n_ranges; i++) {
        n += (double)range[i].n;
        bytes += (double)range[i].n * (size_of(from) + (range[i].out ? 4 : 0) + 8.0 / NORM_BLOCK);
    }
    struct call c = call_of(stream, bytes, 0, "norm of %.0f %s", n, dtype_name(from));
    return PASS(&c, __real_cuda_norm_blocks(range, n_ranges, from, scale, stream));
}

static cuda_optim_f *rule; /* the one that runtime/gpu has asked for */

static int update(const struct cuda_optim_range *range, size_t n_ranges, const struct optim_args *args, void *stream)
{
    double n = 0, bytes = 0;
    for (size_t i = 0; i < n_ranges; i++) {
        int moments = 0;
        for (int k = 0; k < OPTIM_MOMENTS; k++)
            moments += range[i].moment[k] != NULL;
        n += (double)range[i].n;
        bytes += (double)range[i].n * (12 + 8 * moments + (range[i].copy ? 2 : 0));
    }
    struct call c = call_of(stream, bytes, 0, "optimizer's step of %.0f", n);
    return PASS(&c, rule(range, n_ranges, args, stream));
}

cuda_optim_f *__real_cuda_optim_find(const char *name);
cuda_optim_f *__wrap_cuda_optim_find(const char *name);
cuda_optim_f *__wrap_cuda_optim_find(const char *name)
{
    rule = __real_cuda_optim_find(name);
    return rule ? update : NULL;
}

WRAPPED(device_fill, device_stream_t *s, void *to, int byte, size_t n, ddp_error_t *errp)
{
    struct call c = call_of(device_native_stream(s), (double)n, 0, "fill of %zu bytes", n);
    ddp_error_t why = {0};
    if (!calls_begin(&c))
        return 0;
    int rc = __real_device_fill(s, to, byte, n, &why);
    if (rc < 0)
        error_set(errp, why.domain, why.code, "%s", why.text);
    return calls_end(&c, rc, &why);
}
