#include "runtime/train/lm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define GROUP_TOKENS 512 /* validation windows come in groups of about so many tokens, whatever the batch */

struct lm {
    model_t *model;
    size_t context, vocab;
    struct lm_part train, val;
    int32_t *tokens; /* [batch or group, context + 1] */
};

uint64_t lm_windows(const struct lm_part *part, size_t context)
{
    return part->count ? (part->count - 1) / context : 0;
}

int lm_split(const tokens_t *all, size_t context, struct lm_part *ret_train, struct lm_part *ret_val,
             ddp_error_t *errp)
{
    uint64_t n = tokens_count(all), held = n / 20 > context + 1 ? n / 20 : context + 1;
    if (n < held + context + 1)
        return error_set(errp, DDP_E_DATA, 0, "%" PRIu64 " tokens of data are too few: training and validation need a"
                         " window of %zu each: give more --data or a smaller --context", n, context + 1);
    *ret_train = (struct lm_part){all, 0, n - held};
    *ret_val = (struct lm_part){all, n - held, held};
    return 0;
}

static int take(struct lm *lm, const struct lm_part *part, uint64_t window, int32_t *ret, ddp_error_t *errp)
{
    return tokens_copy(part->tokens, part->first + window * lm->context, lm->context + 1, lm->vocab, ret, errp);
}

static int bind(void *self, const struct ddp_param *tensor, ddp_error_t *errp)
{
    struct lm *lm = self;
    return model_bind(lm->model, tensor, errp);
}

static void init(void *self, uint64_t seed)
{
    struct lm *lm = self;
    model_init(lm->model, seed);
}

static int forward_backward(void *self, const uint64_t *sample, size_t n, float grad_scale, loop_ready_f *ready,
                            void *ctx, double *ret_loss_sum, uint64_t *ret_n_tokens, ddp_error_t *errp)
{
    struct lm *lm = self;
    for (size_t i = 0; i < n; i++)
        if (take(lm, &lm->train, sample[i], lm->tokens + i * (lm->context + 1), errp) < 0)
            return -1;
    *ret_loss_sum = model_forward_backward(lm->model, lm->tokens, n, grad_scale, ready, ctx);
    *ret_n_tokens = n * lm->context;
    return 0;
}

static int evaluate(void *self, size_t first, size_t n, double *ret_loss_sum, ddp_error_t *errp)
{
    struct lm *lm = self;
    for (size_t i = 0; i < n; i++)
        if (take(lm, &lm->val, first + i, lm->tokens + i * (lm->context + 1), errp) < 0)
            return -1;
    model_evaluate(lm->model, lm->tokens, n, ret_loss_sum);
    return 0;
}

static void destroy(void *self)
{
    struct lm *lm = self;
    if (lm) {
        model_destroy(lm->model);
        free(lm->tokens);
        free(lm);
    }
}

int lm_create(struct loop_model *ret, const struct model_config *c, size_t batch, const struct lm_part *train,
              const struct lm_part *val, uint64_t max_windows, ddp_error_t *errp)
{
    size_t group = GROUP_TOKENS / c->context ? GROUP_TOKENS / c->context : 1;
    uint64_t n_windows = lm_windows(val, c->context);
    struct lm *lm = calloc(1, sizeof *lm);
    if (!lm)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a model");
    if (batch < group)
        batch = group;
    *lm = (struct lm){.context = c->context, .vocab = c->vocab, .train = *train, .val = *val};
    lm->model = model_create(c, batch, errp);
    if (!lm->model) {
        destroy(lm);
        return -1;
    }
    lm->tokens = calloc(batch, (c->context + 1) * sizeof *lm->tokens);
    if (!lm->tokens) {
        destroy(lm);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu samples: take a smaller --batch", batch);
    }
    *ret = (struct loop_model){
        .self = lm,
        .bind = bind,
        .init = init,
        .forward_backward = forward_backward,
        .n_windows = max_windows && max_windows < n_windows ? max_windows : n_windows,
        .group = group,
        .tokens_per_window = c->context,
        .evaluate = evaluate,
        .destroy = destroy,
    };
    ret->param = model_params(lm->model, &ret->n_params);
    return 0;
}
