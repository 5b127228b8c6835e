#include "runtime/optimizer/shards.h"

#include <errno.h>
#include <stdlib.h>

#include "kernels/fold.h"

static float *take_here(void *ctx, size_t n_bytes, ddp_error_t *errp)
{
    (void)ctx;
    float *p = aligned_alloc(64, n_bytes);
    if (!p)
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the partial sums of shards, %zu bytes each: use fewer "
                  "shards per rank", n_bytes);
    return p;
}

static void give_here(void *ctx, float *p)
{
    (void)ctx;
    free(p);
}

static int fold_here(void *ctx, float *out, const float *const *in, int n_in, size_t n, ddp_error_t *errp)
{
    (void)ctx;
    (void)errp;
    kernel_fold(out, in, n_in, n);
    return 0;
}

static const struct shards_place here = {.take = take_here, .give = give_here, .fold = fold_here};

int shards_open(struct shards *p, int n_shards, size_t n_elems, const struct shards_place *place,
                ddp_error_t *errp)
{
    struct shards made = {.place = place ? *place : here, .n_elems = n_elems};
    size_t bytes = (n_elems * sizeof(float) + 63) / 64 * 64;
    for (; n_shards > 1; n_shards /= 2) {
        float *level = made.place.take(made.place.ctx, bytes ? bytes : 64, errp);
        if (!level) {
            shards_close(&made);
            return -1;
        }
        made.level[made.n_levels++] = level;
    }
    *p = made;
    return 0;
}

void shards_close(struct shards *p)
{
    for (int j = 0; j < p->n_levels; j++)
        p->place.give(p->place.ctx, p->level[j]);
    *p = (struct shards){0};
}

size_t shards_bytes(const struct shards *p)
{
    return (size_t)p->n_levels * p->n_elems * sizeof(float);
}

/* out = level[k-1] + (... + (level[0] + shard)), over n elements from `first`. */
static int fold(const struct shards *p, int k, float *out, const float *shard, size_t first, size_t n,
                ddp_error_t *errp)
{
    const float *in[SHARDS_MAX_LEVELS + 1];
    for (int j = 0; j < k; j++)
        in[j] = p->level[k - 1 - j] + first;
    in[k] = shard + first;
    return p->place.fold(p->place.ctx, out + first, in, k + 1, n, errp);
}

static double fold_loss(const struct shards *p, int k, double loss)
{
    for (int j = 0; j < k; j++)
        loss = p->loss[j] + loss;
    return loss;
}

int shards_keep(struct shards *p, int i, const float *grads, double loss, ddp_error_t *errp)
{
    int k = __builtin_ctz(~(unsigned)i);
    p->loss[k] = fold_loss(p, k, loss);
    return fold(p, k, p->level[k], grads, 0, p->n_elems, errp);
}

int shards_fold(const struct shards *p, float *grads, size_t first, size_t n, ddp_error_t *errp)
{
    return p->n_levels > 0 ? fold(p, p->n_levels, grads, grads, first, n, errp) : 0;
}

double shards_fold_loss(const struct shards *p, double loss)
{
    return fold_loss(p, p->n_levels, loss);
}
