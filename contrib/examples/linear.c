/* linear.c - a whole libddp program: linear regression by mini-batches, on any number of ranks.
 *
 *     cc linear.c -o linear $(pkg-config --cflags --libs libddp)
 *     srun --ddp=on -n4 ./linear /usr/share/common-licenses/GPL-3          (or: ddp run -n 4 ./linear FILE)
 *
 * With --ckpt DIR it saves checkpoints and, started again, goes on from the newest.
 *
 * The data: a text, cut into windows of 512 bytes. From how often eight kinds of characters occur in a window it learns
 * how many words the window has. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddp.h"

enum { D = 8, B = 8, WINDOW = 512, STEPS = 500, MAX = 100000 };
static float X[MAX][D], Y[MAX];

/* One window into x and y, both scaled to about 1. */
static void describe(const unsigned char *text, float *x, float *y)
{
    static const char *const kinds[D] = {"e", "t", "aiou", "n", "rs", "\n", ".,;", "-/()"};
    memset(x, 0, D * sizeof *x);
    *y = 0;
    for (int i = 0; i < WINDOW; i++) {
        for (int k = 0; k < D; k++)
            x[k] += text[i] && strchr(kinds[k], tolower(text[i])) ? 8.0f / WINDOW : 0;
        *y += i && isspace(text[i - 1]) && !isspace(text[i]) ? 8.0f / WINDOW : 0;
    }
}

static size_t load(const char *path)
{
    unsigned char text[WINDOW];
    FILE *f = fopen(path, "rb");
    size_t n = 0;
    while (f && n < MAX && fread(text, sizeof text, 1, f) == 1) {
        describe(text, X[n], &Y[n]);
        n++;
    }
    if (f)
        fclose(f);
    return n;
}

static float miss(const float *w, const float *b, size_t i) /* prediction less truth, of window i */
{
    float r = *b - Y[i];
    for (int j = 0; j < D; j++)
        r += X[i][j] * w[j];
    return r;
}

/* The mean over all windows, of which each rank takes every size-th. */
static int evaluate(ddp_t *d, const float *w, const float *b, size_t n, double *ret, ddp_error_t *errp)
{
    double sum[2] = {0, 0}; /* of losses; how many */
    for (size_t i = (size_t)ddp_world(d)->rank; i < n; i += (size_t)ddp_world(d)->size, sum[1]++)
        sum[0] += miss(w, b, i) * miss(w, b, i);
    ddp_work_t *all = ddp_allreduce(d, sum, 2, DDP_F64, DDP_SUM, errp);
    if (!all || ddp_wait(all, errp))
        return -1;
    *ret = sum[0] / sum[1];
    return 0;
}

/* The last step's checkpoint; where the disk is full, waits for space. 1: it is there; 0: it is not (a checkpoint that
 * fails is no error of the calls); -1: an error. All ranks see alike. */
static int save_last(ddp_t *d, const char *dir, uint64_t step, ddp_error_t *errp)
{
    struct ddp_checkpoint_status c;
    char told[sizeof c.warning] = "";
    int more;
    do {
        int failed = ddp_checkpoint(d, dir, errp) || ddp_checkpoint_wait(d, errp);
        ddp_checkpoint_status(d, &c);
        if (!failed && c.last_step == step)
            return 1;
        more = ddp_checkpoint_retry(d, failed ? NULL : errp);
        ddp_checkpoint_status(d, &c);
        if (strcmp(c.warning, told) != 0) /* what it waits for, or why it failed; rank 0 alone has one */
            fprintf(stderr, "%s\n", c.warning);
        strcpy(told, c.warning);
    } while (more > 0);
    return more;
}

int main(int argc, char **argv)
{
    ddp_error_t e;
    ddp_t *d = ddp_init(&argc, &argv, &e); /* rank, size, wire-up, settings */
    if (!d)
        return fprintf(stderr, "%s\n", e.text), 1;
    const char *ckpt = argc == 4 && !strcmp(argv[2], "--ckpt") ? argv[3] : NULL;
    size_t n = argc == 2 || ckpt ? load(argv[1]) : 0;
    if (n == 0) {
        snprintf(e.text, sizeof e.text, "usage: linear FILE [--ckpt DIR] (FILE: a text of at least %d bytes)", WINDOW);
        goto fail;
    }
    int w = ddp_param_add(d, "w", DDP_F32, (size_t[]){D}, 1, 0);
    int b = ddp_param_add(d, "b", DDP_F32, (size_t[]){1}, 1, 0);
    struct ddp_optimizer opt = {
        .lr = 3e-2f, .beta1 = .9f, .beta2 = .95f, .eps = 1e-8f, .clip = 1, .warmup = 10, .total = STEPS};
    if (ddp_commit(d, &opt, &e)) /* every rank has declared the same; tensors exist from here on */
        goto fail;
    struct ddp_param W = ddp_param_get(d, w), Z = ddp_param_get(d, b);
    for (int k = 0; k < D; k++)
        ((float *)W.value)[k] = .1f * (float)(ddp_world(d)->rank + 1); /* rank 0's is what all ranks get */
    if (ddp_sync_params(d, &e) || ddp_data_open(d, n, B, 1, 0, 42, &e) || (ckpt && ddp_resume(d, ckpt, &e) < 0))
        goto fail;
    struct ddp_step s = {.step = ddp_steps_done(d)}; /* 0, or where the checkpoint was taken */
    while (s.step < STEPS && !s.stop) {
        struct ddp_batch k;
        do { /* micro-steps of one step */
            if (ddp_batch_next(d, &k, &e)) /* gradients are zero here */
                goto fail;
            const float *pw = W.value, *pb = Z.value;
            float *gw = W.grad, *gb = Z.grad;
            double loss = 0;
            for (size_t i = 0; i < k.n_samples; i++) {
                const float *x = X[k.sample[i]];
                float r = miss(pw, pb, k.sample[i]);
                for (int j = 0; j < D; j++)
                    gw[j] += k.grad_scale * 2 * r * x[j];
                *gb += k.grad_scale * 2 * r;
                loss += r * r;
            }
            ddp_grad_ready(d, b);
            ddp_grad_ready(d, w);
            if (ddp_backward_end(d, loss, k.n_samples, &e)) /* sums over the ranks */
                goto fail;
        } while (!k.sync);
        if (ddp_step(d, &s, &e)) /* divide by the global count, clip, AdamW */
            goto fail;
        if (ddp_world(d)->rank == 0 && s.step % 100 == 0)
            printf("step %d loss %.6f\n", (int)s.step, s.loss);
        if (ckpt && s.checkpoint && !s.stop && ddp_checkpoint(d, ckpt, &e))
            goto fail;
    }
    int is_saved = ckpt ? save_last(d, ckpt, s.step, &e) : 1;
    if (is_saved < 0)
        goto fail;
    double loss;
    if (!s.stop) {
        if (evaluate(d, W.value, Z.value, n, &loss, &e))
            goto fail;
        if (ddp_world(d)->rank == 0)
            printf("all windows: loss %.6f\n", loss);
    }
    ddp_finalize(d);
    return !is_saved ? 1 : ckpt && s.stop ? DDP_EXIT_STOPPED : 0; /* 75 promises a checkpoint */
fail:
    fprintf(stderr, "%s\n", e.text);
    ddp_abort(d, 1, e.text);
    ddp_finalize(d);
    return 1;
}
