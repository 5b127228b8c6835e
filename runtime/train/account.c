#include "runtime/train/account.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/base/num.h"

/* Micro-steps of a step on one rank. */
static int micros(const ddp_t *d, const struct options *o)
{
    return o->shards ? o->shards / ddp_world(d)->size : o->accum;
}

static uint64_t global_batch(const ddp_t *d, const struct options *o)
{
    return (uint64_t)o->batch * (uint64_t)micros(d, o) * (uint64_t)ddp_world(d)->size;
}

int account_begin(ddp_t *d, const struct job *j, double peak_flops, ddp_error_t *errp)
{
    const struct options *o = &j->o;
    char members[512], peak[32] = "null", end[24] = "null";
    int64_t end_s = num_variable("SLURM_JOB_END_TIME", INT64_MAX); /* from Slurm 23.02 on */
    size_t n = 0;
    for (size_t i = 0; i < j->model.n_params; i++)
        n += ddp_param_get(d, (int)i).n_elems;
    if (peak_flops > 0)
        snprintf(peak, sizeof peak, "%.6g", peak_flops);
    if (end_s > 0)
        snprintf(end, sizeof end, "%" PRId64, end_s);
    snprintf(members, sizeof members, "\"step\": %" PRIu64 ", \"steps\": %" PRIu64 ", \"batch\": %zu, "
             "\"accumulation\": %d, \"global_batch\": %" PRIu64 ", \"item\": \"token\", \"flops_per_item\": %.9g, "
             "\"peak_flops\": %s, \"parameters\": %zu, \"end_t\": %s", ddp_steps_done(d), o->steps, o->batch,
             micros(d, o), global_batch(d, o), model_flops_per_token(&o->model), peak, n, end);
    return ddp_record(d, "train", members, errp);
}

void account_say_batch(const ddp_t *d, const struct job *j)
{
    const struct options *o = &j->o;
    int n = micros(d, o), n_ranks = ddp_world(d)->size;
    uint64_t all = global_batch(d, o);
    printf("global batch: %zu sample%s", o->batch, PLURAL(o->batch));
    if (n > 1)
        printf(" x %d micro-steps", n);
    printf(" x %d rank%s = %" PRIu64 " sample%s, %" PRIu64 " tokens\n", n_ranks, PLURAL(n_ranks), all, PLURAL(all),
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
    if (m.barrier_p50_s > 0)
        printf("a barrier takes %.3g us, 99%% of them at most %.3g us (sampled)\n", 1e6 * m.barrier_p50_s,
               1e6 * m.barrier_p99_s);
    if (n > 1 && m.efficiency > 0)
        printf("efficiency %.1f%%, %.2f times one rank: a step computes %.4g ms where nothing travels beside it (%s)\n",
               100 * m.efficiency, m.efficiency * n, 1e3 * m.baseline_s,
               micros(d, &j->o) > 1 ? "micro-steps that do not synchronise"
                                    : "passes whose buckets waited for backward's end");
}
