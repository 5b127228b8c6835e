/* gmodel_pass.c - the passes of a model on a GPU: the layers in order, as in model.c. */
#include "runtime/train/gmodel_impl.h"

/* What enters block l. */
static const float *entering(const gmodel_t *m, size_t l)
{
    return l ? m->layer[l - 1].out : m->embedded;
}

/* The bias that was added to that last; 0: none. */
static size_t bias_entering(size_t l)
{
    return l ? block_id(l - 1, PROJ_B) : 0;
}

static size_t final_norm(const gmodel_t *m)
{
    return m->n_params - 2;
}

/* Fills a block's activations, all but its output: that is apart. */
static void forward_block(gmodel_t *m, size_t l, size_t n)
{
    const struct glayer *y = &m->layer[l];
    const float *x = entering(m, l);
    size_t rows = n * m->c.model.context, p = block_id(l, 0);
    layer_norm(m, y->ln1, y->mean1, y->rstd1, x, p + LN1_W, rows);
    layer_linear(m, y->qkv, y->ln1, factor(m, p + QKV_B), p + QKV_W, rows);
    layer_attention(m, y, n);
    layer_linear_add(m, y->mid, y->att, x, p + OUT_W, rows);
    layer_norm(m, y->ln2, y->mean2, y->rstd2, y->mid, p + LN2_W, rows);
    layer_linear(m, y->fc, y->ln2, NULL, p + FC_W, rows);
    layer_gelu(m, y->gelu, y->fc, p + FC_B, rows);
}

/* Fills the activations up to ln_f's output. */
static void forward(gmodel_t *m, size_t n)
{
    size_t rows = n * m->c.model.context;
    layer_embedding(m, n);
    for (size_t l = 0; l < m->c.model.layers; l++) {
        forward_block(m, l, n);
        layer_linear_add(m, m->layer[l].out, m->layer[l].gelu, m->layer[l].mid, block_id(l, PROJ_W), rows);
    }
    layer_norm(m, m->lnf, m->meanf, m->rstdf, entering(m, m->c.model.layers), final_norm(m), rows);
}

/* ---- the head ----
 *
 * A vocabulary is seldom a multiple of anything, GPT-2's is 50257, and products are fast where extents are whole tiles,
 * or 16 bytes at least. So the three products take the embedding as one of vocab_rows rows, of which those behind the
 * vocabulary are zeros (DDP_PAD_ROWS). Cross entropy reads none of the logits that these make, and writes zeros there,
 * so that their gradient is zero, too. */

/* The gradients that rows r .. r + k bring, m->logits being those of the logits: dtmp gets that of ln_f's output. */
static void head_backward(gmodel_t *m, size_t r, size_t k)
{
    size_t w = m->c.model.width, v = m->vocab_rows;
    layer_product(m, grad(m, WTE), m->logits, elements(m, m->lnf, r * w),
                  &(struct cuda_matmul){.m = v, .n = w, .k = k, .in = m->c.dtype, .out = DDP_F32, .a_transposed = true,
                                        .accumulate = true});
    layer_product(m, elements(m, m->dtmp, r * w), m->logits, factor(m, WTE),
                  &(struct cuda_matmul){.m = k, .n = w, .k = v, .in = m->c.dtype, .out = m->c.dtype});
}

/* Logits and losses, a slice of rows at a time. */
static void head(gmodel_t *m, size_t n, bool with_grad, float grad_scale)
{
    size_t rows = n * m->c.model.context, w = m->c.model.width;
    const int32_t *target = m->upload[m->turn].device + n * (m->c.model.context + 1);
    for (size_t r = 0; r < rows; r += m->logits_rows) {
        size_t k = rows - r < m->logits_rows ? rows - r : m->logits_rows;
        layer_product(m, m->logits, elements(m, m->lnf, r * w), factor(m, WTE),
                      &(struct cuda_matmul){.m = k, .n = m->vocab_rows, .k = w, .in = m->c.dtype, .out = m->c.dtype,
                                            .b_transposed = true});
        if (with_grad) {
            layer_loss_backward(m, m->loss + r, target + r, grad_scale, k);
            head_backward(m, r, k);
        } else {
            layer_loss(m, m->loss + r, target + r, k);
        }
    }
    copy_losses(m, rows);
}

/* Where gradients are announced. */
struct listener {
    loop_ready_f *ready;
    void *ctx;
};

/* Parameters id and id + 1 are complete, once what is queued is done. */
static void tell(const gmodel_t *m, const struct listener *who, size_t id)
{
    if (m->failed)
        return;
    who->ready(who->ctx, (int)id + 1);
    who->ready(who->ctx, (int)id);
}

/* dx and dbranch are the gradients of the block's output, and become those of its input. Biases that are added to the
 * stream have theirs from the norm behind it. */
static void backward_block(gmodel_t *m, size_t l, size_t n, const struct listener *who)
{
    const struct glayer *y = &m->layer[l];
    size_t rows = n * m->c.model.context, p = block_id(l, 0);
    if (m->c.model.recompute && l + 1 < m->c.model.layers) /* the last block's are still there */
        forward_block(m, l, n);
    layer_linear_dweight(m, m->dbranch, y->gelu, p + PROJ_W, rows, false);
    tell(m, who, p + PROJ_W);
    layer_linear_din(m, m->dwide, m->dbranch, p + PROJ_W, rows);
    layer_gelu_backward(m, m->dwide, y->fc, p + FC_B, rows);
    layer_linear_dweight(m, m->dwide, y->ln2, p + FC_W, rows, false);
    tell(m, who, p + FC_W);
    layer_linear_din(m, m->dtmp, m->dwide, p + FC_W, rows);
    layer_norm_backward(m, m->dtmp, y->mid, y->mean2, y->rstd2, p + LN2_W, p + OUT_B, rows, false);
    tell(m, who, p + LN2_W);
    layer_linear_dweight(m, m->dbranch, y->att, p + OUT_W, rows, false);
    tell(m, who, p + OUT_W);
    layer_linear_din(m, m->dtmp, m->dbranch, p + OUT_W, rows);
    layer_attention_backward(m, m->dwide, m->dtmp, y, n);
    layer_linear_dweight(m, m->dwide, y->ln1, p + QKV_W, rows, true);
    tell(m, who, p + QKV_W);
    layer_linear_din(m, m->dtmp, m->dwide, p + QKV_W, rows);
    layer_norm_backward(m, m->dtmp, entering(m, l), y->mean1, y->rstd1, p + LN1_W, bias_entering(l), rows, false);
    tell(m, who, p + LN1_W);
}

static void backward(gmodel_t *m, size_t n, const struct listener *who)
{
    size_t layers = m->c.model.layers;
    layer_norm_backward(m, m->dtmp, entering(m, layers), m->meanf, m->rstdf, final_norm(m), bias_entering(layers),
                        n * m->c.model.context, true);
    tell(m, who, final_norm(m));
    for (size_t l = layers; l-- > 0 && !m->failed;)
        backward_block(m, l, n, who);
    layer_embedding_backward(m, n);
    if (!m->failed) {
        who->ready(who->ctx, WPE);
        who->ready(who->ctx, WTE);
    }
}

static double sum(const double *x, size_t n)
{
    double all = 0;
    for (size_t i = 0; i < n; i++)
        all += x[i];
    return all;
}

int gmodel_forward_backward(gmodel_t *m, const int32_t *tokens, size_t n, float grad_scale, loop_ready_f *ready,
                            void *ctx, double *ret_loss_sum, ddp_error_t *errp)
{
    struct listener who = {ready, ctx};
    copy_tokens(m, tokens, n);
    forward(m, n);
    head(m, n, true, grad_scale);
    backward(m, n, &who);
    copy_tokens_used(m);
    if (layers_end(m, errp) < 0 || copy_losses_wait(m, errp) < 0)
        return -1;
    *ret_loss_sum = sum(m->host_loss, n * m->c.model.context);
    return 0;
}

int gmodel_evaluate(gmodel_t *m, const int32_t *tokens, size_t n, double *ret_loss_sum, ddp_error_t *errp)
{
    size_t t = m->c.model.context;
    copy_tokens(m, tokens, n);
    forward(m, n);
    head(m, n, false, 0);
    copy_tokens_used(m);
    if (layers_end(m, errp) < 0 || copy_losses_wait(m, errp) < 0)
        return -1;
    for (size_t b = 0; b < n; b++)
        ret_loss_sum[b] = sum(m->host_loss + b * t, t);
    return 0;
}
