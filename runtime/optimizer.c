#include "runtime/optimizer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/optim.h"

static int check(const struct ddp_adamw *c, ddp_error_t *errp)
{
    const struct {
        const char *name;
        double value, min, max;
    } field[] = {
        {"lr", c->lr, 0, 1e6},
        {"beta1", c->beta1, 0, 0.9999999},
        {"beta2", c->beta2, 0, 0.9999999},
        {"eps", c->eps, 0, 1},
        {"weight_decay", c->weight_decay, 0, 1e6},
        {"clip", c->clip, 0, 1e30},
        {"min_lr", c->min_lr, 0, c->lr},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (!(field[i].value >= field[i].min && field[i].value <= field[i].max))
            return error_set(errp, DDP_E_USAGE, EINVAL, "optimizer: %s = %g is outside %g..%g", field[i].name,
                             field[i].value, field[i].min, field[i].max);
    if (c->total && c->warmup > c->total)
        return error_set(errp, DDP_E_USAGE, EINVAL, "optimizer: warmup is longer than total");
    return 0;
}

int optimizer_open(struct optimizer *o, const struct ddp_adamw *cfg, const struct layout *l, ddp_error_t *errp)
{
    if (check(cfg, errp) < 0)
        return -1;
    struct optimizer made = {.cfg = *cfg};
    if (!cfg->sgd) {
        size_t n = l->n_bytes ? l->n_bytes : 1;
        made.n_elems = l->n_bytes / sizeof(float);
        made.m = calloc(1, n);
        made.v = calloc(1, n);
        if (!made.m || !made.v) {
            optimizer_close(&made);
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for 2 x %zu bytes of optimizer state", n);
        }
    }
    *o = made;
    return 0;
}

void optimizer_close(struct optimizer *o)
{
    free(o->m);
    free(o->v);
    *o = (struct optimizer){0};
}

size_t optimizer_bytes(const struct optimizer *o)
{
    return 2 * o->n_elems * sizeof(float);
}

double optimizer_lr(const struct ddp_adamw *c, uint64_t step)
{
    if (step < c->warmup)
        return (double)c->lr * (double)(step + 1) / (double)c->warmup;
    if (!c->total)
        return c->lr;
    if (step >= c->total)
        return c->min_lr;
    double done = (double)(step - c->warmup) / (double)(c->total - c->warmup);
    return c->min_lr + 0.5 * (1 + cos(M_PI * done)) * ((double)c->lr - c->min_lr);
}

static bool decays(const struct layout_param *p)
{
    return p->ndim >= 2 && !(p->flags & DDP_NO_DECAY);
}

static void apply(struct optimizer *o, const struct layout *l, float *values, const float *grads, const double *used,
                  struct adamw_args args)
{
    float weight_decay = args.weight_decay;
    for (int i = 0; i < l->n; i++) {
        const struct layout_param *p = &l->param[i];
        size_t at = p->offset_bytes / sizeof(float);
        if (used && used[i] == 0)
            continue;
        args.weight_decay = decays(p) ? weight_decay : 0;
        if (o->cfg.sgd)
            kernel_sgd(values + at, grads + at, p->n_elems, &args);
        else
            kernel_adamw(values + at, o->m + at, o->v + at, grads + at, p->n_elems, &args);
    }
}

void optimizer_step(struct optimizer *o, const struct layout *l, float *values, const float *grads, double norm,
                    double scale, const double *used, struct ddp_step *ret)
{
    const struct ddp_adamw *c = &o->cfg;
    double lr = optimizer_lr(c, o->n_steps);
    norm *= scale;
    bool skipped = !isfinite(norm);
    if (!skipped) {
        /* min(1, max / (norm + 1e-6)): the rule of torch.nn.utils.clip_grad_norm_ */
        double clip = c->clip > 0 && norm + 1e-6 > c->clip ? c->clip / (norm + 1e-6) : 1;
        double t = (double)++o->n_steps;
        apply(o, l, values, grads, used,
              (struct adamw_args){.lr = (float)lr,
                                  .beta1 = c->beta1,
                                  .beta2 = c->beta2,
                                  .eps = c->eps,
                                  .weight_decay = c->weight_decay,
                                  .bias1 = (float)(1 - pow(c->beta1, t)),
                                  .bias2 = (float)(1 - pow(c->beta2, t)),
                                  .grad_scale = (float)(scale * clip)});
    }
    ret->step = o->n_steps;
    ret->grad_norm = norm;
    ret->lr = lr;
    ret->skipped = skipped;
}
