/* The reducer over several ranks: what arrives is compared exactly with sums made serially, of small integers. */
#include "t/unit/unit.h"

#include <math.h>
#include <sys/mman.h>

#include "runtime/hook.h"
#include "runtime/reducer.h"
#include "t/lib/ranks.h"

enum { PARAMS_MAX = 12, STEPS = 6 };

/* A job, drawn from a seed: every rank draws the same. */
struct draw {
    uint64_t seed;
    int size, node_of[RANKS_MAX];
    int n_params, accum;
    size_t elems[PARAMS_MAX];
    struct reducer_config cfg;
    bool has_unused;
    struct ddp_hook hook;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ b) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

static unsigned pick(const struct draw *d, uint64_t what, unsigned n)
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
static void draw_hook(struct draw *d, unsigned which)
{
    if (which == 1)
        hook_compress(COMPRESS_BF16, &d->hook);
    else if (which == 2 && (d->size & (d->size - 1)) == 0)
        hook_compress(COMPRESS_F16, &d->hook);
    else if (which == 3)
        d->hook = (struct ddp_hook){.wire = DDP_I32, .encode = encode_i32, .decode = decode_i32};
}

static struct draw draw_job(uint64_t seed)
{
    struct draw d = {.seed = seed};
    d.size = 1 + (int)pick(&d, 1, 5);
    for (int r = 0; r < d.size; r++)
        d.node_of[r] = pick(&d, 2, 2) ? r * (1 + (int)pick(&d, 3, 3)) / d.size : 0;
    d.n_params = 1 + (int)pick(&d, 4, PARAMS_MAX);
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

static struct layout layout_of(const struct draw *d)
{
    struct layout l = {0};
    char name[16];
    for (int i = 0; i < d->n_params; i++) {
        snprintf(name, sizeof name, "p%d", i);
        layout_add(&l, name, DDP_F32, &d->elems[i], 1, 0, NULL);
    }
    return l;
}

struct micro {
    int rank, step, index;
};

static uint64_t number(const struct micro *m, int id)
{
    return (((uint64_t)m->rank * 64 + (uint64_t)m->step) * 64 + (uint64_t)m->index) * 64 + (uint64_t)id + 1000;
}

/* A third of the parameters in a micro-step, and all of one in every second step, on all ranks. */
static bool is_unused(const struct draw *d, const struct micro *m, int id)
{
    return d->has_unused && (pick(d, number(m, id), 3) == 0 || (m->step % 2 == 1 && id == d->n_params / 2));
}

static float gradient(const struct draw *d, const struct micro *m, int id, size_t i)
{
    return is_unused(d, m, id) ? 0 : (float)(mix(number(m, id), i) % 17) - 8;
}

static float expected(const struct draw *d, int step, int id, size_t i)
{
    float sum = 0;
    for (int r = 0; r < d->size; r++)
        for (int k = 0; k < d->accum; k++)
            sum += gradient(d, &(struct micro){r, step, k}, id, i);
    return sum;
}

static int expected_used(const struct draw *d, int step, int id)
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
static void order_of(const struct draw *d, const struct micro *m, int *order)
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

static void run_micro(const struct draw *d, struct reducer *r, const struct micro *m)
{
    int order[PARAMS_MAX];
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

static int check_sums(const struct draw *d, const struct reducer *r, int step, int rank)
{
    double sums[PARAMS_MAX * 8] = {0}; /* blocks */
    struct norm norm;
    CHECK(norm_open(&norm, r->layout, sums, NULL) == 0 && norm.n_blocks < PARAMS_MAX * 8, "norm");
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

static int run_steps(const struct draw *d, struct reducer *r, int rank)
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

static int drawn_rank(struct job *j, int rank)
{
    const struct draw *d = j->arg;
    ddp_error_t e = {0};
    struct world *w;
    struct reducer r;
    struct layout l = layout_of(d);
    comm_t *c = job_comm(j, rank, &w, &e);
    struct reducer_config cfg = d->cfg;
    cfg.hook = d->hook.encode ? &d->hook : NULL;
    CHECK(c && reducer_open(&r, c, &l, &cfg, &e) == 0, "%s", e.text);
    int rc = run_steps(d, &r, rank);
    reducer_close(&r);
    comm_destroy(c);
    world_destroy(w);
    layout_clear(&l);
    return rc;
}

static void sums_equal_a_serial_reference(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct draw d = draw_job(seed);
        struct job j = {.size = d.size, .node_of = d.node_of, .arg = &d};
        if (!job_run(&j, drawn_rank))
            fail_msg("seed %d: %d ranks, %d parameters", (int)seed, d.size, d.n_params);
    }
}

/* Any floats, two plans: the sums and the norm have the same bits. */
static int two_plans_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    struct world *w;
    struct draw d = {.size = j->size, .n_params = 7, .elems = {5000, 1, 40000, 4096, 4097, 64, 12000}};
    static const struct reducer_config cfg[2] = {{.first_cap_bytes = 1, .cap_bytes = 1},
                                                 {.first_cap_bytes = 1 << 30, .cap_bytes = 1 << 30}};
    struct layout l = layout_of(&d);
    struct reducer r[2];
    comm_t *c = job_comm(j, rank, &w, &e);
    for (int k = 0; k < 2; k++) {
        CHECK(c && reducer_open(&r[k], c, &l, &cfg[k], &e) == 0, "%s", e.text);
        reducer_micro_begin(&r[k], true);
        for (size_t i = 0; i < l.n_bytes / sizeof(float); i++)
            reducer_grads(&r[k])[i] = sinf((float)(i * 31 + (size_t)rank)) * powf(2, (float)(i % 40));
        for (int id = 0; id < d.n_params; id++)
            reducer_mark(&r[k], (id + rank) % d.n_params, MARK_READY);
        CHECK(reducer_micro_end(&r[k], &e) == 0, "%s", e.text);
    }
    for (int id = 0; id < d.n_params; id++)
        CHECK(!memcmp((char *)reducer_grads(&r[0]) + l.param[id].offset_bytes,
                      (char *)reducer_grads(&r[1]) + l.param[id].offset_bytes, d.elems[id] * sizeof(float)),
              "parameter %d differs", id);
    CHECK(r[0].plan.n_buckets == 7 && r[1].plan.n_buckets == 1, "plans");
    CHECK(norm_total(&r[0].norm) == norm_total(&r[1].norm) && isfinite(norm_total(&r[0].norm)), "norms differ");
    for (int k = 0; k < 2; k++)
        reducer_close(&r[k]);
    comm_destroy(c);
    world_destroy(w);
    layout_clear(&l);
    return 0;
}

static void bits_do_not_depend_on_the_plan(void **state)
{
    (void)state;
    struct job j = {.size = 4, .node_of = (int[]){0, 0, 1, 1}};
    assert_true(job_run(&j, two_plans_rank));
    j = (struct job){.size = 3, .node_of = (int[]){0, 0, 0}};
    assert_true(job_run(&j, two_plans_rank));
}

/* NaN and infinity arrive, the first such parameter is found. */
static int not_finite_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    struct world *w;
    struct draw d = {.size = j->size, .n_params = 3, .elems = {10, 9000, 20}, .cfg = {.first_cap_bytes = 1, .cap_bytes = 1}};
    struct layout l = layout_of(&d);
    struct reducer r;
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c && reducer_open(&r, c, &l, &d.cfg, &e) == 0, "%s", e.text);
    reducer_micro_begin(&r, true);
    float *g = reducer_grads(&r) + l.param[1].offset_bytes / sizeof *g;
    g[7] = rank == 1 ? INFINITY : 1;
    g[8999] = rank == 0 ? NAN : 1;
    reducer_grads(&r)[l.param[2].offset_bytes / sizeof *g] = rank == 0 ? INFINITY : 0;
    for (int id = 0; id < d.n_params; id++)
        reducer_mark(&r, id, MARK_READY);
    CHECK(reducer_micro_end(&r, &e) == 0, "%s", e.text);
    CHECK(g[7] == INFINITY && isnan(g[8999]) && g[8] == 0, "%g %g", (double)g[7], (double)g[8999]);
    CHECK(norm_worst(&r.norm) == 1 && !isfinite(norm_total(&r.norm)), "found %d", norm_worst(&r.norm));
    reducer_close(&r);
    comm_destroy(c);
    world_destroy(w);
    layout_clear(&l);
    return 0;
}

static void what_is_not_finite_arrives_and_is_named(void **state)
{
    (void)state;
    struct job j = {.size = 3, .node_of = (int[]){0, 0, 1}};
    assert_true(job_run(&j, not_finite_rank));
}

/* Rank 1 starts its buckets in another order: found out, not summed. */
static int planted_rank(struct job *j, int rank)
{
    ddp_error_t e = {0};
    struct world *w;
    struct draw d = {.size = j->size, .n_params = 4, .elems = {50, 50, 50, 50}, .cfg = {.first_cap_bytes = 1, .cap_bytes = 1}};
    struct layout l = layout_of(&d);
    struct reducer r;
    comm_t *c = job_comm(j, rank, &w, &e); /* the news reach a rank that is late already here, */
    int rc = c ? reducer_open(&r, c, &l, &d.cfg, &e) : -1; /* or here */
    if (rc == 0) {
        if (rank == 1) {
            struct comm_range second = r.range[1];
            r.range[1] = r.range[2];
            r.range[2] = second;
        }
        reducer_micro_begin(&r, true);
        for (int id = 0; id < d.n_params; id++)
            reducer_mark(&r, id, MARK_READY);
        rc = reducer_micro_end(&r, &e);
        reducer_close(&r);
    }
    CHECK(rc == -1 && strstr(e.text, "same calls in the same order"), "\"%s\"", e.text);
    comm_destroy(c);
    world_destroy(w);
    layout_clear(&l);
    return 0;
}

static void another_order_of_buckets_is_found_out(void **state)
{
    (void)state;
    struct job j = {.size = 3, .node_of = (int[]){0, 0, 0}, .timeout_s = 10};
    assert_true(job_run(&j, planted_rank));
    j.node_of = (int[]){0, 1, 1};
    assert_true(job_run(&j, planted_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_equal_a_serial_reference),
    cmocka_unit_test(bits_do_not_depend_on_the_plan),
    cmocka_unit_test(what_is_not_finite_arrives_and_is_named),
    cmocka_unit_test(another_order_of_buckets_is_found_out),
};
UNIT_MAIN(tests)
