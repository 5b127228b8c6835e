/* gmodel_memory.c - where the activations of a model on a GPU lie. */
#include "kernels/model/cuda/gelu.h"
#include "kernels/model/cuda/layernorm.h"
#include "runtime/train/gmodel_impl.h"

#define ALIGN 256
#define LOGITS_ROWS 1024

/* Deals out pieces of one arena; with base NULL it only counts. */
struct dealer {
    char *base;
    size_t used;
};

static void *deal(struct dealer *a, size_t n, size_t elem_bytes)
{
    void *p = a->base ? a->base + a->used : NULL;
    a->used += (n * elem_bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Floats that any kernel needs as scratch. */
static size_t work_elems(const gmodel_t *m, size_t rows)
{
    struct attention_shape s = attention_shape(m, m->c.batch);
    size_t w = m->c.model.width;
    return largest(largest(cuda_attention_stats_elems(&s), cuda_layernorm_work_elems(rows, w)),
                   cuda_gelu_work_elems(rows, 4 * w));
}

static void deal_layer(gmodel_t *m, struct glayer *y, struct dealer *a, size_t rows)
{
    struct attention_shape s = attention_shape(m, m->c.batch);
    size_t t = dtype_size(m->c.dtype), one = rows * m->c.model.width;
    y->ln1 = deal(a, one, t);
    y->mean1 = deal(a, rows, sizeof(float));
    y->rstd1 = deal(a, rows, sizeof(float));
    y->qkv = deal(a, 3 * one, t);
    y->stats = deal(a, cuda_attention_stats_elems(&s), sizeof(float));
    y->att = deal(a, one, t);
    y->mid = deal(a, one, sizeof(float));
    y->ln2 = deal(a, one, t);
    y->mean2 = deal(a, rows, sizeof(float));
    y->rstd2 = deal(a, rows, sizeof(float));
    y->fc = deal(a, 4 * one, t);
    y->gelu = deal(a, 4 * one, t);
}

static void deal_layers(gmodel_t *m, struct dealer *a, size_t rows)
{
    for (size_t l = 0; l < m->c.model.layers; l++) {
        if (l == 0 || !m->c.model.recompute)
            deal_layer(m, &m->layer[l], a, rows);
        else
            m->layer[l] = m->layer[0];
        m->layer[l].out = deal(a, rows * m->c.model.width, sizeof(float));
    }
}

static size_t over(size_t n, size_t unit)
{
    return (n + unit - 1) / unit;
}

/* The head's slices are as few as products allow, since each of them reads and writes the embedding's whole gradient,
 * and of one size, up to whole LOGITS_ROWS rows. */
static void set_logits(gmodel_t *m, size_t rows)
{
    m->vocab_rows = over(m->c.model.vocab, DDP_PAD_MULTIPLE) * DDP_PAD_MULTIPLE;
    size_t most = m->c.logits_rows ? m->c.logits_rows : largest(CUDA_MATMUL_ELEMS_MAX / m->vocab_rows, 1);
    size_t unit = most < LOGITS_ROWS ? 1 : LOGITS_ROWS;
    size_t each = over(over(rows, over(rows, most / unit * unit)), unit) * unit;
    m->logits_rows = each < rows ? each : rows;
}

size_t gmodel_deal(gmodel_t *m, void *base)
{
    struct embedding_shape e = embedding_shape(m, m->c.batch);
    size_t t = dtype_size(m->c.dtype), rows = m->c.batch * m->c.model.context, one = rows * m->c.model.width;
    size_t words = m->c.batch * (2 * m->c.model.context + 1);
    struct dealer a = {.base = base};
    set_logits(m, rows);
    m->embedded = deal(&a, one, sizeof(float));
    deal_layers(m, &a, rows);
    m->lnf = deal(&a, one, t);
    m->meanf = deal(&a, rows, sizeof(float));
    m->rstdf = deal(&a, rows, sizeof(float));
    m->logits = deal(&a, m->logits_rows * m->vocab_rows, t);
    m->loss = deal(&a, rows, sizeof(double));
    m->work = deal(&a, work_elems(m, rows), sizeof(float));
    m->sorted = deal(&a, cuda_embedding_sorted_elems(&e), sizeof(uint32_t));
    m->dx = deal(&a, one, sizeof(float));
    m->dbranch = is_16_bit(m) ? deal(&a, one, t) : m->dx;
    m->dwide = deal(&a, 4 * one, t);
    m->dtmp = deal(&a, one, t);
    for (int i = 0; i < 2; i++)
        m->upload[i].device = deal(&a, words, sizeof(int32_t));
    return a.used;
}
