#include "runtime/train/account.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Micro-steps of a step on one rank. */
static int micros(const ddp_t *d, const struct options *o)
{
    return o->shards ? o->shards / ddp_world(d)->size : o->accum;
}

static uint64_t global_batch(const ddp_t *d, const struct options *o)
{
    return (uint64_t)o->batch * (uint64_t)micros(d, o) * (uint64_t)ddp_world(d)->size;
}

void account_say_batch(const ddp_t *d, const struct job *j)
{
    const struct options *o = &j->o;
    int n = micros(d, o);
    uint64_t all = global_batch(d, o);
    printf("global batch: %zu samples", o->batch);
    if (n > 1)
        printf(" x %d micro-steps", n);
    printf(" x %d ranks = %" PRIu64 " samples, %" PRIu64 " tokens\n", ddp_world(d)->size, all,
           all * o->model.context);
}

static double percent(double part_s, double all_s)
{
    return 100 * part_s / all_s;
}

void account_say(const ddp_t *d, const struct job *j, const struct ddp_device *device)
{
    struct ddp_metrics m;
    if (ddp_metrics(d, &m) < 0 || !m.steps || m.wall_s <= 0 || device->is_gpu)
        return;
    printf("a step's %.4g ms: data %.1f%%, forward %.1f%%, backward %.1f%%, exposed communication %.1f%% (hidden "
           "%.1f%%), optimizer %.1f%%, checkpoints %.1f%%, other %.1f%%\n", 1e3 * m.wall_s / (double)m.steps,
           percent(m.part_s[DDP_PART_DATA], m.wall_s), percent(m.part_s[DDP_PART_FORWARD], m.wall_s),
           percent(m.part_s[DDP_PART_BACKWARD], m.wall_s), percent(m.part_s[DDP_PART_EXPOSED], m.wall_s),
           percent(m.hidden_s, m.wall_s), percent(m.part_s[DDP_PART_OPTIMIZER], m.wall_s),
           percent(m.part_s[DDP_PART_CHECKPOINT], m.wall_s), percent(m.part_s[DDP_PART_OTHER], m.wall_s));
    int n = ddp_world(d)->size;
    if (n > 1 && m.efficiency > 0)
        printf("efficiency %.1f%%, %.2f times one rank: a step computes %.4g ms where nothing travels beside it (%s)\n",
               100 * m.efficiency, m.efficiency * n, 1e3 * m.baseline_s,
               micros(d, &j->o) > 1 ? "micro-steps that do not synchronise"
                                    : "passes whose buckets waited for backward's end");
}
