/* gmodel_layers.c - layers of a model on a GPU: the kernels of kernels/cuda, in the model's type. */
#include "kernels/model/cuda/crossentropy.h"
#include "kernels/model/cuda/gelu.h"
#include "kernels/model/cuda/layernorm.h"
#include "runtime/train/gmodel_impl.h"

static void *native(const gmodel_t *m)
{
    return device_native_stream(m->stream);
}

static void keep(gmodel_t *m, int code, const char *call)
{
    if (!m->failed && device_result(m->device, code, call, &m->error) < 0)
        m->failed = true;
}

int layers_end(const gmodel_t *m, ddp_error_t *errp)
{
    return m->failed ? error_set(errp, m->error.domain, m->error.code, "%s", m->error.text) : 0;
}

void layer_norm(gmodel_t *m, void *out, float *mean, float *rstd, const float *in, size_t id, size_t rows)
{
    const float *weight = value(m, id), *bias = value(m, id + 1);
    size_t w = m->c.model.width;
    if (m->failed)
        return;
    keep(m, cuda_layernorm_forward(m->c.dtype, out, mean, rstd, in, weight, bias, rows, w, native(m)), "layer norm");
}

void layer_norm_backward(gmodel_t *m, const void *dout, const float *in, const float *mean, const float *rstd,
                         size_t id, size_t bias_before, size_t rows, bool first)
{
    float *dweight = grad(m, id), *dbias = grad(m, id + 1), *before = bias_before ? grad(m, bias_before) : NULL;
    const float *weight = value(m, id);
    size_t w = m->c.model.width;
    if (m->failed)
        return;
    keep(m, cuda_layernorm_backward(m->c.dtype, m->dx, before ? m->dbranch : NULL, dweight, dbias, before, m->work,
                                    dout, in, mean, rstd, weight, rows, w, !first, native(m)),
         "layer norm's gradient");
}

void layer_product(gmodel_t *m, void *out, const void *a, const void *b, const struct cuda_matmul *s)
{
    ddp_error_t e = {0};
    if (m->failed || cuda_matmul(m->blas, out, a, b, s, native(m), &e) == 0)
        return;
    const struct device_info *i = device_info(m->device);
    error_set(&m->error, e.domain, e.code, "rank %d: GPU %d (%.40s): %s", m->c.rank, i->ordinal, i->name, e.text);
    m->failed = true;
}

void layer_linear(gmodel_t *m, void *out, const void *in, const void *bias, size_t id, size_t rows)
{
    layer_product(m, out, in, factor(m, id),
                  &(struct cuda_matmul){.m = rows, .n = m->param[id].shape[1], .k = m->param[id].shape[0],
                                        .in = m->c.dtype, .out = m->c.dtype, .bias = bias});
}

void layer_linear_add(gmodel_t *m, float *out, const void *in, const float *add, size_t id, size_t rows)
{
    layer_product(m, out, in, factor(m, id),
                  &(struct cuda_matmul){.m = rows, .n = m->param[id].shape[1], .k = m->param[id].shape[0],
                                        .in = m->c.dtype, .out = DDP_F32, .bias = value(m, id + 1), .add = add});
}

void layer_linear_dweight(gmodel_t *m, const void *dout, const void *in, size_t id, size_t rows, bool with_bias)
{
    size_t n = m->param[id].shape[1];
    layer_product(m, grad(m, id), in, dout,
                  &(struct cuda_matmul){.m = m->param[id].shape[0], .n = n, .k = rows, .in = m->c.dtype,
                                        .out = DDP_F32, .a_transposed = true, .accumulate = true});
    if (m->failed || !with_bias)
        return;
    keep(m, cuda_bias_backward(m->c.dtype, grad(m, id + 1), m->work, dout, rows, n, native(m)),
         "a bias's gradient");
}

void layer_linear_din(gmodel_t *m, void *din, const void *dout, size_t id, size_t rows)
{
    layer_product(m, din, dout, factor(m, id),
                  &(struct cuda_matmul){.m = rows, .n = m->param[id].shape[0], .k = m->param[id].shape[1],
                                        .in = m->c.dtype, .out = m->c.dtype, .b_transposed = true});
}

void layer_gelu(gmodel_t *m, void *out, const void *in, size_t id, size_t rows)
{
    size_t n = m->param[id].shape[0];
    if (m->failed)
        return;
    keep(m, cuda_gelu_forward(m->c.dtype, out, in, value(m, id), rows, n, native(m)), "gelu");
}

void layer_gelu_backward(gmodel_t *m, void *d, const void *in, size_t id, size_t rows)
{
    size_t n = m->param[id].shape[0];
    if (m->failed)
        return;
    keep(m, cuda_gelu_backward(m->c.dtype, d, grad(m, id), m->work, d, in, value(m, id), rows, n, native(m)),
         "gelu's gradient");
}

void layer_attention(gmodel_t *m, const struct glayer *y, size_t n)
{
    struct attention_shape s = attention_shape(m, n);
    if (m->failed)
        return;
    keep(m, cuda_attention_forward(m->c.dtype, m->attention, y->att, y->stats, y->qkv, &s, native(m)), "attention");
}

void layer_attention_backward(gmodel_t *m, void *dqkv, const void *dout, const struct glayer *y, size_t n)
{
    struct attention_shape s = attention_shape(m, n);
    if (m->failed)
        return;
    keep(m, cuda_attention_backward(m->c.dtype, m->attention, dqkv, m->work, dout, y->att, y->qkv, y->stats, &s,
                                    native(m)), "attention's gradient");
}

void layer_embedding(gmodel_t *m, size_t n)
{
    struct embedding_shape s = embedding_shape(m, n);
    if (m->failed)
        return;
    keep(m, cuda_embedding_forward(m->embedded, m->upload[m->turn].device, value(m, WTE), value(m, WPE), &s, native(m)),
         "embedding");
}

void layer_embedding_backward(gmodel_t *m, size_t n)
{
    struct embedding_shape s = embedding_shape(m, n);
    if (m->failed)
        return;
    keep(m, cuda_embedding_sort(m->sorted, m->upload[m->turn].device, &s, m->c.model.vocab, native(m)),
         "sorting tokens");
    keep(m, cuda_embedding_backward(grad(m, WTE), grad(m, WPE), m->dx, m->sorted, &s, native(m)),
         "embedding's gradient");
}

void layer_loss(gmodel_t *m, double *loss, const int32_t *target, size_t rows)
{
    size_t v = m->c.model.vocab, stride = m->vocab_rows;
    if (m->failed)
        return;
    keep(m, cuda_crossentropy_forward(m->c.dtype, loss, m->logits, target, rows, v, stride, native(m)), "losses");
}

void layer_loss_backward(gmodel_t *m, double *loss, const int32_t *target, float grad_scale, size_t rows)
{
    size_t v = m->c.model.vocab, stride = m->vocab_rows;
    if (m->failed)
        return;
    keep(m, cuda_crossentropy_backward(m->c.dtype, loss, m->logits, target, grad_scale, rows, v, stride, native(m)),
         "losses and their gradients");
}
