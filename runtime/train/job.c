#include "runtime/train/job.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/budget.h"
#include "runtime/train/config_json.h"
#include "runtime/train/gmodel.h"
#include "runtime/train/losslog.h"

void job_close(struct job *j)
{
    if (j->model.destroy)
        j->model.destroy(j->model.self);
    tokens_close(j->data);
    tokens_close(j->val);
}

bool job_close_log(struct job *j)
{
    FILE *f = j->json;
    j->json = NULL;
    if (!f)
        return true;
    bool failed = ferror(f);
    return fclose(f) == 0 && !failed;
}

static int check_windows(const struct job *j, ddp_error_t *errp)
{
    const struct options *o = &j->o;
    bool short_train = o->data.n && !lm_windows(&j->train_part, o->model.context);
    if (short_train || !lm_windows(&j->val_part, o->model.context))
        return error_set(errp, DDP_E_DATA, 0, "%s: %" PRIu64 " tokens are less than one window of %zu: give more data"
                         " or a smaller --context", short_train ? "--data" : "--val",
                         short_train ? j->train_part.count : j->val_part.count, o->model.context + 1);
    return 0;
}

static int open_data(struct job *j, ddp_error_t *errp)
{
    const struct options *o = &j->o;
    bool is_val_only = o->eval && !o->data.n;
    j->data = is_val_only ? tokens_open(o->val.path, o->val.n, errp) : tokens_open(o->data.path, o->data.n, errp);
    if (!j->data)
        return -1;
    if (is_val_only)
        j->train_part = j->val_part = (struct lm_part){j->data, 0, tokens_count(j->data)};
    if (is_val_only)
        return check_windows(j, errp);
    if (!o->val.n)
        return lm_split(j->data, o->model.context, &j->train_part, &j->val_part, errp);
    j->val = tokens_open(o->val.path, o->val.n, errp);
    if (!j->val)
        return -1;
    if (tokens_are_shards(j->data) != tokens_are_shards(j->val))
        return error_set(errp, DDP_E_DATA, 0, "--data has %s, and --val has not: give both of one kind",
                         tokens_are_shards(j->data) ? "token shards (*.bin)" : "bytes");
    j->train_part = (struct lm_part){j->data, 0, tokens_count(j->data)};
    j->val_part = (struct lm_part){j->val, 0, tokens_count(j->val)};
    return check_windows(j, errp);
}

int job_replicas(const struct options *o, const struct ddp_world *w)
{
    return o->shards ? o->shards : w->size;
}

static int check_batch(const struct job *j, int n, ddp_error_t *errp)
{
    double wanted = (double)j->o.batch * j->o.accum * n;
    if (wanted <= (double)j->n_samples)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "--batch=%zu x --accum=%d x %d %s is %.0f samples a step, but the"
                     " data has only %" PRIu64 " of %zu tokens: take a smaller --batch or more --data", j->o.batch,
                     j->o.accum, n, j->o.shards ? "shards" : "ranks", wanted, j->n_samples, j->o.model.context);
}

uint64_t job_warmup_steps(const struct job *j, int n)
{
    uint64_t per_replica = (j->n_samples + (uint64_t)n - 1) / (uint64_t)n;
    uint64_t per_step = j->o.batch * (uint64_t)j->o.accum;
    return options_warmup_steps(&j->o, (per_replica + per_step - 1) / per_step);
}

static int check_warmup(const struct job *j, int n, ddp_error_t *errp)
{
    uint64_t warmup = job_warmup_steps(j, n);
    if (warmup <= j->o.steps)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL, "--warmup is %" PRIu64 " steps, more than --steps=%" PRIu64
                     ": take a shorter one", warmup, j->o.steps);
}

static int open_json(struct job *j, ddp_error_t *errp)
{
    if (!j->o.log_json)
        return 0;
    j->json = losslog_open(j->o.log_json, errp);
    return j->json ? 0 : -1;
}

bool job_lies_in(const char *path, const char *dir)
{
    struct stat a, b;
    char above[4096];
    return snprintf(above, sizeof above, "%s/..", path) < (int)sizeof above && stat(above, &a) == 0 &&
           stat(dir, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int job_open(struct job *j, int argc, char **argv, const struct ddp_world *w, ddp_error_t *errp)
{
    if (options_parse(argc, argv, &j->o, errp) < 0 ||
        (j->o.init && config_json_match_folder(j->o.init, &j->o.model, errp) < 0) ||
        options_complete(&j->o, errp) < 0 || open_data(j, errp) < 0)
        return -1;
    j->n_samples = lm_windows(&j->train_part, j->o.model.context);
    int n = job_replicas(&j->o, w);
    if (j->o.eval)
        return 0;
    if (check_batch(j, n, errp) < 0 || check_warmup(j, n, errp) < 0 || (w->rank == 0 && open_json(j, errp) < 0))
        return -1;
    return 0;
}

/* 16-bit types are for GPUs; without a wish they have bfloat16 where it can be. */
static int choose_dtype(struct job *j, const struct ddp_device *device, ddp_error_t *errp)
{
    static const enum ddp_dtype of_16_bits[] = {DDP_BF16, DDP_F16};
    const char *wish = j->o.dtype;
    j->dtype = DDP_F32;
    for (size_t i = 0; i < sizeof of_16_bits / sizeof *of_16_bits; i++)
        if (wish && !strcmp(wish, dtype_name(of_16_bits[i])))
            j->dtype = of_16_bits[i];
    if (j->dtype != DDP_F32 && !device->is_gpu)
        return error_set(errp, DDP_E_USAGE, EINVAL, "--dtype=%s is for GPUs: leave it out, or say --device=cuda", wish);
    if (!wish && device->is_gpu && gmodel_check(&j->o.model, DDP_BF16, NULL) == 0)
        j->dtype = DDP_BF16;
    return 0;
}

/* At least so much a rank touches before and in its first step: better told now than by a kill. Whether the optimizer's
 * state is spread over the ranks libddp decides, and checks again. */
static int check_memory(const struct job *j, const struct ddp_world *w, ddp_error_t *errp)
{
    size_t n = 0, n_moments = j->o.eval || strcmp(j->o.optimizer, "adamw") ? 0 : 2;
    for (size_t i = 0; i < j->model.n_params; i++)
        n += j->model.param[i].shape[0] * j->model.param[i].shape[1] * sizeof(float);
    const struct budget_part parts[] = {{"parameters", n},
                                        {"gradients", n},
                                        {"optimizer state", n_moments * n / (size_t)w->size},
                                        {"activations", lm_about(&j->model).activation_bytes}};
    return budget_check("", parts, sizeof parts / sizeof *parts, w->local_size, errp);
}

int job_open_model(struct job *j, const struct ddp_world *w, const struct ddp_device *device, ddp_error_t *errp)
{
    if (choose_dtype(j, device, errp) < 0)
        return -1;
    struct lm_options o = {.model = j->o.model, .batch = j->o.batch, .max_windows = j->o.val_windows,
                           .dtype = j->dtype, .is_gpu = device->is_gpu, .wgmma = !j->o.no_wgmma,
                           .ordinal = device->ordinal, .rank = w->rank, .timeout_s = device->timeout_s};
    if (lm_create(&j->model, &o, &j->train_part, &j->val_part, errp) < 0)
        return -1;
    return device->is_gpu ? 0 : check_memory(j, w, errp);
}
