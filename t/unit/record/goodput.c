/* Each second of a run in its class: by hand, and against a job that is lived second by second. */
#include <math.h>

#include "runtime/record/goodput.h"
#include "t/unit/unit.h"

/* ---- lines ---- */

struct writing {
    FILE *f;
    char *text;
    size_t size;
};

static void begin(struct writing *w)
{
    w->f = open_memstream(&w->text, &w->size);
    assert_non_null(w->f);
}

static void start_on(struct writing *w, const char *device, double t, int restart, int requeue, double alloc_t,
                     double began_t)
{
    fprintf(w->f, "{\"event\":\"start\",\"v\":1,\"t\":%.3f,\"job\":\"7\",\"ranks\":1,\"device\":\"%s\",\"restart\":%d,"
            "\"requeue\":%d,\"alloc_t\":%.3f,\"began_t\":%.3f}\n", t, device, restart, requeue, alloc_t, began_t);
}

static void start(struct writing *w, double t, int restart, int requeue, double alloc_t, double began_t)
{
    start_on(w, "cpu", t, restart, requeue, alloc_t, began_t);
}

static void interval(struct writing *w, double t, int step, int n, double wall, double data, double saving)
{
    fprintf(w->f, "{\"event\":\"interval\",\"t\":%.3f,\"step\":%d,\"steps\":%d,\"wall_s\":%.6f,"
            "\"parts\":{\"data\":%.6f,\"checkpoint\":%.6f}}\n", t, step, n, wall, data, saving);
}

#define line(w, name, t, ...) (fprintf((w)->f, "{\"event\":\"" name "\",\"t\":%.3f", (double)(t)), \
                               fprintf((w)->f, __VA_ARGS__), fputs("}\n", (w)->f))
#define at_step ",\"step\":%d"

/* ---- what is made of them ---- */

struct pieces {
    double class_s[GOODPUT_CLASSES], now;
};

static void add(void *arg, enum goodput_class c, double from_t, double to_t)
{
    struct pieces *p = arg;
    if (from_t != p->now || !(to_t > from_t))
        fail_msg("a piece from %.17g to %.17g, after %.17g", from_t, to_t, p->now);
    p->class_s[c] += to_t - from_t;
    p->now = to_t;
}

static struct goodput judge(struct writing *w, double from_t)
{
    struct record r;
    ddp_error_t e;
    struct pieces p = {.now = from_t};
    double sum = 0;
    fclose(w->f);
    FILE *f = fmemopen(w->text, w->size, "r");
    if (record_read_stream(f, "x", &r, &e) < 0)
        fail_msg("%s", e.text);
    fclose(f);
    struct goodput g = goodput_of(&r, add, &p);
    for (int c = 0; c < GOODPUT_CLASSES; c++) {
        assert_true(g.class_s[c] >= 0 && g.class_s[c] == p.class_s[c]);
        sum += g.class_s[c];
    }
    assert_true(g.from_t == from_t && g.to_t == p.now);
    assert_true(fabs(sum - (g.to_t - g.from_t)) < 1e-6);
    record_clear(&r);
    return g;
}

static void expect(struct writing *w, double from_t, const double want[GOODPUT_CLASSES])
{
    struct goodput g = judge(w, from_t);
    for (int c = 0; c < GOODPUT_CLASSES; c++)
        if (fabs(g.class_s[c] - want[c]) > 1e-6)
            fail_msg("%s is %g s, not %g, in\n%s", goodput_name[c], g.class_s[c], want[c], w->text);
    free(w->text);
}
#define CLASSES(...) ((const double[GOODPUT_CLASSES]){__VA_ARGS__})

static void allocations(void **state)
{
    static char step0[] = "7.0", step1[] = "7.1", job[] = "7", other[] = "70.0", another[] = "17.0";
    const struct record_start a = {.job = step0, .alloc_t = 100};
    struct record_start b = a;
    (void)state;
    assert_false(goodput_is_new_allocation(&a, &b));
    b.job = step1; /* a second srun */
    assert_false(goodput_is_new_allocation(&a, &b));
    b.job = job;
    assert_false(goodput_is_new_allocation(&a, &b));
    b.job = other;
    assert_true(goodput_is_new_allocation(&a, &b));
    b.job = another;
    assert_true(goodput_is_new_allocation(&a, &b));
    b = (struct record_start){.job = step0, .alloc_t = 200};
    assert_true(goodput_is_new_allocation(&a, &b));
    b = (struct record_start){.job = step0, .alloc_t = 100, .requeue = 1};
    assert_true(goodput_is_new_allocation(&a, &b));
}

/* ---- by hand ---- */

static void an_undisturbed_run(void **state)
{
    (void)state;
    struct writing w;
    begin(&w);
    start(&w, 110, 0, 0, 100, 108);
    line(&w, "train", 112, at_step, 0);
    interval(&w, 115, 1, 1, 2, 0.5, 0);        /* start-up to 113 */
    interval(&w, 125, 11, 10, 10, 1, 2);
    line(&w, "validation", 130, at_step, 11);
    interval(&w, 140, 21, 10, 10, 0, 0);       /* 125 to 130: validation */
    interval(&w, 153, 31, 10, 10, 0, 0);       /* 140 to 143: nothing */
    line(&w, "checkpoint", 158, at_step ",\"stood_still_s\":4", 31); /* 2 s of which are the interval's */
    line(&w, "end", 159, at_step ",\"how\":\"done\"", 31);
    expect(&w, 100, CLASSES([GOODPUT_STARTUP] = 13, [GOODPUT_DATA] = 1.5, [GOODPUT_CHECKPOINT] = 4, [GOODPUT_IDLE] = 7,
                            [GOODPUT_USEFUL] = 1.5 + 7 + 5 + 20));
}

/* The last interval's steps take a second each: of the 6 s behind it, two steps were saved. */
static void a_failure_and_a_requeue(void **state)
{
    (void)state;
    struct writing w;
    begin(&w);
    start(&w, 10, 0, 0, 0, 9);
    interval(&w, 30, 20, 20, 20, 2, 0);        /* 9 s of 10 to 20 are lost, and their data with them */
    line(&w, "checkpoint", 33, at_step, 22);
    line(&w, "failure", 36, ",\"text\":\"x\"");
    start(&w, 45, 1, 0, 0, 40);                /* restart: 4 s */
    line(&w, "resume", 47, at_step, 22);
    interval(&w, 60, 32, 10, 10, 0, 0);        /* start-up: 40 to 50 */
    line(&w, "stop", 61, at_step, 32);
    line(&w, "end", 62, at_step ",\"how\":\"stopped\"", 32);
    line(&w, "requeue", 63, ",\"note\":\"x\"");
    start(&w, 170, 0, 1, 160, 165);            /* 63 to 160 in the queue */
    line(&w, "resume", 171, at_step, 10);      /* from an older one: lost are 12 to 32 of both */
    interval(&w, 190, 20, 10, 10, 0, 0);       /* start-up: 160 to 180 */
    expect(&w, 0, CLASSES([GOODPUT_STARTUP] = 10 + 10 + 20, [GOODPUT_DATA] = 1, [GOODPUT_USEFUL] = 9 + 10,
                          [GOODPUT_LOST] = 10 + 6 + 10, [GOODPUT_RESTART] = 4, [GOODPUT_IDLE] = 3,
                          [GOODPUT_QUEUE] = 97));
    begin(&w);
    start(&w, 10, 0, 0, 0, 9);
    interval(&w, 30, 20, 20, 20, 0, 0);
    line(&w, "checkpoint", 33, at_step, 22);
    line(&w, "failure", 36, ",\"text\":\"x\"");
    start(&w, 45, 1, 0, 0, 40);
    line(&w, "resume", 47, at_step, 22);
    interval(&w, 60, 32, 10, 10, 0, 0);
    expect(&w, 0, CLASSES([GOODPUT_STARTUP] = 10 + 10, [GOODPUT_USEFUL] = 20 + 2 + 10, [GOODPUT_LOST] = 4,
                          [GOODPUT_RESTART] = 4));
}

static void ends_that_are_none(void **state)
{
    (void)state;
    struct writing w;
    begin(&w); /* killed without a word; nothing was saved, and all begins anew */
    start(&w, 10, 0, 0, 0, 9);
    interval(&w, 30, 20, 20, 20, 0, 0);
    start(&w, 45, 1, 0, 0, 40);
    line(&w, "train", 46, at_step, 0);
    line(&w, "slow", 49, at_step, 0); /* still running */
    expect(&w, 0, CLASSES([GOODPUT_STARTUP] = 10 + 6, [GOODPUT_LOST] = 20, [GOODPUT_RESTART] = 10,
                          [GOODPUT_USEFUL] = 3));
    begin(&w); /* fails for good */
    start(&w, 10, 0, 0, 0, 9);
    interval(&w, 30, 20, 20, 20, 0, 0);
    line(&w, "checkpoint", 30, at_step, 5);
    line(&w, "failure", 32, ",\"text\":\"x\"");
    line(&w, "end", 35, ",\"how\":\"failed\"");
    expect(&w, 0, CLASSES([GOODPUT_STARTUP] = 10, [GOODPUT_USEFUL] = 5, [GOODPUT_LOST] = 17, [GOODPUT_RESTART] = 3));
    begin(&w); /* fails before it trains */
    start(&w, 10, 0, 0, 0, 9);
    line(&w, "failure", 12, ",\"text\":\"x\"");
    expect(&w, 0, CLASSES([GOODPUT_STARTUP] = 12));
}

/* As guards could write it of a program that knows nothing of libddp. */
static void a_program_without_steps(void **state)
{
    (void)state;
    struct writing w;
    begin(&w);
    start_on(&w, "", 10, 0, 0, 0, 9);
    line(&w, "failure", 30, ",\"text\":\"x\"");
    start_on(&w, "", 40, 1, 0, 0, 38);
    line(&w, "end", 60, ",\"how\":\"stopped\"");
    line(&w, "requeue", 61, ",\"note\":null");
    start_on(&w, "", 100, 0, 1, 90, 95);
    line(&w, "stop", 120, ",\"signal\":null");
    expect(&w, 0, CLASSES([GOODPUT_STARTUP] = 9 + 5, [GOODPUT_LOST] = 21, [GOODPUT_RESTART] = 8,
                          [GOODPUT_USEFUL] = 22 + 25, [GOODPUT_IDLE] = 1, [GOODPUT_QUEUE] = 29));
}

static void clocks_that_go_wrong(void **state)
{
    (void)state;
    struct writing w;
    begin(&w); /* an allocation that began later than its lines say, times that go back, a wall too long */
    start(&w, 10, 0, 0, 50, 60);
    interval(&w, 5, 1, 1, 4, 0, 0);
    interval(&w, 20, 2, 1, 30, 15, 30);
    interval(&w, 15, 3, 1, 5, 1, 1);
    start(&w, 18, 1, 0, 50, 60);
    line(&w, "train", 18, at_step, 3);
    interval(&w, 30, 4, 1, 10, 0, 0);
    expect(&w, 10, CLASSES([GOODPUT_DATA] = 5, [GOODPUT_CHECKPOINT] = 5, [GOODPUT_USEFUL] = 10));
    begin(&w);
    start(&w, 10, 0, 0, 10, 10);
    struct goodput g = judge(&w, 10);
    assert_true(isnan(g.share) && g.to_t == 10);
    free(w.text);
}

static void goodput_leaves_out_the_queue(void **state)
{
    (void)state;
    struct writing w;
    begin(&w);
    start(&w, 0, 0, 0, 0, 0);
    interval(&w, 30, 20, 20, 20, 0, 0);
    line(&w, "requeue", 30, ",\"note\":null");
    start(&w, 1010, 0, 1, 1000, 1005);
    line(&w, "end", 1010, ",\"how\":\"stopped\"");
    struct goodput g = judge(&w, 0);
    assert_true(fabs(g.share - 0.5) < 1e-9 && g.class_s[GOODPUT_QUEUE] == 970);
    free(w.text);
}

/* ---- a job that is lived second by second ---- */

#define SECONDS_MAX 20000
static uint64_t seed;
static int below(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

/* What each second was, and, where it was a step's or came of it, that step and in which generation. */
struct life {
    struct second { enum goodput_class c; int step, generation; } second[SECONDS_MAX];
    int now, generation, step, saved;
    int begun_at[64]; /* of each generation: the step that it began with; -1: it began with none */
    struct writing w;
};

static void live(struct life *l, enum goodput_class c, int n, int step)
{
    for (int i = 0; i < n; i++)
        l->second[l->now++] = (struct second){c, step, l->generation};
}

/* Steps of one interval, each alike; returns the seconds of one. */
static int live_interval(struct life *l)
{
    int n = 1 + below(4), data = below(3), saving = below(4) ? 0 : 1 + below(2), work = 1 + below(3), from = l->now;
    for (int i = 0; i < n; i++) {
        l->step++;
        live(l, GOODPUT_DATA, data, l->step);
        live(l, GOODPUT_CHECKPOINT, saving, l->step);
        live(l, GOODPUT_USEFUL, work, l->step);
    }
    interval(&l->w, l->now, l->step, n, l->now - from, n * data, n * saving);
    if (saving) {
        l->saved = l->step - below(n);
        line(&l->w, "checkpoint", l->now, at_step ",\"stood_still_s\":%d", l->saved, n * saving);
    }
    return data + saving + work;
}

static void live_gap(struct life *l)
{
    int n = 1 + below(3);
    switch (below(4)) {
    case 0:
        live(l, GOODPUT_USEFUL, n, l->step);
        line(&l->w, "validation", l->now, at_step ",\"loss\":1", l->step);
        break;
    case 1:
        live(l, GOODPUT_IDLE, n, 0);
        break;
    default:
        break;
    }
}

/* Steps that no interval tells of; the first of them are saved at times. */
static void live_tail(struct life *l, int step_s)
{
    int n = below(4), is_saved = l->step > l->begun_at[l->generation] && below(2);
    for (int i = 0; i < n; i++)
        live(l, GOODPUT_USEFUL, step_s, l->step + 1 + i);
    if (n && is_saved) {
        l->saved = l->step + 1 + below(n);
        line(&l->w, "checkpoint", l->now, at_step, l->saved);
    }
    live(l, GOODPUT_USEFUL, below(3), l->step + n + 1); /* of one that did not come to its end */
}

static void live_generation(struct life *l, bool is_requeued)
{
    int alloc = l->now, step_s = 0, n = below(6);
    static int n_alloc;
    l->step = l->saved;
    l->begun_at[l->generation] = l->saved;
    live(l, GOODPUT_STARTUP, below(4), 0);
    start(&l->w, l->now, l->generation, is_requeued ? ++n_alloc : n_alloc, is_requeued || !l->generation ? alloc : 1e-3,
          alloc);
    live(l, GOODPUT_STARTUP, 1 + below(4), 0);
    if (below(5) == 0) { /* dies before it trains, and has taken nothing back */
        l->begun_at[l->generation] = -1;
        return;
    }
    line(&l->w, "train", l->now, at_step, l->saved);
    for (int i = 0; i < n; i++) {
        if (i > 0)
            live_gap(l);
        step_s = live_interval(l);
    }
    live_tail(l, step_s ? step_s : 1);
}

/* Lost: a later generation began before this step; the last one's failure leaves what was saved. */
static bool is_lost(const struct life *l, const struct second *s, int n_generations, int left)
{
    bool is_lost = s->step > left;
    for (int g = s->generation + 1; g < n_generations; g++)
        is_lost |= l->begun_at[g] >= 0 && l->begun_at[g] < s->step;
    return is_lost;
}

static void live_once(uint64_t s)
{
    struct life *l = calloc(1, sizeof *l);
    int n = 1 + below(6);
    double want[GOODPUT_CLASSES] = {0};
    bool is_requeued = false;
    assert_non_null(l);
    begin(&l->w);
    for (l->generation = 0; l->generation < n; l->generation++) {
        live_generation(l, is_requeued);
        line(&l->w, "failure", l->now, ",\"text\":\"x\"");
        live(l, GOODPUT_RESTART, below(5), 0);
        is_requeued = below(3) == 0;
        if (is_requeued) {
            line(&l->w, "requeue", l->now, ",\"note\":\"x\"");
            live(l, GOODPUT_QUEUE, 2 + below(50), 0);
        }
    }
    line(&l->w, "failure", l->now, ",\"text\":\"x\"");
    for (int i = 0; i < l->now; i++)
        want[is_lost(l, &l->second[i], n, l->saved) ? GOODPUT_LOST : l->second[i].c]++;
    struct goodput g = judge(&l->w, 0);
    for (int c = 0; c < GOODPUT_CLASSES; c++)
        if (fabs(g.class_s[c] - want[c]) > 1e-6)
            fail_msg("life %llu: %s is %g s, not %g, in\n%s", (unsigned long long)s, goodput_name[c], g.class_s[c],
                     want[c], l->w.text);
    free(l->w.text);
    free(l);
}

static void lives(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 3000; s++) {
        seed = s * 7919 + 1;
        live_once(s);
    }
}

static void one_line(void **state)
{
    (void)state;
    char text[GOODPUT_TEXT_MAX];
    struct goodput g = {.to_t = 8040 + 301, .share = 0.9134,
                        .class_s = {[GOODPUT_USEFUL] = 7344, [GOODPUT_LOST] = 185, [GOODPUT_RESTART] = 40.14,
                                    [GOODPUT_DATA] = 0.0042, [GOODPUT_QUEUE] = 301, [GOODPUT_STARTUP] = 470}};
    assert_string_equal(goodput_text(&g, GOODPUT_ALL, text),
                        "goodput 91.3% of 2 h 14 min: useful 2 h 02 min, lost 3 min 05 s, restart 40.1 s, data 4.2 ms, "
                        "start-up 7 min 50 s; queue 5 min 01 s");
    assert_string_equal(goodput_text(&g, GOODPUT_COST, text),
                        "goodput 91.3% of 2 h 14 min: lost 3 min 05 s, restart 40.1 s");
    assert_string_equal(goodput_text(&g, 0, text), "goodput 91.3% of 2 h 14 min");
    g = (struct goodput){.to_t = 2, .share = NAN, .class_s = {[GOODPUT_QUEUE] = 2}};
    assert_string_equal(goodput_text(&g, GOODPUT_ALL, text), "goodput 0.0% of 0 us; queue 2.0 s");
    g = (struct goodput){.to_t = 8e9, .share = 1};
    for (int c = 0; c < GOODPUT_CLASSES; c++)
        g.class_s[c] = 4e9 + 36000; /* a hundred years */
    assert_int_equal(strlen(strstr(goodput_text(&g, GOODPUT_ALL, text), "; queue ")), strlen("; queue 46296 d 17 h"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations),
        cmocka_unit_test(an_undisturbed_run),
        cmocka_unit_test(a_failure_and_a_requeue),
        cmocka_unit_test(ends_that_are_none),
        cmocka_unit_test(a_program_without_steps),
        cmocka_unit_test(clocks_that_go_wrong),
        cmocka_unit_test(goodput_leaves_out_the_queue),
        cmocka_unit_test(one_line),
        cmocka_unit_test(lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
