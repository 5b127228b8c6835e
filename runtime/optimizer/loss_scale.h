/* loss_scale.h - the factor that losses are multiplied by, so that gradients that are small do not vanish where they are
 * rounded to 16 bits. Pure.
 *
 * Dynamic, it follows the rule and the defaults of torch.amp.GradScaler (PyTorch's documentation): it begins at 2^16, is
 * halved after a step whose gradient is not finite, which is skipped, and doubled after 2000 steps in a row that were
 * taken. There it multiplies a mean over tokens; here each token's own loss, since gradients are divided by their
 * number after they are summed, in float32. float16 ends at 65504: a model that computes in it begins with some skipped
 * steps, one for each halving, and is then at the largest scale that does not overflow, where the least is lost to small
 * gradients. To begin lower would be no better: the way up takes 2000 steps for each doubling.
 *
 * It is a power of two, which a float takes into its exponent: where nothing is rounded to 16 bits, and nothing
 * overflows, training has the same bits as without. */
#ifndef DDP_RUNTIME_OPTIMIZER_LOSS_SCALE_H
#define DDP_RUNTIME_OPTIMIZER_LOSS_SCALE_H

#include <stdbool.h>

#include "runtime/base/error.h"

#define SCALER_GROWTH_STEPS 2000

struct scaler {
    bool is_dynamic;
    int log2;
    int n_good; /* steps in a row that were taken since it changed */
};

/* text: "off", "dynamic", a power of two, or "auto": dynamic if is_f16, the model's gradients are float16, else off. */
int scaler_parse(const char *text, bool is_f16, struct scaler *ret, ddp_error_t *errp);

double scaler_scale(const struct scaler *s);
void scaler_after_step(struct scaler *s, bool skipped);

/* Goes on where another one was, if this is dynamic; scale 0: nothing is known of it. */
void scaler_restore(struct scaler *s, double scale, int n_good);

#endif
