#include "runtime/train/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/model/attention.h"
#include "kernels/model/crossentropy.h"
#include "kernels/model/embedding.h"
#include "kernels/model/layernorm.h"
#include "kernels/model/matmul.h"
#include "runtime/train/model_impl.h"

#define LOGITS_ELEMS ((size_t)1 << 22) /* the head works on so many logits at a time, or on LOGITS_ROWS rows */
#define LOGITS_ROWS 512
#define HUGE_PAGE ((size_t)2 << 20)

model_t *model_create(const struct model_config *c, size_t batch, ddp_error_t *errp)
{
    if (model_params_check(c, errp) < 0 || kernel_matmul_open(errp) < 0)
        return NULL;
    model_t *m = calloc(1, sizeof *m);
    if (!m)
        goto no_memory;
    m->c = *c;
    m->batch = batch;
    m->n_params = model_params_count(c);
    m->param = model_params_create(c);
    m->tensor = calloc(m->n_params, sizeof *m->tensor);
    m->layer = calloc(c->layers, sizeof *m->layer);
    if (!m->param || !m->tensor || !m->layer)
        goto no_memory;
    return m;
no_memory:
    error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a model of %zu layers", c->layers);
    model_destroy(m);
    return NULL;
}

void model_destroy(model_t *m)
{
    int saved = errno;
    if (m) {
        free(m->param);
        free(m->tensor);
        free(m->layer);
        free(m->arena);
        free(m->loss);
        free(m->target);
        free(m);
    }
    errno = saved;
}

const struct loop_param *model_params(const model_t *m, size_t *ret_n)
{
    *ret_n = m->n_params;
    return m->param;
}

static struct attention_shape attention_shape(const model_t *m, size_t n)
{
    return (struct attention_shape){n, m->c.context, m->c.width, m->c.heads};
}

/* Deals out pieces of one arena, 64-byte aligned; with base NULL it only counts. */
struct dealer {
    float *base;
    size_t used;
};

static float *deal(struct dealer *a, size_t n_elems)
{
    float *p = a->base ? a->base + a->used : NULL;
    a->used += (n_elems + 15) / 16 * 16;
    return p;
}

/* All that a block's backward pass needs but its input. */
static void deal_layer(model_t *m, struct layer *y, struct dealer *a)
{
    struct attention_shape s = attention_shape(m, m->batch);
    size_t rows = m->batch * m->c.context, one = rows * m->c.width;
    y->ln1 = deal(a, one);
    y->mean1 = deal(a, rows);
    y->rstd1 = deal(a, rows);
    y->qkv = deal(a, 3 * one);
    y->stats = deal(a, kernel_attention_stats_elems(&s));
    y->att = deal(a, one);
    y->mid = deal(a, one);
    y->ln2 = deal(a, one);
    y->mean2 = deal(a, rows);
    y->rstd2 = deal(a, rows);
    y->slope = deal(a, 4 * one);
    y->gelu = deal(a, 4 * one);
}

static void deal_all(model_t *m, struct dealer *a)
{
    struct attention_shape s = attention_shape(m, m->batch);
    size_t rows = m->batch * m->c.context, one = rows * m->c.width;
    m->embedded = deal(a, one);
    for (size_t l = 0; l < m->c.layers; l++) {
        if (l == 0 || !m->c.recompute)
            deal_layer(m, &m->layer[l], a);
        else
            m->layer[l] = m->layer[0];
        m->layer[l].out = deal(a, one);
    }
    m->lnf = deal(a, one);
    m->meanf = deal(a, rows);
    m->rstdf = deal(a, rows);
    m->logits = deal(a, m->logits_rows * m->c.vocab);
    m->work = deal(a, kernel_attention_work_elems(&s));
    m->dx = deal(a, one);
    m->dwide = deal(a, 4 * one);
    m->dtmp = deal(a, one);
}

static size_t logits_rows(const struct model_config *c, size_t rows)
{
    size_t k = LOGITS_ELEMS / c->vocab > LOGITS_ROWS ? LOGITS_ELEMS / c->vocab : LOGITS_ROWS;
    return k < rows ? k : rows;
}

size_t model_activation_bytes(const struct model_config *c, size_t batch)
{
    struct layer *layer = calloc(c->layers, sizeof *layer);
    model_t m = {.c = *c, .batch = batch, .layer = layer, .logits_rows = logits_rows(c, batch * c->context)};
    struct dealer a = {0};
    if (layer)
        deal_all(&m, &a);
    free(layer);
    return a.used * sizeof(float);
}

/* Huge pages where the system gives them: matrices' rows are a page and more apart. */
static float *allocate(size_t bytes)
{
    size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, whole);
    if (p)
        madvise(p, whole, MADV_HUGEPAGE);
    return p;
}

int model_bind(model_t *m, const struct ddp_param *tensor, ddp_error_t *errp)
{
    size_t rows = m->batch * m->c.context;
    struct dealer a = {0};
    m->logits_rows = logits_rows(&m->c, rows);
    deal_all(m, &a);
    size_t bytes = a.used * sizeof(float);
    m->arena = allocate(bytes);
    m->loss = calloc(rows, sizeof *m->loss);
    m->target = calloc(rows, sizeof *m->target);
    if (!m->arena || !m->loss || !m->target)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM,
                         "no memory for the model's activations, %zu MiB: take a smaller --batch or --context",
                         bytes >> 20);
    a = (struct dealer){.base = m->arena};
    deal_all(m, &a);
    memcpy(m->tensor, tensor, m->n_params * sizeof *tensor);
    return 0;
}

void model_init(model_t *m, uint64_t seed)
{
    for (size_t id = 0; id < m->n_params; id++)
        model_params_init(&m->c, m->param, id, seed, value(m, id));
}

/* out = in weight + bias of parameters id and id + 1, and what `s` adds to it. */
static void linear(const model_t *m, float *out, const float *in, size_t id, struct matmul s)
{
    s.bias = value(m, id + 1);
    kernel_matmul(out, in, value(m, id), &s);
}

/* Fills a block's activations, all but its output: that is apart. */
static void forward_block(const model_t *m, size_t l, size_t n)
{
    const struct layer *y = &m->layer[l];
    const float *x = l ? m->layer[l - 1].out : m->embedded;
    size_t w = m->c.width, rows = n * m->c.context, p = block_id(l, 0);
    struct attention_shape s = attention_shape(m, n);
    kernel_layernorm_forward(y->ln1, y->mean1, y->rstd1, x, value(m, p + LN1_W), value(m, p + LN1_B), rows, w);
    linear(m, y->qkv, y->ln1, p + QKV_W, (struct matmul){.m = rows, .n = 3 * w, .k = w});
    kernel_attention_forward(y->att, y->stats, y->qkv, m->work, &s);
    linear(m, y->mid, y->att, p + OUT_W, (struct matmul){.m = rows, .n = w, .k = w, .add = x});
    kernel_layernorm_forward(y->ln2, y->mean2, y->rstd2, y->mid, value(m, p + LN2_W), value(m, p + LN2_B), rows, w);
    linear(m, y->slope, y->ln2, p + FC_W, (struct matmul){.m = rows, .n = 4 * w, .k = w, .gelu = y->gelu});
}

static void forward_out(const model_t *m, size_t l, size_t n)
{
    const struct layer *y = &m->layer[l];
    size_t w = m->c.width;
    linear(m, y->out, y->gelu, block_id(l, PROJ_W),
           (struct matmul){.m = n * m->c.context, .n = w, .k = 4 * w, .add = y->mid});
}

/* Fills the activations up to ln_f's output. */
static void forward(model_t *m, const int32_t *tokens, size_t n)
{
    size_t t = m->c.context, w = m->c.width;
    kernel_embedding_forward(m->embedded, tokens, value(m, WTE), value(m, WPE),
                             &(struct embedding_shape){n, t, w, t + 1});
    for (size_t l = 0; l < m->c.layers; l++) {
        forward_block(m, l, n);
        forward_out(m, l, n);
    }
    kernel_layernorm_forward(m->lnf, m->meanf, m->rstdf, m->layer[m->c.layers - 1].out, value(m, final_w(m)),
                             value(m, final_b(m)), n * t, w);
}

static void copy_targets(model_t *m, const int32_t *tokens, size_t n)
{
    size_t t = m->c.context;
    for (size_t b = 0; b < n; b++)
        memcpy(m->target + b * t, tokens + b * (t + 1) + 1, t * sizeof *tokens);
}

/* Logits and losses, a slice of rows at a time; with gradients, dtmp becomes that of ln_f's output. */
static void head(model_t *m, size_t rows, bool with_grad, float grad_scale)
{
    size_t w = m->c.width, v = m->c.vocab;
    for (size_t r = 0; r < rows; r += m->logits_rows) {
        size_t k = rows - r < m->logits_rows ? rows - r : m->logits_rows;
        const float *x = m->lnf + r * w;
        kernel_matmul(m->logits, x, value(m, WTE), &(struct matmul){.m = k, .n = v, .k = w, .b_transposed = true});
        if (!with_grad) {
            kernel_crossentropy_forward(m->loss + r, m->logits, m->target + r, k, v);
            continue;
        }
        kernel_crossentropy_backward(m->loss + r, m->logits, m->target + r, grad_scale, k, v);
        kernel_matmul(grad(m, WTE), m->logits, x,
                      &(struct matmul){.m = v, .n = w, .k = k, .a_transposed = true, .accumulate = true});
        kernel_matmul(m->dtmp + r * w, m->logits, value(m, WTE), &(struct matmul){.m = k, .n = w, .k = v});
    }
}

/* Tells that parameters a and b are complete. */
static void tell(loop_ready_f *ready, void *ctx, size_t a, size_t b)
{
    ready(ctx, (int)b);
    ready(ctx, (int)a);
}

/* The gradients of parameters id and id + 1 are told as soon as they are complete, before the work that they do not
 * need: what waits for them can start. din may be scaled, see kernel_linear_din. */
static void backward_linear(const model_t *m, float *din, const float *dout, const float *in, size_t id,
                            const float *scale, size_t n, loop_ready_f *ready, void *ctx)
{
    size_t n_in = m->param[id].shape[0], n_out = m->param[id].shape[1], rows = n * m->c.context;
    kernel_linear_dweight(grad(m, id), grad(m, id + 1), dout, in, rows, n_in, n_out);
    tell(ready, ctx, id, id + 1);
    kernel_linear_din(din, dout, value(m, id), scale, rows, n_in, n_out);
}

static void backward_block(model_t *m, size_t l, size_t n, loop_ready_f *ready, void *ctx)
{
    const struct layer *y = &m->layer[l];
    const float *x = l ? m->layer[l - 1].out : m->embedded;
    size_t w = m->c.width, rows = n * m->c.context, p = block_id(l, 0);
    struct attention_shape s = attention_shape(m, n);
    if (m->c.recompute && l + 1 < m->c.layers) /* the last block's are still there */
        forward_block(m, l, n);
    backward_linear(m, m->dwide, m->dx, y->gelu, p + PROJ_W, y->slope, n, ready, ctx);
    backward_linear(m, m->dtmp, m->dwide, y->ln2, p + FC_W, NULL, n, ready, ctx);
    kernel_layernorm_backward(m->dx, grad(m, p + LN2_W), grad(m, p + LN2_B), m->dtmp, y->mid, y->mean2, y->rstd2,
                              value(m, p + LN2_W), rows, w, true);
    tell(ready, ctx, p + LN2_W, p + LN2_B);
    backward_linear(m, m->dtmp, m->dx, y->att, p + OUT_W, NULL, n, ready, ctx);
    kernel_attention_backward(m->dwide, m->dtmp, y->qkv, y->stats, m->work, &s);
    backward_linear(m, m->dtmp, m->dwide, y->ln1, p + QKV_W, NULL, n, ready, ctx);
    kernel_layernorm_backward(m->dx, grad(m, p + LN1_W), grad(m, p + LN1_B), m->dtmp, x, y->mean1, y->rstd1,
                              value(m, p + LN1_W), rows, w, true);
    tell(ready, ctx, p + LN1_W, p + LN1_B);
}

void model_listen(model_t *m, loop_mark_f *mark, void *ctx)
{
    m->mark = mark;
    m->mark_ctx = ctx;
}

double model_forward_backward(model_t *m, const int32_t *tokens, size_t n, float grad_scale, loop_ready_f *ready,
                              void *ctx)
{
    size_t t = m->c.context, w = m->c.width, rows = n * t;
    double sum = 0;
    forward(m, tokens, n);
    copy_targets(m, tokens, n);
    if (m->mark) /* the head goes forward and backward, part by part, and most of it is backward */
        m->mark(m->mark_ctx, DDP_MARK_BACKWARD);
    head(m, rows, true, grad_scale);
    for (size_t r = 0; r < rows; r++)
        sum += m->loss[r];
    kernel_layernorm_backward(m->dx, grad(m, final_w(m)), grad(m, final_b(m)), m->dtmp,
                              m->layer[m->c.layers - 1].out, m->meanf, m->rstdf, value(m, final_w(m)), rows, w,
                              false);
    tell(ready, ctx, final_w(m), final_b(m));
    for (size_t l = m->c.layers; l-- > 0;)
        backward_block(m, l, n, ready, ctx);
    kernel_embedding_backward(grad(m, WTE), grad(m, WPE), m->dx, tokens, &(struct embedding_shape){n, t, w, t + 1});
    tell(ready, ctx, WTE, WPE);
    return sum;
}

void model_evaluate(model_t *m, const int32_t *tokens, size_t n, double *ret_loss_sum)
{
    size_t t = m->c.context;
    forward(m, tokens, n);
    copy_targets(m, tokens, n);
    head(m, n * t, false, 0);
    for (size_t b = 0; b < n; b++) {
        ret_loss_sum[b] = 0;
        for (size_t i = 0; i < t; i++)
            ret_loss_sum[b] += m->loss[b * t + i];
    }
}
