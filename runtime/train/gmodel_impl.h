/* gmodel_impl.h - what the files of gmodel share: the model's memory, and one function per layer that enqueues its
 * kernels.
 *
 * T is the model's dtype; what is void * holds elements of it. The residual stream and its gradient are float32. */
#ifndef DDP_RUNTIME_TRAIN_GMODEL_IMPL_H
#define DDP_RUNTIME_TRAIN_GMODEL_IMPL_H

#include "kernels/model/cuda/attention.h"
#include "kernels/model/cuda/embedding.h"
#include "kernels/model/cuda/matmul.h"
#include "runtime/device/device.h"
#include "runtime/train/gmodel.h"

/* One block's activations, rows = batch * context: [rows, width] unless said otherwise. */
struct glayer {
    void *ln1;
    float *mean1, *rstd1; /* [rows] */
    void *qkv;            /* [rows, 3 width] */
    float *stats;         /* attention.h */
    void *att;
    float *mid;           /* after the attention's residual connection */
    void *ln2;
    float *mean2, *rstd2;
    void *fc, *gelu;      /* [rows, 4 width]: the mlp's first product, without its bias, and gelu of it with */
    float *out;
};

/* A batch on its way to the GPU: tokens [n, context + 1], then targets [n * context]. */
struct upload {
    int32_t *host, *device;       /* host: pinned */
    device_event_t *there, *used; /* the copy is done; the last layer that reads `device` is done */
};

struct gmodel {
    struct gmodel_config c;
    size_t n_params, logits_rows;
    size_t vocab_rows;        /* of the embedding, with the rows of zeros behind it; as long is a row of logits */
    struct loop_param *param; /* [n_params] */
    struct ddp_param *tensor; /* [n_params], borrowed memory */
    device_t *device;
    device_stream_t *stream, *copies;
    cuda_blas_t *blas;
    enum cuda_attention_way attention;
    void *workspace;          /* of blas */
    char products[64];
    size_t memory_free;
    struct glayer *layer; /* [layers] */
    void *arena;          /* all below and in layer */
    float *embedded;
    void *lnf;
    float *meanf, *rstdf;
    void *logits;         /* [logits_rows, vocab_rows] */
    double *loss;         /* [rows] */
    float *work;          /* scratch of one kernel at a time */
    uint32_t *sorted;     /* embedding.h */
    float *dx;            /* gradient of the residual stream, */
    void *dbranch;        /* and its copy in T for the branch that was added to the stream; dx where T is float32 */
    void *dwide, *dtmp;   /* gradients [rows, 4 width], [rows, width] */
    double *host_loss;    /* [rows], pinned */
    device_event_t *loss_there;
    struct upload upload[2];
    int turn;             /* the upload in use */
    bool failed;          /* a call of this pass failed: error says why, and nothing more is enqueued */
    ddp_error_t error;
};

static inline bool is_16_bit(const gmodel_t *m)
{
    return m->c.dtype != DDP_F32;
}

static inline float *value(const gmodel_t *m, size_t id)
{
    return m->tensor[id].value;
}

static inline float *grad(const gmodel_t *m, size_t id)
{
    return m->tensor[id].grad;
}

/* The value in the type that products take. */
static inline const void *factor(const gmodel_t *m, size_t id)
{
    const struct ddp_param *p = &m->tensor[id];
    return m->c.dtype == DDP_F32 ? p->value : p->copy;
}

/* a[elems] in T, from element `at` on. */
static inline void *elements(const gmodel_t *m, void *a, size_t at)
{
    return (char *)a + at * dtype_size(m->c.dtype);
}

static inline struct attention_shape attention_shape(const gmodel_t *m, size_t n)
{
    return (struct attention_shape){n, m->c.model.context, m->c.model.width, m->c.model.heads};
}

static inline struct embedding_shape embedding_shape(const gmodel_t *m, size_t n)
{
    size_t t = m->c.model.context;
    return (struct embedding_shape){n, t, m->c.model.width, t + 1};
}

/* Bytes of activations. With base (256-byte aligned), also sets the pointers of m and its layers into that memory
 * (gmodel_memory.c). */
size_t gmodel_deal(gmodel_t *m, void *base);

/* ---- layers: gmodel_layers.c. m keeps an error until layers_end. A weight is parameter id, its bias id + 1. ---- */

/* 0, or -1 and the first error of the pass. */
int layers_end(const gmodel_t *m, ddp_error_t *errp);

void layer_norm(gmodel_t *m, void *out, float *mean, float *rstd, const float *in, size_t id, size_t rows);
/* dx += or (first) =; and, where a branch was added to the stream just before, dbranch from it, and from its columns
 * the gradient of the branch's last bias: parameter bias_before, or 0. */
void layer_norm_backward(gmodel_t *m, const void *dout, const float *in, const float *mean, const float *rstd,
                         size_t id, size_t bias_before, size_t rows, bool first);
void layer_product(gmodel_t *m, void *out, const void *a, const void *b, const struct cuda_matmul *s);
/* out = in weight + bias (NULL: none), in T. */
void layer_linear(gmodel_t *m, void *out, const void *in, const void *bias, size_t id, size_t rows);
/* out = in weight + bias + add, in float32. */
void layer_linear_add(gmodel_t *m, float *out, const void *in, const float *add, size_t id, size_t rows);
/* The gradients of weight and, unless with_bias is false, bias. */
void layer_linear_dweight(gmodel_t *m, const void *dout, const void *in, size_t id, size_t rows, bool with_bias);
void layer_linear_din(gmodel_t *m, void *din, const void *dout, size_t id, size_t rows);
/* out = gelu(in + bias id). */
void layer_gelu(gmodel_t *m, void *out, const void *in, size_t id, size_t rows);
/* d = d gelu'(in + bias id), and that bias's gradient. */
void layer_gelu_backward(gmodel_t *m, void *d, const void *in, size_t id, size_t rows);
void layer_attention(gmodel_t *m, const struct glayer *y, size_t n);
void layer_attention_backward(gmodel_t *m, void *dqkv, const void *dout, const struct glayer *y, size_t n);
void layer_embedding(gmodel_t *m, size_t n);
void layer_embedding_backward(gmodel_t *m, size_t n);
/* loss[rows] from m->logits, */
void layer_loss(gmodel_t *m, double *loss, const int32_t *target, size_t rows);
/* and those become their gradients. */
void layer_loss_backward(gmodel_t *m, double *loss, const int32_t *target, float grad_scale, size_t rows);

/* ---- copies to and from the GPU: gmodel_copy.c ---- */

/* Creates the stream, events and buffers of the copies below. 0 or -1. */
int copies_create(gmodel_t *m, ddp_error_t *errp);
void copies_destroy(gmodel_t *m);
/* Begins a pass: enqueues the copy of tokens [n, context + 1] to m->upload[m->turn].device, for the layers that are
 * enqueued from now on. */
void copy_tokens(gmodel_t *m, const int32_t *tokens, size_t n);
/* Called when the last layer that reads the tokens is enqueued. */
void copy_tokens_used(gmodel_t *m);
/* Enqueues the copy of the losses to the processor; copy_losses_wait returns when they are in m->host_loss, or -1. */
void copy_losses(gmodel_t *m, size_t rows);
int copy_losses_wait(gmodel_t *m, ddp_error_t *errp);

#endif
