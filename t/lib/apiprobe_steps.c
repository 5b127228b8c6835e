/* Steps: gradients that are not finite, ranks with fewer steps than others, the end that a signal asks for. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "t/lib/apiprobe.h"

/* 64 steps in a row whose gradient is not finite end training; one that is finite starts the count anew. A loss that is
 * finite, with gradients that travel as f16, is another matter. */
int case_diverged(ddp_t *d)
{
    const char *why = getenv("DDP_COMPRESS") ? "use compress=bf16" : "training has diverged";
    struct ddp_batch k;
    struct ddp_step s;
    CHECK(open_three(d, 5, 1) == 0);
    for (int step = 0; step < 10 + 1 + 64; step++) {
        CHECK(ddp_batch_next(d, &k, &e) == 0);
        ((float *)ddp_param_get(d, 0).grad)[0] = step == 10 ? 1 : strtof("inf", NULL);
        for (int i = 2; i >= 0; i--)
            ddp_grad_ready(d, i);
        CHECK(ddp_backward_end(d, 1, 2, &e) == 0);
        bool is_last = step == 10 + 64;
        CHECK(ddp_step(d, &s, &e) == (is_last ? -1 : 0));
        CHECK(is_last ? strstr(e.text, "64 steps in a row") && strstr(e.text, why) : s.skipped == (step != 10));
    }
    return 0;
}

/* A gradient of rank 1 that is not finite: named on every rank, and the step is skipped. */
int case_nan(ddp_t *d)
{
    struct ddp_batch k;
    struct ddp_step s;
    CHECK(open_three(d, 5, 2) == 0);
    for (int step = 0; step < 3; step++) {
        do {
            CHECK(ddp_batch_next(d, &k, &e) == 0);
            for (int i = 2; i >= 0; i--) {
                float *g = ddp_param_get(d, i).grad;
                g[4] += 1;
                if (step == 1 && i == 1 && ddp_world(d)->rank == 1)
                    g[3] = strtof("nan", NULL);
                ddp_grad_ready(d, i);
            }
            CHECK(ddp_backward_end(d, 1, 2, &e) == 0);
        } while (!k.sync);
        CHECK(ddp_step(d, &s, &e) == 0);
        CHECK(s.skipped == (step == 1) && s.bad_param == (step == 1 ? 1 : -1));
    }
    float *v = ddp_param_get(d, 1).value; /* two steps of lr 0.5, gradient 1/2 each */
    CHECK(s.step == 2 && v[4] == -.5f && v[3] == 0);
    return 0;
}

/* A step takes 20 ms of computing, and on rank 1 as many more as argv[2] says. */
int case_slow(ddp_t *d)
{
    struct ddp_metrics m;
    struct ddp_batch k;
    struct ddp_step s;
    CHECK(open_three(d, 5, 1) == 0);
    for (int step = 0; step < 52; step++) {
        CHECK(ddp_batch_next(d, &k, &e) == 0);
        poll(NULL, 0, 20 + (ddp_world(d)->rank == 1 ? (int)n_elems : 0));
        for (int i = 2; i >= 0; i--)
            ddp_grad_ready(d, i);
        CHECK(ddp_backward_end(d, 1, 2, &e) == 0 && ddp_step(d, &s, &e) == 0);
    }
    CHECK(ddp_metrics(d, &m) == 0);
    CHECK(n_elems ? m.slow_rank == 1 && m.slow_factor > 1.5 && !strncmp(m.slow, "rank 1 (", 8)
                  : m.slow_rank == -1 && m.slow_factor == 0 && !m.slow[0]);
    return 0;
}

/* A step in another folder than the one that it was started in. */
int case_moves(ddp_t *d)
{
    const char *goodput;
    struct ddp_batch k;
    struct ddp_step s;
    CHECK(open_three(d, 5, 1) == 0 && chdir("/") == 0 && ddp_batch_next(d, &k, &e) == 0);
    for (int i = 2; i >= 0; i--)
        ddp_grad_ready(d, i);
    CHECK(ddp_backward_end(d, 1, 2, &e) == 0 && ddp_step(d, &s, &e) == 0 && ddp_goodput(d, &goodput, &e) == 0);
    if (goodput)
        puts(goodput);
    return 0;
}

/* Rank r takes 4 + 3 (R - 1 - r) steps, the last rank fewest; the sums are computed here once more. */
static int n_steps(const struct ddp_world *w, int rank)
{
    return 4 + 3 * (w->size - 1 - rank);
}

static float gradient(int rank, int step, int id)
{
    return (float)((rank * 7 + step * 3 + id) % 11);
}

static void serial_steps(const struct ddp_world *w, float *value)
{
    for (int step = 0; step < n_steps(w, 0); step++) {
        float sum[3] = {0};
        int items = 0;
        for (int r = 0; r < w->size; r++) {
            items += step < n_steps(w, r) ? 2 : 0;
            for (int id = 0; id < 3; id++)
                sum[id] += step < n_steps(w, r) ? gradient(r, step, id) : 0;
        }
        for (int id = 0; id < 3; id++)
            value[id] = value[id] * 1 - .5f * (float)(1 / (double)items) * sum[id];
    }
}

int case_join(ddp_t *d)
{
    const struct ddp_world *w = ddp_world(d);
    struct ddp_batch k;
    struct ddp_step s = {0};
    float want[3] = {0};
    n_samples = (uint64_t)(w->size * (2 * n_steps(w, 0) + 1)); /* one sample more per rank than these steps take */
    CHECK(open_three(d, 9000, 1) == 0);
    for (int step = 0; step < n_steps(w, w->rank); step++) {
        CHECK(ddp_batch_next(d, &k, &e) == 0);
        for (int id = 2; id >= 0; id--) {
            ((float *)ddp_param_get(d, id).grad)[8999] = gradient(w->rank, step, id);
            ddp_grad_ready(d, id);
        }
        CHECK(ddp_backward_end(d, 1, 2, &e) == 0);
        CHECK(ddp_step(d, &s, &e) == 0);
    }
    CHECK(ddp_join(d, &e) == 0);
    serial_steps(w, want);
    for (int id = 0; id < 3; id++) {
        const float *v = ddp_param_get(d, id).value;
        if (v[8999] != want[id] || v[0] != 0)
            printf("parameter %d is %.9g, not %.9g\n", id, (double)v[8999], (double)want[id]);
        CHECK(v[8999] == want[id] && v[0] == 0);
    }
    struct ddp_metrics m;
    CHECK(ddp_metrics(d, &m) == 0 && m.steps == (uint64_t)n_steps(w, 0) + 1); /* in the last one all had joined */
    CHECK(ddp_batch_next(d, &k, &e) == 0); /* and training may go on, with what is left of the epoch on all ranks */
    CHECK(k.n_samples == 1 && k.epoch == 0 && k.sync);
    CHECK(ddp_join(d, &e) == -1 && strstr(e.text, "a micro-step is open"));
    return 0;
}

/* Rank argv[2] is told to end while rank 0 trains and the others have joined: all stop after the same step. */
int case_join_stop(ddp_t *d)
{
    bool is_told = (size_t)ddp_world(d)->rank == n_elems, is_first = ddp_world(d)->rank == 0;
    struct ddp_step s = {0};
    CHECK(open_three(d, 5, 1) == 0);
    if (is_told && !is_first)
        raise(SIGTERM);
    while (is_first && !s.stop && s.step < 100) {
        bool sync = false;
        CHECK(micro_step(d, (int[]){0, 1, 2}, 3, &sync) == 0 && ddp_step(d, &s, &e) == 0);
        if (is_told && s.step == 6)
            raise(SIGTERM);
    }
    if (is_first)
        CHECK(s.stop && s.step == (is_told ? 7 : 1));
    else
        CHECK(ddp_join(d, &e) == 1);
    CHECK(ddp_barrier(d, &e) == 0);
    return 0;
}

/* The one sample that an epoch's last step takes would be rank 1's, which has joined: rank 0 takes the step as skipped,
 * and the next one, of the next epoch, as ever. With an argument it does not count its samples there, and is told. */
int case_join_rest(ddp_t *d)
{
    static const struct ddp_step want[] = {{.step = 1}, {.step = 1, .skipped = true}, {.step = 2}};
    struct ddp_batch k;
    struct ddp_step s;
    bool is_first = ddp_world(d)->rank == 0;
    n_samples = 5;
    CHECK(open_three(d, 5, 1) == 0);
    for (int i = 0; i < (is_first ? 3 : 1); i++) {
        CHECK(ddp_batch_next(d, &k, &e) == 0 && k.n_samples == (i == 1 ? 0 : 2));
        for (int id = 2; id >= 0; id--)
            ddp_grad_ready(d, id);
        CHECK(ddp_backward_end(d, 3. * (double)k.n_samples, i == 2 && n_elems ? 0 : k.n_samples, &e) == 0);
        if (i == 2 && n_elems) {
            CHECK(ddp_step(d, &s, &e) == -1 && strstr(e.text, "no rank reported any item"));
            return 0;
        }
        CHECK(ddp_step(d, &s, &e) == 0 && s.step == want[i].step && s.skipped == want[i].skipped);
        CHECK(s.loss == (s.skipped ? 0 : 3) && s.grad_norm == 0 && s.bad_param == -1 && s.loss_scale == 65536);
    }
    int rc = ddp_join(d, &e);
    if (n_elems)
        CHECK(rc == -1 && strstr(e.text, "no rank reported any item"));
    else
        CHECK(rc == 0 && ddp_steps_done(d) == 2);
    return 0;
}

/* A stop of which ranks hear when all have joined: a checkpoint is waited for, as after a step that says stop. */
int case_join_saved(ddp_t *d)
{
    struct ddp_checkpoint_status at;
    struct ddp_batch k;
    struct ddp_step s;
    const char *dir = getenv("PROBE_DIR");
    CHECK(open_three(d, 500000, 1) == 0 && ddp_resume(d, dir, &e) == 0);
    ddp_checkpoint_status(d, &at);
    CHECK(at.n_committed == 0 && at.last_step == UINT64_MAX); /* and not step 0, which a stop can save */
    CHECK(ddp_batch_next(d, &k, &e) == 0);
    for (int i = 2; i >= 0; i--)
        ddp_grad_ready(d, i);
    CHECK(ddp_backward_end(d, 1, 2, &e) == 0 && ddp_step(d, &s, &e) == 0 && !s.stop);
    raise(SIGUSR1);
    CHECK(ddp_join(d, &e) == 1 && ddp_checkpoint(d, dir, &e) == 0);
    ddp_checkpoint_status(d, &at);
    CHECK(at.n_committed == 1 && !at.in_flight && at.last_step == 1);
    return 0;
}

/* What is peeked is what comes, also behind a step that a stop has cut. */
int case_peek(ddp_t *d)
{
    const uint64_t *sample;
    struct ddp_batch k;
    size_t n;
    CHECK(open_three(d, 5, 4) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(ddp_batch_peek(d, &sample, &n, &e) == 0 && ddp_batch_next(d, &k, &e) == 0);
        CHECK(n == k.n_samples && (i == 0 ? n > 0 : n == 0));
        if (i == 0)
            raise(SIGUSR1);
        for (int p = 2; p >= 0; p--)
            ddp_grad_ready(d, p);
        CHECK(ddp_backward_end(d, 1, 2, &e) == 0);
    }
    return 0;
}
