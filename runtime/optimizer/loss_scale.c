#include "runtime/optimizer/loss_scale.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "runtime/base/num.h"

#define FIRST_LOG2 16
#define LEAST_LOG2 (-100) /* a float's range, with room for the gradients */
#define GREATEST_LOG2 100

int loss_scale_parse(const char *text, bool is_f16, struct loss_scale *ret, ddp_error_t *errp)
{
    double x;
    int log2;
    *ret = (struct loss_scale){.log2 = 0};
    if (!strcmp(text, "auto"))
        text = is_f16 ? "dynamic" : "off";
    if (!strcmp(text, "off"))
        return 0;
    if (!strcmp(text, "dynamic")) {
        *ret = (struct loss_scale){.is_dynamic = true, .log2 = FIRST_LOG2};
        return 0;
    }
    if (num_double(text, ldexp(1, LEAST_LOG2), ldexp(1, GREATEST_LOG2), &x) < 0 || frexp(x, &log2) != 0.5)
        return error_set(errp, DDP_E_USAGE, EINVAL, "loss-scale=%.60s is not allowed: use auto, off, dynamic or a "
                         "power of two (1024)", text);
    ret->log2 = log2 - 1;
    return 0;
}

double loss_scale_factor(const struct loss_scale *s)
{
    return ldexp(1, s->log2);
}

void loss_scale_after_step(struct loss_scale *s, bool skipped)
{
    if (!s->is_dynamic)
        return;
    s->n_good = skipped ? 0 : s->n_good + 1;
    if (skipped && s->log2 > LEAST_LOG2)
        s->log2--;
    if (s->n_good == LOSS_SCALE_GROWTH_STEPS) {
        s->n_good = 0;
        s->log2 += s->log2 < GREATEST_LOG2;
    }
}

void loss_scale_restore(struct loss_scale *s, double scale, int n_good)
{
    int log2;
    if (!s->is_dynamic || !(scale > 0) || frexp(scale, &log2) != 0.5)
        return;
    log2--;
    s->log2 = log2 < LEAST_LOG2 ? LEAST_LOG2 : log2 > GREATEST_LOG2 ? GREATEST_LOG2 : log2;
    s->n_good = n_good < LOSS_SCALE_GROWTH_STEPS ? n_good : 0;
}
