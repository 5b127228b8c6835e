/* gmodel_copy.c - tokens to the GPU and losses back, beside its work. Tokens have a stream and two buffers of their
 * own: a batch is copied while the one before, or the optimizer, still computes. */
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/train/gmodel_impl.h"

/* For what is queued, which depends on no other rank. */
static uint64_t deadline(const gmodel_t *m)
{
    return deadline_in(m->c.timeout_s > 0 ? m->c.timeout_s : 300);
}

static size_t words(const gmodel_t *m)
{
    return m->c.batch * (2 * m->c.model.context + 1);
}

int copies_create(gmodel_t *m, ddp_error_t *errp)
{
    size_t rows = m->c.batch * m->c.model.context;
    m->host_loss = device_host_malloc(m->device, rows * sizeof(double), "losses", errp);
    m->loss_there = m->host_loss ? device_event_create(m->device, false, errp) : NULL;
    if (!m->loss_there)
        return -1;
    for (struct upload *u = m->upload; u < m->upload + 2; u++) {
        u->host = device_host_malloc(m->device, words(m) * sizeof(int32_t), "tokens", errp);
        u->there = u->host ? device_event_create(m->device, false, errp) : NULL;
        u->used = u->there ? device_event_create(m->device, false, errp) : NULL;
        if (!u->used)
            return -1;
    }
    return 0;
}

void copies_destroy(gmodel_t *m)
{
    for (struct upload *u = m->upload; u < m->upload + 2; u++) {
        device_event_destroy(u->there);
        device_event_destroy(u->used);
        device_host_free(m->device, u->host);
    }
    device_event_destroy(m->loss_there);
    device_host_free(m->device, m->host_loss);
}

static void fill(const gmodel_t *m, int32_t *to, const int32_t *tokens, size_t n)
{
    size_t t = m->c.model.context;
    memcpy(to, tokens, n * (t + 1) * sizeof *tokens);
    int32_t *target = to + n * (t + 1);
    for (size_t b = 0; b < n; b++)
        memcpy(target + b * t, tokens + b * (t + 1) + 1, t * sizeof *tokens);
}

void copy_tokens(gmodel_t *m, const int32_t *tokens, size_t n)
{
    m->turn = !m->turn;
    m->failed = false;
    struct upload *u = &m->upload[m->turn];
    size_t bytes = n * (2 * m->c.model.context + 1) * sizeof(int32_t);
    ddp_error_t *e = &m->error;
    if (device_event_wait(u->there, deadline(m), NULL, NULL, e) < 0) {
        m->failed = true;
        return;
    }
    fill(m, u->host, tokens, n);
    m->failed = device_stream_after(m->copies, u->used, e) < 0 ||
                device_copy(m->copies, u->device, u->host, bytes, DEVICE_TO, e) < 0 ||
                device_event_record(u->there, m->copies, e) < 0 || device_stream_after(m->stream, u->there, e) < 0;
}

void copy_tokens_used(gmodel_t *m)
{
    if (!m->failed && device_event_record(m->upload[m->turn].used, m->stream, &m->error) < 0)
        m->failed = true;
}

void copy_losses(gmodel_t *m, size_t rows)
{
    if (!m->failed &&
        (device_copy(m->stream, m->host_loss, m->loss, rows * sizeof(double), DEVICE_FROM, &m->error) < 0 ||
         device_event_record(m->loss_there, m->stream, &m->error) < 0))
        m->failed = true;
}

int copy_losses_wait(gmodel_t *m, ddp_error_t *errp)
{
    return device_event_wait(m->loss_there, deadline(m), NULL, NULL, errp);
}
