#include "runtime/train/lm.h"

#include <errno.h>
#include <stdlib.h>

#include "kernels/model/matmul.h"
#include "runtime/train/gmodel.h"
#include "runtime/train/prefetch.h"

#define GROUP_TOKENS 512 /* validation windows come in groups of about so many tokens, whatever the batch */

struct lm {
    model_t *model;       /* on the processor, or */
    gmodel_t *gmodel;     /* on a GPU; the other one is NULL */
    const struct loop_param *param;
    struct lm_options o;
    size_t context, vocab;
    struct lm_part train, val;
    prefetch_t *prefetch; /* of train */
    uint64_t *first;      /* [batch] where the windows of the present samples begin */
    uint64_t *next;       /* [n_next] those of the next, not asked for yet */
    size_t n_next;
    int32_t *tokens;      /* [group, context + 1] for validation */
    loop_mark_f *mark;    /* or NULL */
    void *mark_ctx;
};

static uint64_t first_token(const struct lm *lm, const struct lm_part *part, uint64_t window)
{
    return part->first + window * lm->context;
}

static int bind(void *self, const struct ddp_param *tensor, ddp_error_t *errp)
{
    struct lm *lm = self;
    return lm->gmodel ? gmodel_bind(lm->gmodel, tensor, errp) : model_bind(lm->model, tensor, errp);
}

static void init(void *self, uint64_t seed, size_t id, float *ret)
{
    const struct lm *lm = self;
    model_params_init(&lm->o.model, lm->param, id, seed, ret);
}

static void prefetch(void *self, const uint64_t *sample, size_t n)
{
    struct lm *lm = self;
    for (size_t i = 0; i < n; i++)
        lm->next[i] = first_token(lm, &lm->train, sample[i]);
    lm->n_next = n;
}

static int forward_backward(void *self, const uint64_t *sample, size_t n, float grad_scale, loop_ready_f *ready,
                            void *ctx, double *ret_loss_sum, uint64_t *ret_n_tokens, ddp_error_t *errp)
{
    struct lm *lm = self;
    const int32_t *tokens;
    for (size_t i = 0; i < n; i++)
        lm->first[i] = first_token(lm, &lm->train, sample[i]);
    if (prefetch_take(lm->prefetch, lm->first, n, &tokens, errp) < 0)
        return -1;
    if (lm->mark)
        lm->mark(lm->mark_ctx, DDP_MARK_FORWARD);
    if (lm->n_next > 0)
        prefetch_start(lm->prefetch, lm->next, lm->n_next);
    lm->n_next = 0;
    *ret_n_tokens = n * lm->context;
    if (lm->gmodel)
        return gmodel_forward_backward(lm->gmodel, tokens, n, grad_scale, ready, ctx, ret_loss_sum, errp);
    *ret_loss_sum = model_forward_backward(lm->model, tokens, n, grad_scale, ready, ctx);
    return 0;
}

/* On a GPU the host knows no border between forward and backward. */
static void listen(void *self, loop_mark_f *mark, void *ctx)
{
    struct lm *lm = self;
    lm->mark = mark;
    lm->mark_ctx = ctx;
    if (lm->model)
        model_listen(lm->model, mark, ctx);
}

static int evaluate(void *self, size_t first, size_t n, double *ret_loss_sum, ddp_error_t *errp)
{
    struct lm *lm = self;
    for (size_t i = 0; i < n; i++)
        if (tokens_copy(lm->val.tokens, first_token(lm, &lm->val, first + i), lm->context + 1, lm->vocab,
                        lm->tokens + i * (lm->context + 1), errp) < 0)
            return -1;
    if (lm->gmodel)
        return gmodel_evaluate(lm->gmodel, lm->tokens, n, ret_loss_sum, errp);
    model_evaluate(lm->model, lm->tokens, n, ret_loss_sum);
    return 0;
}

static void destroy(void *self)
{
    struct lm *lm = self;
    if (lm) {
        prefetch_destroy(lm->prefetch);
        model_destroy(lm->model);
        gmodel_destroy(lm->gmodel);
        free(lm->first);
        free(lm->next);
        free(lm->tokens);
        free(lm);
    }
}

/* The most samples that come at once, validation's included. */
static size_t largest_batch(const struct lm_options *o, size_t group)
{
    return o->batch > group ? o->batch : group;
}

static struct gmodel_config gmodel_config_of(const struct lm_options *o, size_t group)
{
    return (struct gmodel_config){.model = o->model, .batch = largest_batch(o, group), .dtype = o->dtype,
                                  .wgmma = o->wgmma, .ordinal = o->ordinal, .rank = o->rank, .timeout_s = o->timeout_s};
}

static int open_model(struct lm *lm, size_t group, struct loop_model *ret, ddp_error_t *errp)
{
    if (lm->o.is_gpu) {
        struct gmodel_config c = gmodel_config_of(&lm->o, group);
        lm->gmodel = gmodel_create(&c, errp);
        if (!lm->gmodel)
            return -1;
        ret->param = gmodel_params(lm->gmodel, &ret->n_params);
        ret->stream = gmodel_stream(lm->gmodel);
    } else {
        lm->model = model_create(&lm->o.model, largest_batch(&lm->o, group), errp);
        if (!lm->model)
            return -1;
        ret->param = model_params(lm->model, &ret->n_params);
    }
    lm->param = ret->param;
    return 0;
}

static int open_data(struct lm *lm, size_t group, ddp_error_t *errp)
{
    size_t batch = lm->o.batch;
    lm->prefetch = prefetch_create(lm->train.tokens, batch, lm->context + 1, lm->vocab, errp);
    if (!lm->prefetch)
        return -1;
    lm->first = calloc(batch, sizeof *lm->first);
    lm->next = calloc(batch, sizeof *lm->next);
    lm->tokens = calloc(group, (lm->context + 1) * sizeof *lm->tokens);
    if (!lm->first || !lm->next || !lm->tokens)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu samples: take a smaller --batch", batch);
    return 0;
}

int lm_create(struct loop_model *ret, const struct lm_options *o, const struct lm_part *train,
              const struct lm_part *val, ddp_error_t *errp)
{
    size_t context = o->model.context, group = GROUP_TOKENS / context ? GROUP_TOKENS / context : 1;
    uint64_t n_windows = lm_windows(val, context);
    struct lm *lm = calloc(1, sizeof *lm);
    if (!lm)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a model");
    *lm = (struct lm){.o = *o, .context = context, .vocab = o->model.vocab, .train = *train, .val = *val};
    struct loop_model m = {
        .self = lm,
        .bind = bind,
        .init = init,
        .prefetch = prefetch,
        .forward_backward = forward_backward,
        .listen = listen,
        .n_windows = o->max_windows && o->max_windows < n_windows ? o->max_windows : n_windows,
        .group = group,
        .tokens_per_window = context,
        .evaluate = evaluate,
        .destroy = destroy,
    };
    if (open_model(lm, group, &m, errp) < 0 || open_data(lm, group, errp) < 0) {
        destroy(lm);
        return -1;
    }
    *ret = m;
    return 0;
}

static size_t activation_bytes(const struct lm *lm, size_t group, bool recompute)
{
    struct lm_options o = lm->o;
    o.model.recompute = recompute;
    struct gmodel_config c = gmodel_config_of(&o, group);
    return o.is_gpu ? gmodel_activation_bytes(&c) : model_activation_bytes(&o.model, c.batch);
}

struct lm_about lm_about(const struct loop_model *m)
{
    const struct lm *lm = m->self;
    return (struct lm_about){
        .products = lm->gmodel ? gmodel_products(lm->gmodel) : kernel_matmul_name(),
        .activation_bytes = activation_bytes(lm, m->group, lm->o.model.recompute),
        .kept_bytes = activation_bytes(lm, m->group, false),
        .memory_free = lm->gmodel ? gmodel_memory_free(lm->gmodel) : 0,
    };
}
