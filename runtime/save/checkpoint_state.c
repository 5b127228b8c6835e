/* checkpoint_state.c - what a manifest says beside files: where training is, and what its bits depend on. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/base/begins.h"
#include "runtime/base/num.h"
#include "runtime/comm/plan.h"
#include "runtime/save/save.h"

/* Rates and schedule, and the type in which gradients travel. */
static void describe_optimizer(const struct save *save, char *ret, size_t size)
{
    enum compress type = save->config->compress;
    const char *name = type == COMPRESS_NONE && save->state->reducer.hook.encode ? "hook" : hook_compress_name(type);
    optimizer_text(&save->state->optimizer, ret, size);
    size_t n = strlen(ret);
    snprintf(ret + n, size - n, "compress=%s\n", name);
}

/* Does a line of /proc/cpuinfo say which processor it is? On arm64 by numbers alone. */
static bool is_of_cpu(const char *line)
{
    return begins(line, "model name") || begins(line, "CPU implementer") || begins(line, "CPU part");
}

/* Of the first CPU: "AMD EPYC 9B14", "0x41 0xd4f" (Neoverse V2); "" where it is not known. */
static void describe_cpu(char *ret, size_t size)
{
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
    *ret = 0;
    while (f && fgets(line, sizeof line, f) && *line != '\n') {
        const char *colon = strchr(line, ':'), *value = colon ? colon + 1 + strspn(colon + 1, " ") : NULL;
        size_t n = strlen(ret);
        if (value && is_of_cpu(line))
            snprintf(ret + n, size - n, "%s%.*s", n ? " " : "", (int)strcspn(value, "\n"), value);
    }
    if (f)
        fclose(f);
}

/* Vector width of libddp's loops (kernels/cpu/dispatch.h). */
static const char *vector_width(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return "AVX-512";
    if (__builtin_cpu_supports("avx2"))
        return "AVX2";
#elif defined(__aarch64__)
    return "NEON";
#endif
    return "baseline";
}

/* What computes a step beside the model. */
static void describe_kernels(const struct save *save, char *ret, size_t size)
{
    const struct device_info *gpu = save->state->arena.device ? device_info(save->state->arena.device) : NULL;
    if (gpu)
        snprintf(ret, size, "CUDA sm_%d%d (%.40s)", gpu->major, gpu->minor, gpu->name);
    else
        snprintf(ret, size, "%s", vector_width());
}

/* What gradients and losses are summed over. */
static void describe_sums(const struct save *save, char *ret, size_t size)
{
    enum ddp_dtype wire = save->state->reducer.wire_dtype;
    comm_plan_order(comm_plan(save->team->comm), save->team->map, wire == DDP_BF16 || wire == DDP_F16, ret, size);
}

void checkpoint_state_begin(struct save *save)
{
    struct manifest_state *s = &save->checkpoint.state;
    s->world_size = save->team->me.size;
    s->n_nodes = save->team->me.n_nodes;
    s->n_runs = 1;
    describe_cpu(s->cpu, sizeof s->cpu);
    snprintf(s->software, sizeof s->software, "slurm-ddp %s", DDP_VERSION);
    if (save->foreign.is_open)
        return;
    describe_kernels(save, s->kernels, sizeof s->kernels);
    describe_optimizer(save, s->optimizer, sizeof s->optimizer);
    describe_sums(save, s->summed_over, sizeof s->summed_over);
}

void checkpoint_state_fill(const struct save *save, struct manifest_state *s)
{
    const struct checkpoint *c = &save->checkpoint;
    const struct data_config *data = &save->state->data.cfg;
    struct data_position at = data_position(&save->state->data);
    time_t now = time(NULL);
    struct tm utc;
    s->step = save->state->optimizer.n_steps;
    s->n_skipped = save->state->n_skipped;
    s->loss_scale.scale = save->state->loss_scale.is_dynamic ? loss_scale_factor(&save->state->loss_scale) : 0;
    s->loss_scale.n_good = save->state->loss_scale.n_good;
    s->data.n_samples = data->n_samples;
    s->data.seed = data->seed;
    s->data.epoch = at.epoch;
    s->data.cursor = at.cursor;
    s->data.batch = data->batch;
    s->data.accum = data->accum;
    s->data.shards = data->n_shards;
    snprintf(s->data.order, sizeof s->data.order, "%s", data_order_name(data->order));
    snprintf(s->reason, sizeof s->reason, "%s", c->is_stopping ? "stop" : c->was_due ? "periodic" : "request");
    strftime(s->saved_at, sizeof s->saved_at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    s->trained_s = c->trained_s;
    s->cut.micro = c->plan.cut_micro;
    s->cut.n_ranks = c->plan.cut_micro ? save->team->me.size : 0;
    s->cut.scale = c->plan.cut_micro ? loss_scale_factor(&save->state->loss_scale) : 0;
}

/* ---- resuming ---- */

int checkpoint_state_check(const struct save *save, const struct manifest_state *m, ddp_error_t *errp)
{
    const struct data_config *data = &save->state->data.cfg;
    if (!m->data.n_samples != !data->n_samples)
        return error_set(errp, DDP_E_USAGE, EINVAL, "the checkpoint of step %" PRIu64 " holds the state of %s: name "
                         "another folder", m->step, data->n_samples ? "another framework's training (ddp_state_save)"
                         : "a training by libddp itself, not by another framework");
    if (m->data.n_samples != data->n_samples)
        return error_set(errp, DDP_E_USAGE, EINVAL,
                         "the checkpoint of step %" PRIu64 " was trained on %" PRIu64 " samples, and there are %" PRIu64
                         ": start with the same data and model, or take only its values: --init, another --ckpt",
                         m->step, m->data.n_samples, data->n_samples);
    if (m->data.seed != data->seed)
        return error_set(errp, DDP_E_USAGE, EINVAL,
                         "the checkpoint of step %" PRIu64 " has its data in the order of seed %" PRIu64 ", not "
                         "%" PRIu64 ": start with the same seed, or take only its values: --init, and another --ckpt",
                         m->step, m->data.seed, data->seed);
    const char *order = data_order_name(data->order);
    if (strcmp(m->data.order, order) != 0)
        return error_set(errp, DDP_E_USAGE, EINVAL,
                         "the checkpoint of step %" PRIu64 " has its data in order=%s, not %s: "
                         "start with the same order, or take only its values: --init, and another --ckpt",
                         m->step, m->data.order, order);
    return 0;
}

/* What differs, as a list of "ranks 2, not 4". */
struct differences {
    char text[400];
    const char *cure;
};

static void differ(struct differences *l, const char *what, const char *then, const char *now)
{
    size_t n = strlen(l->text);
    if (strcmp(then, now) != 0 && *then && *now)
        snprintf(l->text + n, sizeof l->text - n, "%s%s \"%.60s\", not \"%.60s\"", n ? ", " : "", what, now, then);
}

static void differ_number(struct differences *l, const char *what, uint64_t then, uint64_t now)
{
    char a[24], b[24];
    snprintf(a, sizeof a, "%" PRIu64, then);
    snprintf(b, sizeof b, "%" PRIu64, now);
    differ(l, what, a, b);
}

/* The first line of one that is not in the other at its place. */
static void differ_line(struct differences *l, const char *then, const char *now)
{
    char a[128], b[128];
    size_t na = strcspn(then, "\n"), nb = strcspn(now, "\n");
    while (na == nb && *then && !strncmp(then, now, na)) {
        then += na + (then[na] == '\n');
        now += nb + (now[nb] == '\n');
        na = strcspn(then, "\n");
        nb = strcspn(now, "\n");
    }
    snprintf(a, sizeof a, "%.*s", (int)na, then);
    snprintf(b, sizeof b, "%.*s", (int)nb, now);
    differ(l, "optimizer", a, b);
}

/* The type in which gradients travelled, as describe_optimizer wrote it. */
static const char *wire_type(const char *optimizer)
{
    const char *at = strstr(optimizer, "compress=");
    return at ? at : "";
}

/* Of as many ranks. Where gradients travel in another type that is said already, and sums are rounded otherwise. */
static void differ_sums(struct differences *l, const struct manifest_state *then, const struct manifest_state *now)
{
    size_t n = strlen(l->text);
    if (then->world_size != now->world_size || strcmp(wire_type(then->optimizer), wire_type(now->optimizer)) != 0)
        return;
    differ(l, "sums over", then->summed_over, now->summed_over);
    if (l->text[n])
        l->cure = "; ranks lie otherwise on the nodes: --ntasks-per-node=N --distribution=block keeps them in place";
}

void checkpoint_state_compare(struct save *save, const struct manifest_state *m)
{
    const struct manifest_state *s = &save->checkpoint.state;
    const struct data_config *data = &save->state->data.cfg;
    struct differences l = {"", ""};
    differ(&l, "data", m->noted_data, s->noted_data);
    differ_line(&l, m->optimizer, s->optimizer);
    differ_number(&l, "batch", m->data.batch, data->batch);
    differ_number(&l, "micro-steps", (uint64_t)m->data.accum, (uint64_t)data->accum);
    differ_number(&l, "shards", (uint64_t)m->data.shards, (uint64_t)data->n_shards);
    if (!data->n_shards) { /* with shards every node holds an aligned power-of-two block */
        differ_number(&l, "ranks", (uint64_t)m->world_size, (uint64_t)s->world_size);
        differ_sums(&l, m, s);
    }
    if (!save->state->arena.device)
        differ(&l, "processor", m->cpu, s->cpu);
    differ(&l, "kernels", m->kernels, s->kernels);
    differ(&l, "matrix products", m->products, s->products);
    if (*l.text)
        checkpoint_warn(save, "resumed with %s: bits may differ from those of a run that was not stopped%s", l.text,
                        l.cure);
}

int checkpoint_state_restore(struct save *save, const struct manifest_state *m, ddp_error_t *errp)
{
    struct checkpoint *c = &save->checkpoint;
    const struct data_position at = {.epoch = m->data.epoch, .cursor = m->data.cursor};
    if (!save->foreign.is_open && data_seek(&save->state->data, &at, errp) < 0)
        return error_prefix(errp, "the checkpoint of step %" PRIu64, m->step);
    save->state->optimizer.n_steps = m->step;
    save->state->n_skipped = m->n_skipped;
    loss_scale_restore(&save->state->loss_scale, m->loss_scale.scale, m->loss_scale.n_good);
    c->trained_s = m->trained_s;
    c->state.n_runs = m->n_runs + 1;
    c->state.n_failures = m->n_failures + !strcmp(m->reason, "periodic");
    c->status.resumed_step = m->step;
    c->status.resumed_skipped = (uint64_t)m->n_skipped;
    return 0;
}

int checkpoint_note(struct save *save, const char *key, const char *text, ddp_error_t *errp)
{
    struct manifest_state *s = &save->checkpoint.state;
    if (!key || !text || strchr(text, '\n'))
        return error_set(errp, DDP_E_USAGE, EINVAL, "ddp_checkpoint_note: a key and one line are needed");
    if (!strcmp(key, "products"))
        return snprintf(s->products, sizeof s->products, "%s", text), 0;
    if (!strcmp(key, "data"))
        return snprintf(s->noted_data, sizeof s->noted_data, "%s", text), 0;
    if (!strcmp(key, "threads") && num_int(text, 1, 1 << 20, &s->n_threads) == 0)
        return 0;
    return error_set(errp, DDP_E_USAGE, EINVAL,
                     "ddp_checkpoint_note: %.30s=%.60s: there are products=TEXT, data=TEXT and threads=N", key, text);
}
