#include "runtime/textfile.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/num.h"
#include "runtime/handle.h"
#include "runtime/record/line.h"
#include "runtime/record/program.h"
#include "runtime/record/write.h"
#include "runtime/sched/slurm.h"

/* ---- the text ---- */

#define AT(field) offsetof(struct textfile_values, field)
#define GAUGE "gauge"
#define COUNTER "counter"

/* Those with one sample. */
static const struct family {
    const char *name, *type, *help;
    size_t at;
} families[] = {
    {"ddp_up", GAUGE, "1 while the program runs, 0 once it has ended.", AT(up)},
    {"ddp_failed", GAUGE, "1 once it has ended by a failure.", AT(has_failed)},
    {"ddp_start_timestamp_seconds", GAUGE, "When the program began.", AT(began_t)},
    {"ddp_last_update_timestamp_seconds", GAUGE, "When this file was written.", AT(now_t)},
    {"ddp_ranks", GAUGE, "Ranks of the program.", AT(n_ranks)},
    {"ddp_nodes", GAUGE, "Nodes that they are on.", AT(n_nodes)},
    {"ddp_restarts_total", COUNTER, "Restarts by guards in this allocation.", AT(n_restarts)},
    {"ddp_requeues_total", COUNTER, "Requeues of the job.", AT(n_requeues)},
    {"ddp_step", GAUGE, "Optimizer steps done, those before a resume included.", AT(n_steps_done)},
    {"ddp_steps_total", COUNTER, "Optimizer steps of this program.", AT(n_taken)},
    {"ddp_skipped_steps_total", COUNTER, "Steps that changed nothing, as the gradient was not finite.", AT(n_skipped)},
    {"ddp_items_total", COUNTER, "Items (tokens, say) that all ranks have trained on.", AT(items)},
    {"ddp_loss", GAUGE, "Mean loss of the last interval.", AT(loss)},
    {"ddp_learning_rate", GAUGE, "Learning rate of its last step.", AT(lr)},
    {"ddp_gradient_norm", GAUGE, "Gradient norm of its last step, before clipping.", AT(grad_norm)},
    {"ddp_step_seconds", GAUGE, "Mean time of a step in the last interval.", AT(step_s)},
    {"ddp_hidden_communication_seconds_total", COUNTER,
     "Communication beside the backward pass, mean over the ranks.", AT(hidden_s)},
    {"ddp_efficiency_ratio", GAUGE, "Scaling efficiency in the last interval.", AT(efficiency)},
    {"ddp_barrier_seconds", GAUGE, "What a barrier of all ranks took.", AT(barrier_s)},
    {"ddp_memory_peak_bytes", GAUGE, "The most memory that a rank has held.", AT(memory_bytes)},
    {"ddp_checkpoints_total", COUNTER, "Checkpoints that this program has committed.", AT(n_checkpoints)},
    {"ddp_checkpoint_step", GAUGE, "Step of the last one.", AT(ckpt_step)},
    {"ddp_checkpoint_bytes", GAUGE, "Its size.", AT(ckpt_bytes)},
    {"ddp_checkpoint_timestamp_seconds", GAUGE, "When it was committed.", AT(ckpt_t)},
};

_Static_assert((int)DDP_PARTS == (int)RECORD_PARTS, "a record has the parts of a step");

static void write_text(ddp_t *d)
{
    struct textfile *t = &d->events.textfile;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        prometheus_family(&t->file, families[i].name, families[i].type, families[i].help);
        prometheus_sample(&t->file, NULL, *(const double *)((const char *)&t->v + families[i].at));
    }
    prometheus_family(&t->file, "ddp_time_seconds_total", COUNTER,
                      "Where the time of the steps went, mean over the ranks; exposed: communication.");
    for (int i = 0; i < DDP_PARTS; i++) {
        char label[32];
        snprintf(label, sizeof label, "part=\"%s\"", record_part_name(i));
        prometheus_sample(&t->file, label, d->parts.untold >> i & 1 ? NAN : t->v.part_s[i]);
    }
    prometheus_family(&t->file, "ddp_slow_rank_ratio", GAUGE,
                      "The slowest rank's computing time over the median rank's, where it is a slow one.");
    prometheus_sample(&t->file, t->slow_labels, t->v.slow_factor);
}

static void save(ddp_t *d)
{
    struct textfile *t = &d->events.textfile;
    ddp_error_t why;
    t->v.now_t = floor(recorder_now());
    prometheus_begin(&t->file);
    write_text(d);
    if (prometheus_end(&t->file, &why) == 0 || t->was_told)
        return;
    t->was_told = true;
    checkpoint_warn(&d->save, "%s", why.text);
}

/* ---- what it is filled with ---- */

void textfile_open(ddp_t *d, const char *path, double began_t)
{
    struct textfile *t = &d->events.textfile;
    char program[PROGRAM_NAME_MAX + 1];
    program_own_name(program);
    prometheus_open(&t->file, path);
    prometheus_label(&t->file, "jobid", getenv("SLURM_JOB_ID"));
    prometheus_label(&t->file, "stepid", getenv("SLURM_STEP_ID"));
    prometheus_label(&t->file, "program", program);
    t->v = (struct textfile_values){
        .up = 1, .began_t = floor(began_t), .n_restarts = (double)num_variable("DDP_RESTART", INT32_MAX),
        .n_requeues = slurm_restarts(), .n_ranks = d->team.me.size, .n_nodes = d->team.map->n_nodes, .loss = NAN,
        .lr = NAN, .grad_norm = NAN, .step_s = NAN, .efficiency = NAN, .barrier_s = NAN, .memory_bytes = NAN,
        .slow_factor = NAN, .ckpt_step = NAN, .ckpt_bytes = NAN, .ckpt_t = NAN};
    t->v.n_steps_done = (double)d->state.optimizer.n_steps;
    save(d);
}

static void add(double *sum, double x)
{
    *sum += isfinite(x) ? x : 0;
}

static double most_memory(const struct pace *p, int n_ranks)
{
    double most = NAN;
    for (int r = 0; p->all && r < n_ranks; r++)
        most = fmax(most, p->all[r].memory_bytes); /* of which it takes the one that is known */
    return most;
}

static void take_slow(struct textfile *t, const struct pace *p, const struct team *team)
{
    char node[160] = "";
    if (p->last.is_judged)
        t->v.slow_factor = p->last.is_slow && !p->last.is_link ? p->slow_factor : NAN;
    if (!p->last.is_slow || p->last.is_link)
        return;
    prometheus_quote(node, sizeof node, "node", team->map->host[p->slow_rank]);
    snprintf(t->slow_labels, sizeof t->slow_labels, "rank=\"%d\"%s%s", p->slow_rank, *node ? "," : "", node);
}

void textfile_interval(ddp_t *d, const struct textfile_interval *i)
{
    struct textfile *t = &d->events.textfile;
    struct textfile_values *v = &t->v;
    const struct pace_interval *now = &d->pace.last;
    if (!t->file.is_open)
        return;
    v->n_steps_done = (double)d->state.optimizer.n_steps;
    v->n_taken += (double)i->n_taken;
    v->n_skipped += (double)i->n_skipped;
    v->step_s = now->n_steps ? now->wall_s / (double)now->n_steps : NAN;
    v->efficiency = now->efficiency;
    v->barrier_s = isfinite(now->barrier_s) ? now->barrier_s : v->barrier_s;
    v->memory_bytes = fmax(v->memory_bytes, most_memory(&d->pace, d->team.me.size));
    for (int k = 0; k < DDP_PARTS; k++)
        add(&v->part_s[k], now->part_s[k]);
    take_slow(t, &d->pace, &d->team);
    v->items = i->is_ours ? v->items + i->items : NAN;
    v->loss = i->is_ours ? i->loss : NAN;
    v->lr = i->is_ours ? i->last->lr : NAN;
    v->grad_norm = i->is_ours ? i->last->grad_norm : NAN;
    v->hidden_s = i->is_ours && !d->device ? v->hidden_s + now->hidden_s : NAN;
    if (t->saved_ns && clock_ns() - t->saved_ns < NS_PER_S)
        return;
    t->saved_ns = clock_ns();
    save(d);
}

void textfile_checkpoint(ddp_t *d)
{
    const struct ddp_checkpoint_status *s = &d->save.checkpoint.status;
    struct textfile_values *v = &d->events.textfile.v;
    v->n_checkpoints = (double)s->n_committed;
    v->ckpt_step = (double)s->last_step;
    v->ckpt_bytes = (double)s->bytes;
    v->ckpt_t = floor(recorder_now());
}

void textfile_close(ddp_t *d, bool has_failed)
{
    struct textfile *t = &d->events.textfile;
    if (!t->file.is_open)
        return;
    t->v.up = 0;
    t->v.has_failed = has_failed;
    t->v.n_steps_done = (double)d->state.optimizer.n_steps;
    save(d);
    prometheus_close(&t->file);
}
