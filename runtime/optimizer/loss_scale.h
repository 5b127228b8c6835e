/* loss_scale.h - the factor that losses are multiplied by, so that small gradients do not vanish where they are rounded
 * to 16 bits. Pure.
 *
 * A dynamic scale follows the rule and the defaults of torch.amp.GradScaler (PyTorch's documentation): it begins at
 * 2^16, is halved after a step whose gradient is not finite (that step is skipped), and is doubled after 2000 steps in
 * a row that were not skipped. PyTorch multiplies a mean over tokens by it; libddp multiplies each token's loss,
 * because it divides gradients by the number of tokens after they are summed, in float32. The largest float16 is 65504:
 * a model that computes in float16 begins with some skipped steps, one for each halving, and then has the largest scale
 * that does not overflow, with which the fewest small gradients vanish. A lower start would be no better, since each
 * doubling takes 2000 steps.
 *
 * The scale is a power of two, so it changes only a float's exponent: where nothing is rounded to 16 bits and nothing
 * overflows, training gives the same bits as without a scale. */
#ifndef DDP_RUNTIME_OPTIMIZER_LOSS_SCALE_H
#define DDP_RUNTIME_OPTIMIZER_LOSS_SCALE_H

#include <stdbool.h>

#include "runtime/base/error.h"

#define LOSS_SCALE_GROWTH_STEPS 2000

struct loss_scale {
    bool is_dynamic;
    int log2;
    int n_good; /* steps in a row, since the scale changed, that were not skipped */
};

/* text: "off", "dynamic", a power of two, or "auto": dynamic if is_f16 (the model's gradients are float16), else
 * off. */
int loss_scale_parse(const char *text, bool is_f16, struct loss_scale *ret, ddp_error_t *errp);

double loss_scale_factor(const struct loss_scale *s);
void loss_scale_after_step(struct loss_scale *s, bool skipped);

/* If s is dynamic, continues from a saved state; scale 0: none was saved, and s stays as it is. */
void loss_scale_restore(struct loss_scale *s, double scale, int n_good);

#endif
