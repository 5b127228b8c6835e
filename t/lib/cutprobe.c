/* cutprobe.c - trains a little and says every bit, for tests of stops inside a step:
 *
 *     cutprobe DIR STEPS ACCUM SHARDS [STEP MICRO RANK [on|again|join|swap]]
 *
 * In step STEP, micro-step MICRO, rank RANK sends itself SIGTERM. The job then saves into DIR and exits with 75; with
 * "on" it takes no notice and goes on, with "again" it does so after another SIGTERM in the next micro-step. With
 * "join" rank R takes R steps fewer and then joins; with "swap" the parameters are declared the other way round. A
 * step's line has the micro-steps that this run took for it, on rank 0. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/ddp.h"

enum { N = 5000, M = 70, SAMPLES = 1000, BATCH = 3 };

static ddp_error_t e;

/* In (-1, 1), from a sample and an element. */
static float noise(uint64_t sample, size_t i)
{
    uint64_t x = (sample + 1) * 0x9e3779b97f4a7c15u ^ (i + 1) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebu;
    return (float)((double)(x >> 11) / 4503599627370496.0 - 1);
}

/* Adds scale times the gradient of sample s; -0 among them, which adding a zero would change. */
static double add_sample(const struct ddp_param *p, uint64_t s, float scale)
{
    const float *value = p->value;
    float *grad = p->grad;
    double loss = 0;
    for (size_t i = 0; i < p->n_elems; i++) {
        float r = value[i] - noise(s, i);
        grad[i] = i == 0 ? -0.0f : grad[i] + 2 * scale * r;
        loss += (double)r * r;
    }
    return loss;
}

/* The second parameter is used for some samples only. */
static int micro_step(ddp_t *d, const int *id, bool *ret_sync)
{
    struct ddp_batch b;
    double loss = 0;
    bool is_used = false;
    if (ddp_batch_next(d, &b, &e) < 0)
        return -1;
    struct ddp_param p = ddp_param_get(d, id[0]), q = ddp_param_get(d, id[1]);
    for (size_t k = 0; k < b.n_samples; k++) {
        loss += add_sample(&p, b.sample[k], b.grad_scale);
        if (b.sample[k] % 40 == 0) {
            loss += add_sample(&q, b.sample[k], b.grad_scale);
            is_used = true;
        }
    }
    if (!b.n_samples) /* as a careless model would */
        for (size_t i = 0; i < N; i++)
            ((float *)p.grad)[i] += 0.0f;
    ddp_grad_ready(d, id[0]);
    if (is_used)
        ddp_grad_ready(d, id[1]);
    else
        ddp_grad_unused(d, id[1]);
    *ret_sync = b.sync;
    return ddp_backward_end(d, loss, b.n_samples, &e);
}

static uint64_t hash_of(ddp_t *d, const int *id)
{
    uint64_t hash = HASH_START;
    for (int k = 0; k < 2; k++) {
        struct ddp_param p = ddp_param_get(d, id[k]);
        for (size_t i = 0; i < p.n_elems; i++) {
            uint32_t word;
            memcpy(&word, (float *)p.value + i, sizeof word);
            hash = hash_step(hash, word);
        }
    }
    return hash;
}

/* What a step that is cut says of the one before it, of which a resume knows the number alone. */
static bool is_as_before(const struct ddp_step *s, const struct ddp_step *before)
{
    return s->step == before->step && s->loss == before->loss && s->grad_norm == before->grad_norm &&
           s->lr == before->lr && s->loss_scale == before->loss_scale;
}

static int train(ddp_t *d, const int *id, int argc, char **argv)
{
    bool joins = argc > 8 && !strcmp(argv[8], "join");
    uint64_t steps = strtoull(argv[2], NULL, 10) - (joins ? (uint64_t)ddp_world(d)->rank : 0);
    uint64_t stop_step = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    int stop_micro = argc > 6 ? atoi(argv[6]) : 0, stop_rank = argc > 7 ? atoi(argv[7]) : 0;
    bool goes_on = argc > 8 && !strcmp(argv[8], "on"), is_again = argc > 8 && !strcmp(argv[8], "again");
    bool is_first = ddp_world(d)->rank == 0;
    struct ddp_step s = {.step = ddp_steps_done(d)};
    while (s.step < steps && !(s.stop && !goes_on && !is_again)) {
        bool sync = false;
        int n = 0;
        if (s.stop && is_again) {
            is_again = false;
            stop_micro = 0;
        }
        for (; !sync; n++) {
            if (s.step + 1 == stop_step && n == stop_micro && ddp_world(d)->rank == stop_rank)
                raise(SIGTERM);
            if (micro_step(d, id, &sync) < 0)
                return -1;
        }
        const struct ddp_step before = s;
        if (ddp_step(d, &s, &e) < 0)
            return -1;
        if (s.cut && !is_as_before(&s, &before))
            printf("the step that is cut is not as the one before it\n");
        if (is_first && !s.cut)
            printf("step %" PRIu64 " loss %.17g norm %.17g micro-steps %d\n", s.step, s.loss, s.grad_norm, n);
        if (is_first && s.cut && !goes_on)
            printf("cut in step %" PRIu64 " after %d micro-steps by signal %d\n", s.step + 1, n - 1, s.stop_signal);
        if (s.stop && !goes_on && !joins && ddp_checkpoint(d, argv[1], &e) < 0)
            return -1;
    }
    int joined = joins && !s.stop ? ddp_join(d, &e) : 0;
    if (joined < 0)
        return -1;
    if (joins)
        printf("rank %d stops %d cut %d\n", ddp_world(d)->rank, s.stop || joined, s.cut);
    struct ddp_checkpoint_status st;
    ddp_checkpoint_status(d, &st);
    if (is_first && st.warning[0])
        printf("warning: %s\n", st.warning);
    if (is_first && s.step >= steps)
        printf("hash %016" PRIx64 "\n", hash_of(d, id));
    return s.stop && !goes_on ? DDP_EXIT_STOPPED : 0;
}

int main(int argc, char **argv)
{
    ddp_t *d = ddp_init(&argc, &argv, &e);
    int id[2], rc = -1;
    struct ddp_optimizer opt = {.lr = 1e-2f, .beta1 = .9f, .beta2 = .95f, .eps = 1e-8f, .clip = 1, .weight_decay = .1f};
    if (d && argc >= 5) {
        bool is_swapped = argc > 8 && !strcmp(argv[8], "swap");
        for (int i = 0; i < 2; i++)
            if ((i == 0) != is_swapped)
                id[0] = ddp_param_add(d, "p", DDP_F32, (size_t[]){N / 10, 10}, 2, 0);
            else
                id[1] = ddp_param_add(d, "q", DDP_F32, (size_t[]){M}, 1, 0);
        if (ddp_commit(d, &opt, &e) == 0 &&
            ddp_data_open(d, SAMPLES, BATCH, atoi(argv[3]), atoi(argv[4]), 7, &e) == 0 &&
            ddp_resume(d, argv[1], &e) >= 0)
            rc = train(d, id, argc, argv);
    }
    if (rc < 0) {
        fprintf(stderr, "%s\n", e.text);
        ddp_abort(d, 1, e.text);
    }
    ddp_finalize(d);
    return rc < 0 ? 1 : rc;
}
