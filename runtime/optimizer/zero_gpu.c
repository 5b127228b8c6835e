#include "runtime/optimizer/zero_gpu.h"

#include <errno.h>
#include <stdlib.h>

#define PAD_MOST 8 /* a part of a bucket */

size_t zero_gpu_cap(int n_ranks)
{
    return PAD_MOST * (size_t)n_ranks * ZERO_GPU_UNIT * sizeof(float);
}

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Parameters lie in registration order, and bucket 0 has the last ones. */
static void lay_out(struct zero_gpu *s, struct layout *l, size_t n_ranks)
{
    size_t at = 0;
    int id = 0;
    for (int b = s->plan.n_buckets - 1; b >= 0; b--) {
        struct zero_gpu_bucket *bucket = &s->bucket[b];
        bucket->at = at;
        for (; id < l->n && s->plan.bucket_of[id] == b; id++) {
            l->param[id].offset_bytes = at * sizeof(float);
            at += round_up(l->param[id].room_bytes / sizeof(float), ZERO_GPU_UNIT);
        }
        at = bucket->at + round_up(at - bucket->at, n_ranks * ZERO_GPU_UNIT);
        bucket->n_each = (at - bucket->at) / n_ranks;
    }
    l->n_bytes = at * sizeof(float);
}

/* What of parameter id lies in elements [from, end) of the arena. */
static int own(const struct layout *l, int id, size_t from, size_t end, struct optimizer *o, ddp_error_t *errp)
{
    size_t at = l->param[id].offset_bytes / sizeof(float), stop = at + l->param[id].n_elems;
    size_t first = from > at ? from : at, last = end < stop ? end : stop;
    return first < last ? optimizer_own(o, l, id, first - at, last - first, errp) : 0;
}

static int deal(struct zero_gpu *s, const struct layout *l, size_t rank, struct optimizer *o, ddp_error_t *errp)
{
    for (int b = 0; b < s->plan.n_buckets; b++) {
        struct zero_gpu_bucket *bucket = &s->bucket[b];
        size_t from = bucket->at + rank * bucket->n_each;
        bucket->first = o->n_slices;
        for (int i = s->plan.first[b]; i < s->plan.first[b + 1]; i++)
            if (own(l, s->plan.param[i], from, from + bucket->n_each, o, errp) < 0)
                return -1;
        bucket->end = o->n_slices;
    }
    return 0;
}

int zero_gpu_open(struct zero_gpu *s, struct layout *l, size_t first_cap, size_t cap, int rank, int n_ranks,
                  struct optimizer *o, ddp_error_t *errp)
{
    struct zero_gpu made = {0};
    if (bucket_plan_open(&made.plan, l->n, errp) < 0)
        return -1;
    bucket_plan_by_size(&made.plan, NULL, l, first_cap, cap);
    made.bucket = calloc((size_t)made.plan.n_buckets + 1, sizeof *made.bucket);
    int rc = made.bucket ? 0 : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %d buckets", made.plan.n_buckets);
    if (rc == 0) {
        lay_out(&made, l, (size_t)n_ranks);
        rc = deal(&made, l, (size_t)rank, o, errp);
    }
    if (rc < 0) {
        zero_gpu_close(&made);
        return -1;
    }
    *s = made;
    return 0;
}

void zero_gpu_close(struct zero_gpu *s)
{
    bucket_plan_close(&s->plan);
    free(s->bucket);
    *s = (struct zero_gpu){0};
}
