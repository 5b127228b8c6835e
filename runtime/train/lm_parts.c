/* lm_parts.c - which tokens are for training and which for validation. */
#include <inttypes.h>

#include "runtime/train/lm.h"

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
