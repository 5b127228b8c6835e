#include "runtime/train/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/train/loop_ckpt.h"
#include "runtime/train/loop_say.h"

static struct ddp_param *tensors_of(const ddp_t *d, size_t n)
{
    struct ddp_param *t = calloc(n, sizeof *t);
    for (size_t i = 0; t && i < n; i++)
        t[i] = ddp_param_get(d, (int)i);
    return t;
}

static size_t elems_of(const struct loop_param *p)
{
    return p->shape[0] * p->shape[1];
}

/* Room for one parameter's values, whichever it is. */
static float *largest_param(const struct loop_model *m, ddp_error_t *errp)
{
    size_t n = 1;
    for (size_t i = 0; i < m->n_params; i++)
        n = elems_of(&m->param[i]) > n ? elems_of(&m->param[i]) : n;
    float *p = malloc(n * sizeof *p);
    if (!p)
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a parameter of %zu elements", n);
    return p;
}

static int fill_values(ddp_t *d, const struct loop_model *m, uint64_t seed, ddp_error_t *errp)
{
    float *value = largest_param(m, errp);
    int rc = value ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < m->n_params; i++) {
        m->init(m->self, seed, i, value);
        rc = ddp_param_write(d, (int)i, value, errp);
    }
    free(value);
    return rc;
}

static int bind(ddp_t *d, const struct loop_model *m, ddp_error_t *errp)
{
    struct ddp_param *tensor = tensors_of(d, m->n_params);
    if (!tensor)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu parameters", m->n_params);
    int rc = m->bind(m->self, tensor, errp);
    free(tensor);
    return rc;
}

int loop_prepare(ddp_t *d, const struct loop_model *m, const struct ddp_optimizer *opt, uint64_t seed,
                 ddp_error_t *errp)
{
    for (size_t i = 0; i < m->n_params; i++)
        ddp_param_add(d, m->param[i].name, DDP_F32, m->param[i].shape, m->param[i].ndim, m->param[i].flags);
    if ((m->stream && ddp_stream(d, m->stream, errp) < 0) || ddp_commit(d, opt, errp) < 0 || bind(d, m, errp) < 0 ||
        (ddp_world(d)->rank == 0 && fill_values(d, m, seed, errp) < 0))
        return -1;
    return ddp_sync_params(d, errp);
}

static void grad_ready(void *ctx, int id)
{
    ddp_grad_ready(ctx, id);
}

static void border(void *ctx, enum ddp_mark mark)
{
    ddp_mark(ctx, mark);
}

/* Without samples gradients stay zero, and nothing was used: whether a parameter is decayed or left alone in this step
 * follows from the samples that there are, wherever they are. */
static int forward_backward(ddp_t *d, const struct loop_model *m, const struct ddp_batch *b, double *ret_loss_sum,
                            uint64_t *ret_n_tokens, ddp_error_t *errp)
{
    if (b->n_samples > 0)
        return m->forward_backward(m->self, b->sample, b->n_samples, b->grad_scale, grad_ready, d, ret_loss_sum,
                                   ret_n_tokens, errp);
    for (size_t id = m->n_params; id > 0; id--)
        ddp_grad_unused(d, (int)id - 1);
    *ret_loss_sum = 0;
    *ret_n_tokens = 0;
    return 0;
}

/* What comes after the micro-step that has just begun. */
static int prefetch(ddp_t *d, const struct loop_model *m, ddp_error_t *errp)
{
    const uint64_t *sample;
    size_t n;
    if (!m->prefetch)
        return 0;
    if (ddp_batch_peek(d, &sample, &n, errp) < 0)
        return -1;
    m->prefetch(m->self, sample, n);
    return 0;
}

static int micro_step(ddp_t *d, const struct loop_model *m, bool *ret_sync, uint64_t *ret_n_tokens, ddp_error_t *errp)
{
    struct ddp_batch b;
    double loss_sum;
    if (ddp_batch_next(d, &b, errp) < 0)
        return -1;
    *ret_sync = b.sync;
    if (prefetch(d, m, errp) < 0 || forward_backward(d, m, &b, &loss_sum, ret_n_tokens, errp) < 0)
        return -1;
    return ddp_backward_end(d, loss_sum, *ret_n_tokens, errp);
}

/* Adds this rank's tokens to *n_tokens. */
static int step(ddp_t *d, const struct loop_model *m, struct ddp_step *ret, uint64_t *n_tokens, ddp_error_t *errp)
{
    for (bool sync = false; !sync;) {
        uint64_t n;
        if (micro_step(d, m, &sync, &n, errp) < 0)
            return -1;
        *n_tokens += n;
    }
    return ddp_step(d, ret, errp);
}

/* Fills this rank's windows of sum[n_windows]; the others keep 0. */
static int evaluate_own(const struct ddp_world *w, const struct loop_model *m, double *sum, ddp_error_t *errp)
{
    for (size_t g = (size_t)w->rank; g * m->group < m->n_windows; g += (size_t)w->size) {
        size_t first = g * m->group, left = m->n_windows - first;
        if (m->evaluate(m->self, first, left < m->group ? left : m->group, sum + first, errp) < 0)
            return -1;
    }
    return 0;
}

int loop_validate(ddp_t *d, const struct loop_model *m, double *ret_loss, ddp_error_t *errp)
{
    double *sum = calloc(m->n_windows, sizeof *sum);
    if (!sum)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu validation windows", m->n_windows);
    int rc = evaluate_own(ddp_world(d), m, sum, errp);
    if (rc == 0) {
        ddp_work_t *w = ddp_allreduce(d, sum, m->n_windows, DDP_F64, DDP_SUM, errp);
        rc = w ? ddp_wait(w, errp) : -1;
    }
    if (rc == 0) {
        double total = 0;
        for (size_t i = 0; i < m->n_windows; i++)
            total += sum[i];
        *ret_loss = total / ((double)m->n_windows * (double)m->tokens_per_window);
    }
    free(sum);
    return rc;
}

static int record_validation(ddp_t *d, uint64_t at, double loss, ddp_error_t *errp)
{
    char members[96], number[32] = "null";
    if (loss - loss == 0)
        snprintf(number, sizeof number, "%.17g", loss);
    snprintf(members, sizeof members, "\"step\": %" PRIu64 ", \"loss\": %s", at, number);
    return ddp_record(d, "validation", members, errp);
}

static bool validates(const struct loop_model *m, const struct loop_options *o, uint64_t step)
{
    return m->n_windows && step && (step >= o->steps || (o->val_every && step % o->val_every == 0));
}

bool loop_begins_validating(const ddp_t *d, const struct loop_model *m, const struct loop_options *o)
{
    struct ddp_checkpoint_status s = {0};
    uint64_t step = ddp_steps_done(d);
    ddp_checkpoint_status(d, &s);
    return validates(m, o, step) && (!s.resumed_skipped || step >= o->steps); /* now the last */
}

/* Where one is due. */
static int validate_step(ddp_t *d, const struct loop_model *m, const struct loop_options *o, uint64_t at,
                         struct loop_say *say, ddp_error_t *errp)
{
    uint64_t began = clock_ns();
    double loss;
    if (!validates(m, o, at))
        return 0;
    if (loop_validate(d, m, &loss, errp) < 0)
        return -1;
    loop_say_validation(say, at, loss, began);
    return record_validation(d, at, loss, errp);
}

int loop_run(ddp_t *d, const struct loop_model *m, const struct loop_options *o, struct ddp_step *ret_last,
             ddp_error_t *errp)
{
    struct ddp_step s = {.step = ddp_steps_done(d)};
    struct loop_say say;
    struct loop_ckpt ckpt;
    loop_say_begin(&say, d, m, o);
    loop_ckpt_begin(&ckpt, d, o);
    if (m->listen)
        m->listen(m->self, border, d);
    if (loop_begins_validating(d, m, o) && validate_step(d, m, o, s.step, &say, errp) < 0)
        return -1;
    if (s.step && s.step >= o->steps && loop_ckpt_step(&ckpt, d, &s, errp) < 0) /* it may be in memory alone */
        return -1;
    while (s.step < o->steps) {
        if (step(d, m, &s, &say.step_tokens, errp) < 0)
            return -1;
        if (!s.cut) /* else it was reported before */
            loop_say_step(&say, &s);
        *ret_last = s;
        if (!s.stop && !s.skipped && validate_step(d, m, o, s.step, &say, errp) < 0)
            return -1;
        if (loop_ckpt_step(&ckpt, d, &s, errp) < 0)
            return -1;
        if (s.stop)
            return 1;
    }
    return 0;
}

int loop_params_hash(ddp_t *d, const struct loop_model *m, uint64_t *ret, ddp_error_t *errp)
{
    uint64_t hash = HASH_START;
    float *value = largest_param(m, errp);
    int rc = value ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < m->n_params; i++) {
        rc = ddp_param_read(d, (int)i, value, errp);
        for (size_t k = 0; rc == 0 && k < elems_of(&m->param[i]); k++) {
            uint32_t word;
            memcpy(&word, value + k, sizeof word);
            hash = hash_step(hash, word);
        }
    }
    free(value);
    if (rc == 0)
        *ret = hash;
    return rc;
}
