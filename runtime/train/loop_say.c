#include "runtime/train/loop_say.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "runtime/base/clock.h"
#include "runtime/base/num.h"
#include "runtime/train/live.h"

#define RECENT_S 5.0
#define DENSE_STEPS 100 /* lines of these are not thinned */

static void say(const struct loop_options *o, const char *text)
{
    live_hide(o->live);
    fputs(text, o->out);
    fflush(o->out);
    live_show(o->live);
}

void loop_say_line(const struct loop_options *o, const char *text)
{
    if (o->out && !o->quiet)
        say(o, text);
}

void loop_say_warning(const struct loop_options *o, const char *text)
{
    if (!o->warn)
        return;
    live_hide(o->live);
    o->warn(o->warn_ctx, text);
    live_show(o->live);
}

/* JSON has no nan and no inf. */
static void json_number(FILE *f, const char *key, double x)
{
    if (x - x == 0)
        fprintf(f, ", \"%s\": %.17g", key, x);
    else
        fprintf(f, ", \"%s\": null", key);
}

/* One rank's device. */
static double flops_of(const struct loop_say *t, double tokens_per_s)
{
    return t->o->flops_per_token * tokens_per_s / ddp_world(t->d)->size;
}

static void json_step(const struct loop_say *t, const struct ddp_step *s, double tokens_per_s)
{
    const struct loop_options *o = t->o;
    FILE *f = o->json;
    double flops = flops_of(t, tokens_per_s);
    fprintf(f, "{\"step\": %" PRIu64, s->step);
    json_number(f, "loss", s->loss);
    json_number(f, "lr", s->lr);
    json_number(f, "grad_norm", s->grad_norm);
    json_number(f, "tokens_per_s", tokens_per_s);
    if (o->flops_per_token > 0)
        json_number(f, "tflops", flops / 1e12);
    if (o->flops_per_token > 0 && o->peak_flops > 0)
        json_number(f, "mfu", flops / o->peak_flops);
    fprintf(f, ", \"skipped\": %s}\n", s->skipped ? "true" : "false");
}

static void line_of_step(const struct loop_say *t, const struct ddp_step *s, double tokens_per_s)
{
    const struct loop_options *o = t->o;
    char text[256], tflops[48] = "", mfu[48] = "";
    double flops = flops_of(t, tokens_per_s);
    if (o->flops_per_token > 0)
        snprintf(tflops, sizeof tflops, " TFLOP/s %.4g", flops / 1e12);
    if (o->flops_per_token > 0 && o->peak_flops > 0)
        snprintf(mfu, sizeof mfu, " MFU %.1f%%", 100 * flops / o->peak_flops);
    snprintf(text, sizeof text, "step %" PRIu64 "/%" PRIu64 " loss %.6f lr %.3e norm %.4f tok/s %.0f%s%s%s\n", s->step,
             o->steps, s->loss, s->lr, s->grad_norm, tokens_per_s, tflops, mfu,
             s->skipped ? " skipped: the gradient is not finite" : "");
    say(o, text);
}

static double per_second(const struct loop_say *t, uint64_t n_tokens, uint64_t ns)
{
    return ns ? (double)n_tokens * ddp_world(t->d)->size * 1e9 / (double)ns : 0;
}

/* Has this step a line? With quiet only the last one, where no validation follows. */
static bool has_line(const struct loop_say *t, const struct ddp_step *s, uint64_t now)
{
    const struct loop_options *o = t->o;
    if (!o->out || o->quiet)
        return o->out && (s->stop || (s->step >= o->steps && !t->has_validation));
    if (s->step == 1 || s->step == o->steps || s->stop || s->skipped)
        return true;
    if (!o->log_every || s->step % o->log_every)
        return false;
    return s->step <= DENSE_STEPS || (double)(now - t->line_ns) >= o->log_apart_s * 1e9;
}

static void recent_add(struct loop_recent *r, double n, double s)
{
    double stays = exp(-s / RECENT_S);
    r->n = r->n * stays + n;
    r->s = r->s * stays + s;
}

static double recent_rate(const struct loop_recent *r)
{
    return r->s > 0 ? r->n / r->s : NAN;
}

/* Until the job's time is over, as libddp knows where there are checkpoints, else as Slurm said at the start, from
 * 23.02 on; NAN: not known. */
static double limit_s(const struct ddp_metrics *m)
{
    int64_t end = m->end_t > 0 ? (int64_t)m->end_t : num_variable("SLURM_JOB_END_TIME", INT64_MAX);
    return end ? difftime((time_t)end, time(NULL)) : NAN;
}

static void draw(struct loop_say *t, const struct ddp_step *s, const struct ddp_metrics *m, uint64_t now)
{
    const struct loop_options *o = t->o;
    double n = (double)(s->step - t->first_step), rate = recent_rate(&t->tokens);
    bool has_peers = ddp_world(t->d)->size > 1 && !t->is_gpu;
    recent_add(&t->exposed, m->part_s[DDP_PART_EXPOSED] - t->exposed_s, m->wall_s - t->wall_s);
    t->exposed_s = m->part_s[DDP_PART_EXPOSED];
    t->wall_s = m->wall_s;
    struct live_state v = {
        .step = s->step,
        .steps = o->steps,
        .goal_s = n > 0 ? (double)(o->steps - s->step) * (double)(now - t->first_ns) / 1e9 / n : NAN,
        .limit_s = limit_s(m),
        .loss = s->loss,
        .items_per_s = rate,
        .items = "tokens",
        .flops = o->flops_per_token > 0 ? flops_of(t, rate) : NAN,
        .mfu = o->flops_per_token > 0 && o->peak_flops > 0 ? flops_of(t, rate) / o->peak_flops : NAN,
        .efficiency = has_peers && m->efficiency > 0 ? m->efficiency : NAN,
        .exposed = has_peers ? recent_rate(&t->exposed) : NAN,
        .slow = m->slow_rank >= 0 ? m->slow : "",
    };
    live_draw(o->live, &v, now);
}

static void say_slow(struct loop_say *t, const struct ddp_metrics *m)
{
    char text[192];
    if (m->slow_rank == t->slow_rank)
        return;
    t->slow_rank = m->slow_rank;
    snprintf(text, sizeof text, "%s: all others wait for it", m->slow);
    if (m->slow_rank >= 0)
        loop_say_warning(t->o, text);
}

void loop_say_begin(struct loop_say *t, const ddp_t *d, const struct loop_model *m, const struct loop_options *o)
{
    uint64_t now = clock_ns();
    *t = (struct loop_say){.d = d, .o = o, .is_gpu = m->stream, .has_validation = m->n_windows > 0, .slow_rank = -1,
                           .line_ns = now, .step_ns = now};
}

void loop_say_step(struct loop_say *t, const struct ddp_step *s)
{
    const struct loop_options *o = t->o;
    uint64_t now = clock_ns();
    struct ddp_metrics m;
    bool is_told = ddp_world(t->d)->rank == 0 && ddp_metrics(t->d, &m) == 0;
    if (is_told)
        say_slow(t, &m);
    if (o->json)
        json_step(t, s, per_second(t, t->step_tokens, now - t->step_ns));
    recent_add(&t->tokens, (double)t->step_tokens * ddp_world(t->d)->size, (double)(now - t->step_ns) / 1e9);
    t->line_tokens += t->step_tokens;
    t->step_tokens = 0;
    t->step_ns = now;
    if (!t->first_ns) {
        t->first_ns = now;
        t->first_step = s->step;
    }
    if (has_line(t, s, now)) {
        line_of_step(t, s, per_second(t, t->line_tokens, now - t->line_ns));
        t->line_tokens = 0;
        t->line_ns = now;
    }
    if (is_told && live_is_due(o->live, now))
        draw(t, s, &m, now);
}

void loop_say_validation(struct loop_say *t, uint64_t step, double loss, uint64_t began_ns)
{
    const struct loop_options *o = t->o;
    char text[128];
    snprintf(text, sizeof text, "step %" PRIu64 "/%" PRIu64 " val loss %.6f\n", step, o->steps, loss);
    if (o->out && (!o->quiet || step >= o->steps))
        say(o, text);
    if (o->json) {
        fprintf(o->json, "{\"step\": %" PRIu64, step);
        json_number(o->json, "val_loss", loss);
        fprintf(o->json, "}\n");
    }
    t->step_ns = clock_ns();
    t->line_ns += t->step_ns - began_ns;
}
