#include "runtime/partials.h"

#include <errno.h>
#include <stdlib.h>

#include "kernels/fold.h"

int partials_open(struct partials *p, int n_shards, size_t n_elems, ddp_error_t *errp)
{
    struct partials made = {.n_elems = n_elems};
    size_t bytes = (n_elems * sizeof(float) + 63) / 64 * 64;
    for (; n_shards > 1; n_shards /= 2) {
        float *level = aligned_alloc(64, bytes ? bytes : 64);
        if (!level) {
            partials_close(&made);
            return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the partial sums of shards, %zu bytes each: "
                             "use fewer shards per rank", bytes);
        }
        made.level[made.n_levels++] = level;
    }
    *p = made;
    return 0;
}

void partials_close(struct partials *p)
{
    for (int j = 0; j < p->n_levels; j++)
        free(p->level[j]);
    *p = (struct partials){0};
}

size_t partials_bytes(const struct partials *p)
{
    return (size_t)p->n_levels * p->n_elems * sizeof(float);
}

/* out = level[k-1] + (... + (level[0] + shard)), over n elements from `first`. */
static void fold(const struct partials *p, int k, float *out, const float *shard, size_t first, size_t n)
{
    const float *in[PARTIALS_MAX_LEVELS + 1];
    for (int j = 0; j < k; j++)
        in[j] = p->level[k - 1 - j] + first;
    in[k] = shard + first;
    kernel_fold(out + first, in, k + 1, n);
}

static double fold_loss(const struct partials *p, int k, double loss)
{
    for (int j = 0; j < k; j++)
        loss = p->loss[j] + loss;
    return loss;
}

void partials_keep(struct partials *p, int i, const float *grads, double loss)
{
    int k = __builtin_ctz(~(unsigned)i);
    fold(p, k, p->level[k], grads, 0, p->n_elems);
    p->loss[k] = fold_loss(p, k, loss);
}

void partials_fold(const struct partials *p, float *grads, size_t first, size_t n)
{
    if (p->n_levels > 0)
        fold(p, p->n_levels, grads, grads, first, n);
}

double partials_fold_loss(const struct partials *p, double loss)
{
    return fold_loss(p, p->n_levels, loss);
}
