/* Where time goes, and what follows from all ranks' numbers. */
#include "t/unit/unit.h"

#include <math.h>

#include "runtime/base/clock.h"
#include "runtime/pace.h"

static void wait_ms(int ms)
{
    uint64_t end = clock_ns() + (uint64_t)ms * NS_PER_MS;
    while (clock_ns() < end)
        ;
}

static void every_moment_is_in_one_part(void **state)
{
    (void)state;
    struct parts p = {0};
    double s[DDP_PARTS];
    assert_int_equal(parts_go(&p, DDP_PART_DATA), DDP_PART_DATA); /* nothing: it has not begun */
    assert_true(parts_get(&p, s) == 0);
    uint64_t began = clock_ns();
    parts_begin(&p);
    wait_ms(2);
    parts_micro_begin(&p);
    wait_ms(3);
    parts_rename(&p, DDP_PART_DATA);
    parts_go(&p, DDP_PART_FORWARD);
    wait_ms(4);
    enum ddp_part before = parts_go(&p, DDP_PART_CHECKPOINT);
    assert_int_equal(before, DDP_PART_FORWARD);
    wait_ms(5);
    parts_go(&p, before);
    parts_micro_end(&p, true);
    double sum = parts_get(&p, s), took = (double)(clock_ns() - began) / 1e9;
    assert_true(sum <= took && sum > took - 1e-3);
    assert_true(s[DDP_PART_OTHER] >= .002 && s[DDP_PART_DATA] >= .003 && s[DDP_PART_FORWARD] >= .004);
    assert_true(s[DDP_PART_CHECKPOINT] >= .005 && s[DDP_PART_BACKWARD] == 0);
    assert_true(fabs(p.quiet_sum_s - s[DDP_PART_DATA] - s[DDP_PART_FORWARD]) < 1e-9);
    parts_begin(&p); /* it has begun */
    assert_true(parts_get(&p, s) >= sum);
    parts_restart(&p);
    assert_true(parts_get(&p, s) < sum && p.n_quiet == 0);
}

/* ---- a device's clock, made up: it comes to its marks when the test says so ---- */

struct device {
    uint64_t now_ns, reached_ns, at_ns[PARTS_MARKS]; /* now: when all that was enqueued so far is done */
    unsigned n_marked;
    bool is_broken;
};

static int device_mark(void *ctx, unsigned slot)
{
    struct device *d = ctx;
    d->at_ns[slot] = d->now_ns;
    d->n_marked++;
    return d->is_broken ? -1 : 0;
}

static int device_is_reached(void *ctx, unsigned slot)
{
    const struct device *d = ctx;
    return d->is_broken ? -1 : d->at_ns[slot] <= d->reached_ns;
}

static int device_between(void *ctx, unsigned from, unsigned to, uint64_t *ret_ns)
{
    const struct device *d = ctx;
    *ret_ns = d->at_ns[to] - d->at_ns[from];
    return 0;
}

/* Work of so many milliseconds is enqueued. */
static void enqueue(struct device *d, int ms)
{
    d->now_ns += (uint64_t)ms * NS_PER_MS;
}

static void reach_all(struct device *d)
{
    d->reached_ns = d->now_ns;
}

static void on_a_device_parts_have_its_time(void **state)
{
    (void)state;
    struct device d = {0};
    const struct parts_clock clock = {&d, device_mark, device_is_reached, device_between};
    struct parts p = {0};
    double s[DDP_PARTS];
    parts_on(&p, &clock);
    parts_begin(&p);
    for (int step = 0; step < 300; step++) { /* slots are used again */
        parts_micro_begin(&p);
        enqueue(&d, 1);
        parts_rename(&p, DDP_PART_DATA);
        parts_go(&p, DDP_PART_FORWARD);
        enqueue(&d, 10);
        assert_int_equal(p.part, DDP_PART_FORWARD);
        parts_go(&p, DDP_PART_BACKWARD);
        enqueue(&d, 20);
        parts_micro_end(&p, step % 2);
        parts_go(&p, DDP_PART_EXPOSED);
        double before = parts_computed_s(&p);
        assert_true(fabs(before - .031 * step) < 1e-6); /* the host is ahead */
        enqueue(&d, 5);
        reach_all(&d); /* where the host waits */
        parts_go(&p, DDP_PART_OTHER);
        assert_true(fabs(parts_computed_s(&p) - .031 * (step + 1)) < 1e-6);
        enqueue(&d, 2);
    }
    reach_all(&d);
    double sum = parts_get(&p, s);
    assert_true(fabs(s[DDP_PART_DATA] - .3) < 1e-6 && fabs(s[DDP_PART_FORWARD] - 3) < 1e-6);
    assert_true(fabs(s[DDP_PART_BACKWARD] - 6) < 1e-6);
    parts_go(&p, DDP_PART_CHECKPOINT);
    sum = parts_get(&p, s);
    assert_true(fabs(s[DDP_PART_EXPOSED] - 1.5) < 1e-6 && fabs(sum - .038 * 300) < .003);
    assert_int_equal(p.n_micros, 300);
    assert_int_equal(p.n_quiet, 150);
    assert_true(fabs(p.quiet_sum_s - 150 * .031) < 1e-6);
}

static void a_host_far_ahead_loses_marks_and_no_time(void **state)
{
    (void)state;
    struct device d = {0};
    const struct parts_clock clock = {&d, device_mark, device_is_reached, device_between};
    struct parts p = {0};
    double s[DDP_PARTS];
    parts_on(&p, &clock);
    parts_begin(&p);
    for (int i = 0; i < 1000; i++) {
        parts_go(&p, i % 2 ? DDP_PART_FORWARD : DDP_PART_BACKWARD);
        enqueue(&d, 1);
        parts_rename(&p, i % 2 ? DDP_PART_FORWARD : DDP_PART_BACKWARD);
    }
    assert_int_equal(d.n_marked, PARTS_MARKS + 1); /* the first two were reached at once */
    reach_all(&d);
    parts_go(&p, DDP_PART_OTHER);
    reach_all(&d);
    parts_go(&p, DDP_PART_OTHER);
    assert_true(fabs(parts_get(&p, s) - 1) < 1e-6);
    assert_true(fabs(s[DDP_PART_BACKWARD] - .128) < 1e-6); /* behind the last mark that found room all is FORWARD */
}

/* Steps of so many micro-steps that the marks do not do: none is lost, nor any time. */
static void many_micro_steps_are_all_counted(void **state)
{
    (void)state;
    struct device d = {0};
    const struct parts_clock clock = {&d, device_mark, device_is_reached, device_between};
    struct parts p = {0};
    double s[DDP_PARTS];
    parts_on(&p, &clock);
    parts_begin(&p);
    for (int micro = 1; micro <= 400; micro++) {
        parts_micro_begin(&p);
        parts_rename(&p, DDP_PART_DATA);
        enqueue(&d, 1);
        parts_go(&p, DDP_PART_FORWARD);
        enqueue(&d, 2);
        parts_go(&p, DDP_PART_BACKWARD);
        enqueue(&d, 3);
        parts_micro_end(&p, micro % 100 != 0);
        if (micro % 100 == 0)
            parts_go(&p, DDP_PART_CHECKPOINT);
        parts_go(&p, DDP_PART_EXPOSED);
        if (micro % 100 == 0) {
            enqueue(&d, 10);
            reach_all(&d); /* the host waits once a step */
        }
        parts_go(&p, DDP_PART_OTHER);
    }
    reach_all(&d);
    parts_go(&p, DDP_PART_OTHER);
    assert_true(fabs(parts_get(&p, s) - 2.44) < 1e-6);
    assert_true(fabs(parts_computed_s(&p) - 2.4) < 1e-6 && fabs(s[DDP_PART_EXPOSED] - .04) < 1e-6);
    assert_int_equal(p.n_micros, 400);
    assert_true(p.n_quiet > 100 && fabs(p.quiet_sum_s / (double)p.n_quiet - .006) < 1e-6);
}

static void without_the_device_the_hosts_time_counts(void **state)
{
    (void)state;
    struct device d = {0};
    const struct parts_clock clock = {&d, device_mark, device_is_reached, device_between};
    struct parts p = {0};
    double s[DDP_PARTS];
    parts_on(&p, &clock);
    parts_begin(&p);
    parts_go(&p, DDP_PART_FORWARD);
    enqueue(&d, 1);
    d.is_broken = true;
    parts_go(&p, DDP_PART_EXPOSED);
    assert_null(p.clock);
    wait_ms(2);
    parts_get(&p, s);
    assert_true(s[DDP_PART_EXPOSED] >= .002 && s[DDP_PART_FORWARD] == 0);
    parts_micro_begin(&p);
    wait_ms(2);
    parts_rename(&p, DDP_PART_DATA); /* as on a host that never had one */
    parts_go(&p, DDP_PART_FORWARD);
    parts_get(&p, s);
    assert_true(s[DDP_PART_DATA] >= .002 && s[DDP_PART_FORWARD] < .001);
}

static void micro(struct parts *p, double took_s, bool is_quiet)
{
    p->since_ns = clock_ns();
    parts_micro_begin(p);
    p->ns[DDP_PART_FORWARD] += (uint64_t)(took_s * 1e9);
    parts_micro_end(p, is_quiet);
}

static void with_accumulation_the_baseline_is_the_quiet_micro_steps_mean(void **state)
{
    (void)state;
    struct parts p = {0};
    struct pace pace = {0};
    for (int step = 0; step < 4; step++) {
        pace.n_steps++;
        micro(&p, .1, true);
        micro(&p, .3, true);
        micro(&p, .8, false);
    }
    struct pace_own own = pace_own(&pace, &p, 0, NAN);
    assert_true(fabs(own.baseline_s - 3 * .2) < 1e-3);
    assert_true(own.memory_bytes > 1 << 20);
}

/* A machine that is twice as slow from the 20th step on, and now and then slow for a moment. */
static void else_it_is_what_a_quiet_pass_takes_of_its_neighbours(void **state)
{
    (void)state;
    struct parts p = {0};
    struct pace pace = {0};
    micro(&p, 5, true); /* it warms up */
    assert_true(isnan(parts_ratio(&p)));
    for (int step = 0; step < 40; step++) {
        bool is_quiet = step == 6 || step == 15 || step == 38;
        double slow = (step < 20 ? 1 : 2) * (step % 10 == 5 ? 3 : 1);
        micro(&p, (is_quiet ? .08 : .1) * slow, is_quiet);
    }
    assert_true(fabs(parts_ratio(&p) - .8) < 1e-3);
    pace.at = p;
    parts_get(&p, pace.at_s);
    for (int step = 0; step < 10; step++, pace.n_steps++)
        micro(&p, .4, false);
    struct pace_own own = pace_own(&pace, &p, 0, NAN);
    assert_true(fabs(own.baseline_s - .32) < 1e-3);
}

static struct pace_own *two(const struct pace_own a, const struct pace_own b)
{
    struct pace_own *all = malloc(2 * sizeof *all);
    all[0] = a;
    all[1] = b;
    return all;
}

static void efficiency_is_baseline_and_optimizer_over_the_step(void **state)
{
    (void)state;
    struct world *w = world_from_keys(0, 2, (const char *const[]){"0", "0"}, (const char *const[]){"n0", "n1"});
    struct team t = {.map = w, .me = {.rank = 0, .size = 2}};
    struct pace p = {.n_intervals = 1, .n_steps = 10};
    struct pace_own a = {.baseline_s = .08, .hidden_s = .2, .memory_bytes = 5, .took_s = .1,
                         .part_s = {0, .3, .6, .2, .1, .5, .3}};
    struct pace_own b = a;
    b.part_s[DDP_PART_EXPOSED] = .4;
    b.part_s[DDP_PART_OTHER] = .1;
    pace_take(&p, &t, two(a, b), true);
    assert_true(fabs(p.last.wall_s - 2) < 1e-9 && fabs(p.last.part_s[DDP_PART_EXPOSED] - .3) < 1e-9);
    assert_true(fabs(p.last.baseline_s - .08) < 1e-9 && fabs(p.last.hidden_s - .2) < 1e-9);
    assert_true(fabs(p.last.efficiency - .9 / 1.3) < 1e-9 && fabs(pace_efficiency(&p) - .9 / 1.3) < 1e-9);
    assert_false(p.last.is_slow); /* fewer than PACE_STEPS steps */
    p.n = PACE_STEPS;
    b.took_s = .2;
    b.baseline_s = NAN; /* one rank does not know: the others do */
    pace_take(&p, &t, two(a, b), true);
    assert_true(p.last.is_slow && p.slow_rank == 1 && fabs(p.slow_factor - 2) < 1e-9);
    assert_string_equal(p.slow, "rank 1 (n1) computes 2.00 times as long as the median rank");
    assert_true(p.n == 0 && p.n_steps == 0);
    a.baseline_s = NAN;
    p.n = PACE_STEPS;
    pace_take(&p, &t, two(a, b), false);
    assert_true(!p.last.is_slow && isnan(p.last.baseline_s) && isnan(p.last.efficiency));
    assert_true(isfinite(pace_efficiency(&p))); /* what was known stays */
    pace_close(&p);
    world_destroy(w);
}

#define NODES 4
#define RANKS (2 * NODES)

/* Nodes of two ranks that send as fast as told, and wait for sums for a share of their time. */
static struct pace judge_links(const struct team *t, const double gbs[RANKS], double waits, int slow_rank)
{
    struct pace p = {.n_intervals = 1, .n_steps = PACE_STEPS, .n = PACE_STEPS};
    struct pace_own *all = calloc((size_t)t->me.size, sizeof *all);
    for (int r = 0; r < t->me.size; r++) {
        all[r].took_s = r == slow_rank ? .2 : .1;
        all[r].part_s[DDP_PART_BACKWARD] = 1 - waits;
        all[r].part_s[DDP_PART_EXPOSED] = waits;
        all[r].send_bps = 1e9 * gbs[r];
    }
    pace_take(&p, t, all, true);
    pace_close(&p);
    return p;
}

static void a_node_that_sends_slowly_is_named(void **state)
{
    (void)state;
    static const char *const key[RANKS] = {"0", "0", "1", "1", "2", "2", "3", "3"};
    static const char *const host[RANKS] = {"n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"};
    static const double slow[RANKS] = {5, .1, NAN, 6, .1, .2, 4, 5}; /* a node's faster rank counts */
    static const double well[RANKS] = {5, .1, NAN, 6, 2, .2, 4, 5};
    static const double unknown[RANKS] = {5, .1, NAN, 6, .1, .2, NAN, NAN};
    struct world *w = world_from_keys(0, RANKS, key, host), *two_nodes = world_from_keys(0, 4, key, host);
    struct team t = {.map = w, .me = {.size = RANKS}}, of_two = {.map = two_nodes, .me = {.size = 4}};
    struct pace p = judge_links(&t, slow, .2, -1);
    assert_true(p.last.is_slow && p.last.is_link && p.slow_rank == 4 && fabs(p.slow_factor - 25) < 1e-9);
    assert_string_equal(p.slow, "n3 sends 200 MB/s to other nodes, the median node 5e+03: a slow link");
    assert_true(judge_links(&t, slow, .2, 1).last.is_link); /* who waits for it may seem to compute longer */
    assert_false(judge_links(&t, slow, .05, -1).last.is_slow);
    assert_false(judge_links(&t, well, .2, -1).last.is_slow);
    assert_false(judge_links(&t, unknown, .2, -1).last.is_slow);
    assert_false(judge_links(&of_two, (const double[RANKS]){.1, .1, 6, 6}, .2, -1).last.is_slow);
    p = judge_links(&t, well, .2, 1);
    assert_true(p.last.is_slow && !p.last.is_link && p.slow_rank == 1);
    world_destroy(w);
    world_destroy(two_nodes);
}

static void barriers_have_quantiles(void **state)
{
    (void)state;
    struct pace p = {0};
    assert_true(pace_barriers(&p).median == 0);
    for (int i = 0; i < 100; i++)
        p.barrier_s[p.n_barriers++] = (i * 37 % 100 + 1) / 1e3; /* 1 to 100 ms, in some order */
    struct stats barriers = pace_barriers(&p);
    assert_true(fabs(barriers.median - .0505) < 1e-9 && fabs(barriers.p99 - .09901) < 1e-9);
    assert_true(barriers.min == .001 && barriers.max == .1);
    p.barrier_now_s = .001;
    struct pace_own *own = malloc(sizeof *own);
    struct team t = {.me = {.size = 1}};
    *own = pace_own(&p, &(struct parts){0}, 0, NAN);
    own->part_s[DDP_PART_DATA] = .75;
    pace_take(&p, &t, own, false); /* so dear, and due in a second */
    assert_true(p.last.barrier_s == .001 && p.barrier_mean_s == .001 && p.barrier_due_s == .75);
    pace_close(&p);
    for (int i = 0; i < PACE_BARRIERS; i++) /* the last ones count */
        p.barrier_s[p.n_barriers++ % PACE_BARRIERS] = 1;
    assert_true(pace_barriers(&p).min == 1);
}

static void ranks_gather_at_first_every_so_often_and_at_last(void **state)
{
    (void)state;
    struct pace p = {0};
    struct team t = {.me = {.size = 1}};
    for (int step = 1; step <= 130; step++) { /* from 120 on each may be the last */
        pace_note(&p, .1);
        bool is_due = pace_is_due(&p, step == 60, step >= 120);
        assert_int_equal(is_due, step == 1 || step == 50 || step == 100 || step == 110 || step == 120);
        if (is_due)
            pace_take(&p, &t, calloc(1, sizeof *p.all), false);
    }
    pace_close(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_moment_is_in_one_part),
    cmocka_unit_test(on_a_device_parts_have_its_time),
    cmocka_unit_test(a_host_far_ahead_loses_marks_and_no_time),
    cmocka_unit_test(many_micro_steps_are_all_counted),
    cmocka_unit_test(without_the_device_the_hosts_time_counts),
    cmocka_unit_test(with_accumulation_the_baseline_is_the_quiet_micro_steps_mean),
    cmocka_unit_test(else_it_is_what_a_quiet_pass_takes_of_its_neighbours),
    cmocka_unit_test(efficiency_is_baseline_and_optimizer_over_the_step),
    cmocka_unit_test(a_node_that_sends_slowly_is_named),
    cmocka_unit_test(barriers_have_quantiles),
    cmocka_unit_test(ranks_gather_at_first_every_so_often_and_at_last),
};
UNIT_MAIN(tests)
