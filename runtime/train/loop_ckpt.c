#include "runtime/train/loop_ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/duration.h"
#include "runtime/base/error.h"
#include "runtime/train/loop_say.h"
#include "runtime/train/losslog.h"

static struct ddp_checkpoint_status status_of(const ddp_t *d)
{
    struct ddp_checkpoint_status s = {0};
    ddp_checkpoint_status(d, &s);
    return s;
}

static void say_commit(const struct loop_options *o, const struct ddp_checkpoint_status *s)
{
    char text[sizeof s->path + 256], blocked[32], copy[32], write[32];
    const char *name = strrchr(s->path, '/');
    snprintf(text, sizeof text, "checkpoint %s committed: stood still %s, copied in %s, written in %s, %.1f MiB\n",
             name ? name + 1 : s->path, duration_text(s->blocked_s, blocked, sizeof blocked),
             duration_text(s->copy_s, copy, sizeof copy), duration_text(s->write_s, write, sizeof write),
             (double)s->bytes / 1048576);
    loop_say_line(o, text);
}

static void say_news(struct loop_ckpt *c, const ddp_t *d)
{
    struct ddp_checkpoint_status s = status_of(d);
    if (s.n_committed > c->n_said)
        say_commit(c->o, &s);
    c->n_said = s.n_committed;
    if (s.warning[0] && strcmp(s.warning, c->warned))
        loop_say_warning(c->o, s.warning);
    memcpy(c->warned, s.warning, sizeof c->warned);
}

void loop_ckpt_begin(struct loop_ckpt *c, const ddp_t *d, const struct loop_options *o)
{
    *c = (struct loop_ckpt){.o = o};
    say_news(c, d);
}

/* Waits for the checkpoint in flight. One that failed is counted, and no error here unless the job wants checkpoints or
 * nothing. */
static int settle(struct loop_ckpt *c, ddp_t *d, ddp_error_t *errp)
{
    int rc = ddp_checkpoint_wait(d, errp);
    say_news(c, d);
    return rc;
}

/* A resume goes on behind the lines of the checkpoint's step: they must outlive what the checkpoint does. */
static void sync_json(struct loop_ckpt *c)
{
    ddp_error_t e;
    if (!c->o->json || losslog_sync(c->o->json, &e) == 0 || c->has_warned_of_json)
        return;
    loop_say_warning(c->o, e.text);
    c->has_warned_of_json = true;
}

/* A warning's last words, by the system most often. */
static const char *reason(const char *warning)
{
    for (const char *at; (at = strstr(warning, ": "));)
        warning = at + 2;
    return warning;
}

/* On every rank the same, from the reason that rank 0 has told. It begins with the rank that it is about, whom an abort
 * then blames. */
static int fail_last(struct loop_ckpt *c, ddp_t *d, uint64_t step, ddp_error_t *errp)
{
    struct ddp_checkpoint_status s = status_of(d);
    char why[64] = "";
    snprintf(why, sizeof why, "%.63s", reason(c->warned));
    if (ddp_bcast(d, why, sizeof why / sizeof(int32_t), DDP_I32, 0, errp) < 0)
        return -1;
    error_set(errp, DDP_E_SYSTEM, EIO, "the checkpoint of step %" PRIu64 ", the last, could not be saved (%s%s%s) in "
              "%.120s: mend that, and run the same again", step, s.failed_node, s.failed_node[0] ? ": " : "", why,
              c->o->ckpt);
    if (s.n_failed && ddp_world(d)->size > 1)
        error_prefix(errp, "rank %d", s.failed_rank);
    return -1;
}

/* The step's checkpoint, unless it is there. */
static int save_last(struct loop_ckpt *c, ddp_t *d, const struct ddp_step *s, ddp_error_t *errp)
{
    if (settle(c, d, errp) < 0)
        return -1;
    if (!s->cut && status_of(d).last_step == s->step)
        return 0;
    return ddp_checkpoint(d, c->o->ckpt, errp) < 0 ? -1 : settle(c, d, errp);
}

/* It is there when this returns 0. */
static int take_last(struct loop_ckpt *c, ddp_t *d, const struct ddp_step *s, ddp_error_t *errp)
{
    int rc, more;
    do {
        rc = save_last(c, d, s, errp);
        if (rc == 0 && status_of(d).last_step == s->step)
            return 0;
        more = ddp_checkpoint_retry(d, rc < 0 ? NULL : errp); /* what has failed already is the better reason */
        say_news(c, d);
    } while (more > 0);
    return more < 0 ? -1 : fail_last(c, d, s->step, errp);
}

int loop_ckpt_step(struct loop_ckpt *c, ddp_t *d, const struct ddp_step *s, ddp_error_t *errp)
{
    say_news(c, d);
    if (!c->o->ckpt)
        return 0;
    bool is_last = s->stop || s->step >= c->o->steps;
    if (is_last || s->checkpoint)
        sync_json(c);
    if (is_last)
        return take_last(c, d, s, errp);
    return s->checkpoint ? ddp_checkpoint(d, c->o->ckpt, errp) : 0;
}
