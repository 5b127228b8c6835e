/* loopprobe.c - the training loop over a model that writes down what it is asked for, for t5012 and t5013:
 * loopprobe SAMPLES BATCH ACCUM SHARDS STEPS WINDOWS. Prints a line per sample that a micro-step has, "sample N STEP",
 * a line per window that is evaluated, "window N", and on rank 0 "loss X" of the validation: the mean over the windows
 * of their numbers. The model checks that what it was told to prefetch is what it then gets.
 * PROBE_CKPT=DIR: checkpoints go there, and training resumes from there; rank 0 then prints "resumed STEP" (0: from the
 * start). PROBE_DIE="RANK N": that rank dies in its N-th micro-step after the first commit of this run. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/train/loop.h"

enum { MOST = 64, GROUP = 3 };

struct model {
    ddp_t *d;
    struct loop_param param[2];
    float *grad;
    uint64_t now[MOST], next[MOST];
    size_t n_now, n_next;
    bool has_now; /* now is what was to come */
    int n_wrong;
};

static int bind(void *self, const struct ddp_param *tensor, ddp_error_t *errp)
{
    (void)errp;
    ((struct model *)self)->grad = tensor[0].grad;
    return 0;
}

static void init(void *self, uint64_t seed, size_t id, float *ret)
{
    const struct loop_param *p = &((struct model *)self)->param[id];
    (void)seed;
    memset(ret, 0, p->shape[0] * sizeof *ret);
}

static void prefetch(void *self, const uint64_t *sample, size_t n)
{
    struct model *m = self;
    memcpy(m->next, sample, n * sizeof *sample);
    m->n_next = n;
}

static void die_if_wanted(const ddp_t *d)
{
    static int n_since;
    const char *when = getenv("PROBE_DIE");
    struct ddp_checkpoint_status s;
    int rank, n;
    if (when && sscanf(when, "%d %d", &rank, &n) == 2 && rank == ddp_world(d)->rank &&
        ddp_checkpoint_status(d, &s) == 0 && s.n_committed > 0 && ++n_since == n)
        raise(SIGKILL);
}

static int forward_backward(void *self, const uint64_t *sample, size_t n, float grad_scale, loop_ready_f *ready,
                            void *ctx, double *ret_loss_sum, uint64_t *ret_n_tokens, ddp_error_t *errp)
{
    struct model *m = self;
    (void)errp;
    if (n == 0 || (m->has_now && (m->n_now != n || memcmp(m->now, sample, n * sizeof *sample) != 0)))
        m->n_wrong++;
    memcpy(m->now, m->next, sizeof m->now);
    m->n_now = m->n_next;
    m->has_now = m->n_now > 0; /* where none are to come, this is not called for them */
    unsigned long long step = ddp_steps_done(m->d) + 1;
    for (size_t i = 0; i < n; i++)
        printf("sample %llu %llu\n", (unsigned long long)sample[i], step);
    die_if_wanted(m->d);
    m->grad[0] += grad_scale * (float)n;
    ready(ctx, 1);
    ready(ctx, 0);
    *ret_loss_sum = (double)n;
    *ret_n_tokens = n;
    return 0;
}

static int evaluate(void *self, size_t first, size_t n, double *ret_loss_sum, ddp_error_t *errp)
{
    (void)self;
    if (n == 0 || n > GROUP)
        return error_set(errp, DDP_E_USAGE, 1, "%zu windows at once", n);
    for (size_t i = 0; i < n; i++) {
        printf("window %zu\n", first + i);
        ret_loss_sum[i] = 2 * (double)(first + i);
    }
    return 0;
}

static int resume(ddp_t *d, const char *folder, ddp_error_t *errp)
{
    if (folder && ddp_resume(d, folder, errp) < 0)
        return -1;
    if (folder && ddp_world(d)->rank == 0)
        printf("resumed %llu\n", (unsigned long long)ddp_steps_done(d));
    return 0;
}

static int train(ddp_t *d, struct loop_model *lm, const uint64_t *o, ddp_error_t *errp)
{
    struct ddp_optimizer opt = {.lr = 0, .rule = "sgd"};
    struct loop_options lo = {.steps = o[4], .log_every = 0, .ckpt = getenv("PROBE_CKPT")};
    struct ddp_step last;
    double loss;
    if (loop_prepare(d, lm, &opt, 1, errp) < 0 ||
        ddp_data_open(d, o[0], (size_t)o[1], (int)o[2], (int)o[3], 7, errp) < 0 ||
        resume(d, lo.ckpt, errp) < 0 || loop_run(d, lm, &lo, &last, errp) < 0 || loop_validate(d, lm, &loss, errp) < 0)
        return -1;
    if (ddp_world(d)->rank == 0)
        printf("loss %.17g\n", loss);
    return 0;
}

int main(int argc, char **argv)
{
    ddp_error_t e = {0};
    setvbuf(stdout, NULL, _IOLBF, 0); /* whole lines, where ranks share a pipe */
    ddp_t *d = ddp_init(&argc, &argv, &e);
    uint64_t o[6] = {0};
    for (int i = 1; i < argc && i <= 6; i++)
        o[i - 1] = strtoull(argv[i], NULL, 10);
    struct model m = {.d = d,
                      .param = {{.name = "a", .shape = {5, 1}, .ndim = 1}, {.name = "b", .shape = {70, 1}, .ndim = 1}}};
    struct loop_model lm = {.self = &m, .n_params = 2, .param = m.param, .bind = bind, .init = init,
                            .prefetch = prefetch, .forward_backward = forward_backward, .n_windows = (size_t)o[5],
                            .group = GROUP, .tokens_per_window = 2, .evaluate = evaluate};
    int rc = d && o[1] <= MOST ? train(d, &lm, o, &e) : -1;
    if (rc < 0)
        fprintf(stderr, "%s\n", e.text);
    if (m.n_wrong)
        fprintf(stderr, "%d micro-steps were not those that were to come\n", m.n_wrong);
    ddp_finalize(d);
    return rc < 0 || m.n_wrong;
}
