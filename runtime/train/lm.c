#include "runtime/train/lm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/train/prefetch.h"

#define GROUP_TOKENS 512 /* validation windows come in groups of about so many tokens, whatever the batch */

struct lm {
    model_t *model;
    size_t context, vocab;
    struct lm_part train, val;
    prefetch_t *prefetch; /* of train */
    uint64_t *first;      /* [batch] where the windows of the present samples begin */
    uint64_t *next;       /* [n_next] those of the next, not asked for yet */
    size_t n_next;
    int32_t *tokens;      /* [group, context + 1] for validation */
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

static uint64_t first_token(const struct lm *lm, const struct lm_part *part, uint64_t window)
{
    return part->first + window * lm->context;
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
    if (lm->n_next > 0)
        prefetch_start(lm->prefetch, lm->next, lm->n_next);
    lm->n_next = 0;
    *ret_loss_sum = model_forward_backward(lm->model, tokens, n, grad_scale, ready, ctx);
    *ret_n_tokens = n * lm->context;
    return 0;
}

static int evaluate(void *self, size_t first, size_t n, double *ret_loss_sum, ddp_error_t *errp)
{
    struct lm *lm = self;
    for (size_t i = 0; i < n; i++)
        if (tokens_copy(lm->val.tokens, first_token(lm, &lm->val, first + i), lm->context + 1, lm->vocab,
                        lm->tokens + i * (lm->context + 1), errp) < 0)
            return -1;
    model_evaluate(lm->model, lm->tokens, n, ret_loss_sum);
    return 0;
}

static void destroy(void *self)
{
    struct lm *lm = self;
    if (lm) {
        prefetch_destroy(lm->prefetch);
        model_destroy(lm->model);
        free(lm->first);
        free(lm->next);
        free(lm->tokens);
        free(lm);
    }
}

static int open_lm(struct lm *lm, const struct model_config *c, size_t batch, size_t group, ddp_error_t *errp)
{
    lm->model = model_create(c, batch > group ? batch : group, errp);
    if (!lm->model)
        return -1;
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

int lm_create(struct loop_model *ret, const struct model_config *c, size_t batch, const struct lm_part *train,
              const struct lm_part *val, uint64_t max_windows, ddp_error_t *errp)
{
    size_t group = GROUP_TOKENS / c->context ? GROUP_TOKENS / c->context : 1;
    uint64_t n_windows = lm_windows(val, c->context);
    struct lm *lm = calloc(1, sizeof *lm);
    if (!lm)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a model");
    *lm = (struct lm){.context = c->context, .vocab = c->vocab, .train = *train, .val = *val};
    if (open_lm(lm, c, batch, group, errp) < 0) {
        destroy(lm);
        return -1;
    }
    *ret = (struct loop_model){
        .self = lm,
        .bind = bind,
        .init = init,
        .prefetch = prefetch,
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
