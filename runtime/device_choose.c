/* device_choose.c - which device this rank computes on, agreed between all. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/call.h"
#include "runtime/base/clock.h"
#include "runtime/device/choice.h"
#include "runtime/handle.h"
#include "runtime/sized.h"

/* What is wished for, and the GPU that DDP_DEVICE names even where an option says the wish. */
static int wish_of(const ddp_t *d, struct device_facts *f, ddp_error_t *errp)
{
    const char *env = getenv("DDP_DEVICE");
    enum device_wish ignored;
    if (device_wish_parse(d->config.device, "device", &f->wish, &f->named, errp) < 0)
        return -1;
    return f->named < 0 && env ? device_wish_parse(env, "DDP_DEVICE", &ignored, &f->named, errp) : 0;
}

/* What asks the driver: apart, since a driver whose GPU has failed may never answer. */
struct search {
    struct device_facts facts;
    struct device_choice choice;
    struct device_info info; /* the GPU's, where the choice is one */
    int rc;
    ddp_error_t why_none, error;
};

static void search(void *state)
{
    struct search *s = state;
    s->facts.n_gpus = s->facts.wish == DEVICE_WISH_CPU ? 0 : device_cuda_count(&s->why_none);
    s->facts.why_none = s->why_none.text;
    s->rc = device_choose(&s->facts, &s->choice, &s->error);
    if (s->rc == 0 && s->choice.kind == DEVICE_CUDA)
        s->rc = device_cuda_info(s->choice.ordinal, &s->info, &s->error);
}

static void drop(void *state)
{
    (void)state;
}

/* This rank's choice. */
static int choose(const ddp_t *d, struct device_choice *c, struct device_info *info, ddp_error_t *errp)
{
    double limit_s = d->config.timeout_s / 2; /* the others wait for this rank meanwhile, the whole of it */
    struct search *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to look for GPUs");
    s->facts = (struct device_facts){.visible = getenv("CUDA_VISIBLE_DEVICES"), .local_rank = d->team.me.local_rank};
    int rc = wish_of(d, &s->facts, errp);
    rc = rc < 0 ? rc : call_within(search, drop, s, deadline_in(limit_s), errp);
    if (rc > 0)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "the GPUs' driver did not answer within %g s: try nvidia-smi "
                         "on this node, see Xid in the kernel's log (dmesg), or say --ddp-device=cpu", limit_s);
    if (rc == 0 && s->rc < 0)
        rc = error_set(errp, s->error.domain, s->error.code, "%s", s->error.text);
    *c = s->choice;
    *info = s->info;
    free(s);
    return rc;
}

/* Opens it, which makes its context. */
static int open_gpu(ddp_t *d, const struct device_choice *c, size_t *ret_free, ddp_error_t *errp)
{
    device_close(d->device); /* of a call before */
    d->device = NULL;
    if (c->kind == DEVICE_CPU)
        return 0;
    d->device = device_open(c->ordinal, d->team.me.rank, errp);
    return d->device ? device_memory_free(d->device, ret_free, errp) : -1;
}

/* No two ranks on one GPU, unless that is asked for, and all on GPUs or none. */
static int compare(ddp_t *d, const struct device_info *info, ddp_error_t *errp)
{
    struct device_id mine = device_id_of(info, d->team.me.rank, d->team.me.node);
    struct device_id *all = team_gather(&d->team, &mine, sizeof mine, errp);
    int rc = all ? device_compare(all, d->team.me.size, d->config.share_device, errp) : -1;
    free(all);
    d->shares_gpus = rc > 0;
    return rc;
}

EXPORT int ddp_device_sized(ddp_t *d, struct ddp_device *ret, size_t size, ddp_error_t *errp)
{
    struct device_choice c = {.kind = DEVICE_CPU};
    struct device_info info = {.kind = DEVICE_CPU};
    ddp_error_t own = {0};
    size_t memory_free = device_cpu_memory_free();
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_device (after ddp_commit)", errp) < 0)
        return -1;
    choose(d, &c, &info, &own);
    if (team_agree(&d->team, &own, errp) < 0 || compare(d, &info, errp) < 0)
        return -1;
    open_gpu(d, &c, &memory_free, &own);
    if (team_agree(&d->team, &own, errp) < 0)
        return -1;
    struct ddp_device device = {.is_gpu = c.kind == DEVICE_CUDA, .ordinal = c.ordinal, .peak_flops = info.peak_flops};
    snprintf(device.name, sizeof device.name, "%s", info.name);
    snprintf(device.note, sizeof device.note, "%s", c.note);
    device.memory_free = memory_free;
    device.timeout_s = d->config.timeout_s;
    sized_give(ret, size, &device, sizeof device);
    return 0;
}

EXPORT int ddp_stream(ddp_t *d, void *stream, ddp_error_t *errp)
{
    if (handle_expect(d, 1u << PHASE_OPEN, "ddp_stream", errp) < 0)
        return -1;
    d->stream = stream;
    return 0;
}
