#include "t/lib/reduction.h"

#include <string.h>

#include "runtime/grads/hook.h"

enum { STEPS = 6 };

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ b) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

static unsigned pick(const struct reduction *d, uint64_t what, unsigned n)
{
    return (unsigned)(mix(d->seed, what) % n);
}

/* A hook of the test's own: integers on the wire, the elements of a parameter turned about by its id. */
static void encode_i32(void *ctx, void *wire, const float *grad, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx;
    int32_t *w = wire;
    for (size_t i = 0; i < n; i++)
        w[i] = (int32_t)grad[i] * 3 + info->param + (int32_t)((info->first + i) % 5);
}

static void decode_i32(void *ctx, float *grad, const void *wire, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx;
    const int32_t *w = wire;
    for (size_t i = 0; i < n; i++)
        grad[i] = (float)((w[i] - info->n_ranks * (info->param + (int32_t)((info->first + i) % 5))) / 3);
}

/* All of them exact for sums as small as these; f16 divides by the ranks, and is so where they are a power of two. */
static void draw_hook(struct reduction *d, unsigned which)
{
    if (which == 1)
        hook_compress(COMPRESS_BF16, &d->hook);
    else if (which == 2 && (d->size & (d->size - 1)) == 0)
        hook_compress(COMPRESS_F16, &d->hook);
    else if (which == 3)
        d->hook = (struct ddp_hook){.wire = DDP_I32, .encode = encode_i32, .decode = decode_i32};
}

struct reduction reduction_draw(uint64_t seed)
{
    struct reduction d = {.seed = seed};
    d.size = 1 + (int)pick(&d, 1, 5);
    for (int r = 0; r < d.size; r++)
        d.node_of[r] = pick(&d, 2, 2) ? r * (1 + (int)pick(&d, 3, 3)) / d.size : 0;
    d.n_params = 1 + (int)pick(&d, 4, REDUCTION_PARAMS);
    d.accum = 1 + (int)pick(&d, 5, 3);
    for (int i = 0; i < d.n_params; i++)
        d.elems[i] = 1 + pick(&d, 100 + (uint64_t)i, pick(&d, 200 + (uint64_t)i, 3) ? 300 : 30000);
    d.cfg.first_cap_bytes = 1 + pick(&d, 6, 20000);
    d.cfg.cap_bytes = 1 + pick(&d, 7, 100000);
    d.has_unused = pick(&d, 8, 2);
    d.cfg.find_unused = d.has_unused && pick(&d, 9, 2);
    d.cfg.plan = pick(&d, 10, 2);
    d.cfg.n_ranks = d.size;
    draw_hook(&d, pick(&d, 11, 5));
    return d;
}

int reduction_open(struct reduction_kit *k, struct job *j, int rank, const size_t *elems, int n_params,
                   const struct reducer_config *cfg, ddp_error_t *errp)
{
    char name[16];
    *k = (struct reduction_kit){0};
    for (int i = 0; i < n_params; i++) {
        snprintf(name, sizeof name, "p%d", i);
        layout_add(&k->layout, name, DDP_F32, &elems[i], 1, 0, NULL);
    }
    k->comm = job_comm(j, rank, &k->world, errp);
    if (k->comm && reducer_open(&k->reducer, k->comm, &k->layout, cfg, errp) == 0)
        return 0;
    reduction_close(k);
    return -1;
}

void reduction_close(struct reduction_kit *k)
{
    comm_destroy(k->comm);
    reducer_close(&k->reducer);
    world_destroy(k->world);
    layout_clear(&k->layout);
}

float *reduction_grad(const struct reduction_kit *k, int id)
{
    return reducer_grads(&k->reducer) + k->layout.param[id].offset_bytes / sizeof(float);
}

struct micro {
    int rank, step, index;
};

static uint64_t number(const struct micro *m, int id)
{
    return (((uint64_t)m->rank * 64 + (uint64_t)m->step) * 64 + (uint64_t)m->index) * 64 + (uint64_t)id + 1000;
}

/* A third of the parameters in a micro-step, and all of one in every second step, on all ranks. */
static bool is_unused(const struct reduction *d, const struct micro *m, int id)
{
    return d->has_unused && (pick(d, number(m, id), 3) == 0 || (m->step % 2 == 1 && id == d->n_params / 2));
}

static float gradient(const struct reduction *d, const struct micro *m, int id, size_t i)
{
    return is_unused(d, m, id) ? 0 : (float)(mix(number(m, id), i) % 17) - 8;
}

static float expected(const struct reduction *d, int step, int id, size_t i)
{
    float sum = 0;
    for (int r = 0; r < d->size; r++)
        for (int k = 0; k < d->accum; k++)
            sum += gradient(d, &(struct micro){r, step, k}, id, i);
    return sum;
}

static int expected_used(const struct reduction *d, int step, int id)
{
    int n = 0;
    for (int r = 0; r < d->size; r++) {
        bool used = false;
        for (int k = 0; k < d->accum; k++)
            used = used || !is_unused(d, &(struct micro){r, step, k}, id);
        n += used;
    }
    return n;
}

/* Each rank marks in an order of its own: mostly from the last to the first, as backward passes go. */
static void order_of(const struct reduction *d, const struct micro *m, int *order)
{
    for (int i = 0; i < d->n_params; i++)
        order[i] = d->n_params - 1 - i;
    for (int i = d->n_params - 1; i > 0; i--) {
        unsigned h = pick(d, number(m, i) + 7, 3 * (unsigned)i + 3);
        if (h <= (unsigned)i) {
            int t = order[i];
            order[i] = order[h];
            order[h] = t;
        }
    }
}

static void run_micro(const struct reduction *d, struct reducer *r, const struct micro *m)
{
    int order[REDUCTION_PARAMS];
    order_of(d, m, order);
    reducer_micro_begin(r, m->index == d->accum - 1);
    for (int k = 0; k < d->n_params; k++) {
        int id = order[k];
        float *g = reducer_grads(r) + r->layout->param[id].offset_bytes / sizeof *g;
        if (is_unused(d, m, id)) {
            if (!d->cfg.find_unused)
                reducer_mark(r, id, MARK_UNUSED);
            continue;
        }
        for (size_t i = 0; i < d->elems[id]; i++)
            g[i] += gradient(d, m, id, i);
        reducer_mark(r, id, MARK_READY);
    }
}

static int check_sums(const struct reduction *d, const struct reducer *r, int step, int rank)
{
    double sums[REDUCTION_PARAMS * 8] = {0}; /* blocks */
    struct norm norm;
    CHECK(norm_open(&norm, r->layout, sums, NULL) == 0 && norm.n_blocks < REDUCTION_PARAMS * 8, "norm");
    for (int id = 0; id < d->n_params; id++) {
        const float *g = reducer_grads(r) + r->layout->param[id].offset_bytes / sizeof *g;
        for (size_t i = 0; i < d->elems[id]; i++)
            CHECK(g[i] == expected(d, step, id, i), "step %d, parameter %d, element %zu: %g, not %g", step, id, i,
                  (double)g[i], (double)expected(d, step, id, i));
        norm_visit(&norm, id, 0, g, d->elems[id]);
        CHECK(reducer_used(r)[id] == expected_used(d, step, id), "step %d, parameter %d: used by %g ranks", step, id,
              reducer_used(r)[id]);
    }
    CHECK(norm_total(&norm) == norm_total(&r->norm), "step %d: norm %.17g, not %.17g", step, norm_total(&r->norm),
          norm_total(&norm));
    CHECK(norm_worst(&r->norm) == -1, "a sum is not finite");
    norm_close(&norm);
    return 0;
}

static int run_steps(const struct reduction *d, struct reducer *r, int rank)
{
    ddp_error_t e = {0};
    float *at = reducer_grads(r);
    for (int step = 0; step < STEPS; step++) {
        reducer_zero(r);
        for (int k = 0; k < d->accum; k++) {
            struct micro m = {rank, step, k};
            run_micro(d, r, &m);
            reducer_tail(r)[TAIL_LOSS] = rank + step;
            reducer_tail(r)[TAIL_ITEMS] = 3;
            reducer_tail(r)[TAIL_STOP] = rank == 0 && step == 3;
            CHECK(reducer_check(r, &e) == 0, "%s", e.text);
            CHECK(reducer_micro_end(r, &e) == 0, "%s", e.text);
        }
        const double *tail = reducer_tail(r);
        CHECK(tail[TAIL_LOSS] == d->size * (d->size - 1) / 2 + d->size * step, "loss %g", tail[TAIL_LOSS]);
        CHECK(tail[TAIL_ITEMS] == 3 * d->size && tail[TAIL_STOP] == (step == 3), "tail");
        if (check_sums(d, r, step, rank))
            return 1;
    }
    CHECK(reducer_grads(r) == at, "gradients moved");
    bool planned = d->cfg.plan && d->size > 1 && !d->cfg.find_unused;
    CHECK((r->metrics.alpha_s + r->metrics.beta_s_per_byte > 0) == planned, "planned: %d", planned);
    CHECK(r->metrics.steps == STEPS, "%d passes counted", (int)r->metrics.steps);
    return 0;
}

int reduction_rank(struct job *j, int rank)
{
    const struct reduction *d = j->arg;
    struct reduction_kit k;
    ddp_error_t e = {0};
    struct reducer_config cfg = d->cfg;
    cfg.hook = d->hook.encode ? &d->hook : NULL;
    CHECK(reduction_open(&k, j, rank, d->elems, d->n_params, &cfg, &e) == 0, "%s", e.text);
    int rc = run_steps(d, &k.reducer, rank);
    reduction_close(&k);
    return rc;
}
