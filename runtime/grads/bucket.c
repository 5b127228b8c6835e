#include "runtime/grads/bucket.h"

#include <errno.h>
#include <stdlib.h>

int bucket_plan_open(struct bucket_plan *p, int n_params, ddp_error_t *errp)
{
    size_t n = (size_t)n_params + 1;
    struct bucket_plan made = {.n_params = n_params};
    made.param = calloc(n, sizeof *made.param);
    made.first = calloc(n, sizeof *made.first);
    made.bucket_of = calloc(n, sizeof *made.bucket_of);
    if (!made.param || !made.first || !made.bucket_of) {
        bucket_plan_close(&made);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the buckets of %d parameters", n_params);
    }
    *p = made;
    return 0;
}

void bucket_plan_close(struct bucket_plan *p)
{
    free(p->param);
    free(p->first);
    free(p->bucket_of);
    *p = (struct bucket_plan){0};
}

/* Bytes of parameter id's gradient without its padding, which does not travel. */
static size_t param_bytes(const struct layout *l, int id)
{
    return l->param[id].n_elems * dtype_size(l->param[id].dtype);
}

/* order may be p->param itself. */
static void set_order(struct bucket_plan *p, const int *order)
{
    for (int i = 0; i < p->n_params; i++)
        p->param[i] = order ? order[i] : p->n_params - 1 - i;
}

static void close_bucket(struct bucket_plan *p, int end)
{
    for (int i = p->first[p->n_buckets]; i < end; i++)
        p->bucket_of[p->param[i]] = p->n_buckets;
    p->first[++p->n_buckets] = end;
}

void bucket_plan_by_size(struct bucket_plan *p, const int *order, const struct layout *l, size_t first_cap, size_t cap)
{
    size_t held = 0;
    set_order(p, order);
    p->n_buckets = 0;
    for (int i = 0; i < p->n_params; i++) {
        held += param_bytes(l, p->param[i]);
        if (held >= (p->n_buckets == 0 ? first_cap : cap) || i + 1 == p->n_params) {
            close_bucket(p, i + 1);
            held = 0;
        }
    }
}

void bucket_plan_by_cuts(struct bucket_plan *p, const int *order, const int *end, int n_buckets)
{
    set_order(p, order);
    p->n_buckets = 0;
    for (int b = 0; b < n_buckets; b++)
        close_bucket(p, end[b]);
}
