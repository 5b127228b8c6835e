#include "runtime/optimizer/optimizer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_ALIGN (LAYOUT_ALIGN / sizeof(float))

static int check(const struct ddp_optimizer *c, ddp_error_t *errp)
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

/* NULL: there is none of that name. */
static const struct optim_rule *find_rule(const char *name)
{
    static const struct optim_rule *const all[] = {OPTIM_RULES};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!name || !strcmp(all[i]->name, name))
            return all[i];
    return NULL;
}

int optimizer_open(struct optimizer *o, const struct ddp_optimizer *cfg, ddp_error_t *errp)
{
    if (!cfg)
        return error_set(errp, DDP_E_USAGE, EINVAL, "optimizer: none is given: pass a struct ddp_optimizer to "
                         "ddp_commit");
    const struct optim_rule *rule = find_rule(cfg->rule);
    if (!rule)
        return error_set(errp, DDP_E_USAGE, EINVAL, "optimizer: rule = %.30s is none of " DDP_RULES, cfg->rule);
    if (check(cfg, errp) < 0)
        return -1;
    *o = (struct optimizer){.cfg = *cfg, .rule = rule};
    o->cfg.rule = rule->name; /* the caller's text may go */
    return 0;
}

void optimizer_text(const struct optimizer *o, char *ret, size_t size)
{
    const struct ddp_optimizer *c = &o->cfg;
    snprintf(ret, size, "lr=%.9g\nbeta1=%.9g\nbeta2=%.9g\neps=%.9g\nweight_decay=%.9g\nclip=%.9g\nwarmup=%" PRIu64
             "\ntotal=%" PRIu64 "\nmin_lr=%.9g\nrule=%s\n", (double)c->lr, (double)c->beta1, (double)c->beta2,
             (double)c->eps, (double)c->weight_decay, (double)c->clip, c->warmup, c->total, (double)c->min_lr, c->rule);
}

void optimizer_close(struct optimizer *o)
{
    free(o->slice);
    for (int k = 0; !o->is_lent && k < OPTIM_MOMENTS; k++)
        free(o->moment[k]);
    *o = (struct optimizer){0};
}

static bool decays(const struct layout_param *p)
{
    return p->ndim >= 2 && !(p->flags & DDP_NO_DECAY);
}

int optimizer_own(struct optimizer *o, const struct layout *l, int id, size_t first, size_t n_elems, ddp_error_t *errp)
{
    if (o->n_slices == o->room) {
        size_t room = o->room ? 2 * o->room : 64;
        struct optimizer_slice *all = realloc(o->slice, room * sizeof *all);
        if (!all)
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu slices of parameters", room);
        o->slice = all;
        o->room = room;
    }
    const struct layout_param *p = &l->param[id];
    o->slice[o->n_slices++] = (struct optimizer_slice){
        id, p->offset_bytes / sizeof(float) + first, n_elems, o->n_elems, decays(p)};
    o->n_elems += (n_elems + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
    return 0;
}

int optimizer_own_all(struct optimizer *o, const struct layout *l, ddp_error_t *errp)
{
    for (int id = 0; id < l->n; id++)
        if (optimizer_own(o, l, id, 0, l->param[id].n_elems, errp) < 0)
            return -1;
    return 0;
}

int optimizer_allocate(struct optimizer *o, ddp_error_t *errp)
{
    size_t bytes = o->n_elems ? o->n_elems * sizeof(float) : LAYOUT_ALIGN;
    for (int k = 0; k < o->rule->n_moments; k++) {
        o->moment[k] = aligned_alloc(LAYOUT_ALIGN, bytes);
        if (!o->moment[k])
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d x %zu bytes of optimizer state",
                             o->rule->n_moments, bytes);
        memset(o->moment[k], 0, bytes);
    }
    return 0;
}

void optimizer_lend(struct optimizer *o, float *const *moment)
{
    memcpy(o->moment, moment, sizeof o->moment);
    o->is_lent = true;
}

size_t optimizer_bytes(const struct optimizer *o)
{
    return (size_t)o->rule->n_moments * o->n_elems * sizeof(float);
}

double optimizer_lr(const struct ddp_optimizer *c, uint64_t step)
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

void optimizer_begin(struct optimizer *o, double norm, double scale, struct ddp_step *ret)
{
    const struct ddp_optimizer *c = &o->cfg;
    double lr = optimizer_lr(c, o->n_steps);
    norm *= scale;
    bool skipped = !isfinite(norm);
    if (!skipped) {
        /* min(1, max / (norm + 1e-6)): the rule of torch.nn.utils.clip_grad_norm_ */
        double clip = c->clip > 0 && norm + 1e-6 > c->clip ? c->clip / (norm + 1e-6) : 1;
        double t = (double)++o->n_steps;
        o->args = (struct optim_args){.lr = (float)lr,
                                      .beta1 = c->beta1,
                                      .beta2 = c->beta2,
                                      .eps = c->eps,
                                      .weight_decay = c->weight_decay,
                                      .bias1 = (float)(1 - pow(c->beta1, t)),
                                      .bias2 = (float)(1 - pow(c->beta2, t)),
                                      .grad_scale = (float)(scale * clip)};
    }
    ret->step = o->n_steps;
    ret->grad_norm = norm;
    ret->lr = lr;
    ret->skipped = skipped;
}

void optimizer_apply(struct optimizer *o, size_t first, size_t end, float *values, const float *grads,
                     const double *used)
{
    for (const struct optimizer_slice *s = o->slice + first; s < o->slice + end; s++) {
        struct optim_args args = o->args;
        if (used && used[s->id] == 0)
            continue;
        if (!s->decays)
            args.weight_decay = 0;
        float *moment[OPTIM_MOMENTS];
        for (int k = 0; k < o->rule->n_moments; k++)
            moment[k] = o->moment[k] + s->state;
        o->rule->step(values + s->at, moment, grads + s->at, s->n_elems, &args);
    }
}
