/* Where a step's time goes, as `ddp report --html` draws it: intervals without steps, or without time, spoil no other's
 * place in the picture. And which events are shown. */
#include <config.h> /* open_memstream */

#include <math.h>

#include "runtime/cli/report/chart.h"
#include "t/unit/unit.h"

#define N 4
#define STEPS 50

/* N intervals of STEPS steps, each of which takes 0.02 s for data and 0.08 s forward; and one beside them. */
struct run {
    struct report_run run;
    struct record_line line[N + 1];
    struct record_interval interval[N + 1];
    struct record_start start;
};

static void add(struct run *r, uint64_t step, uint64_t n_steps, double data_s, double forward_s)
{
    struct record *rec = &r->run.record;
    r->interval[rec->n_intervals] = (struct record_interval){
        .n_steps = n_steps, .wall_s = data_s + forward_s,
        .part_s = {[RECORD_DATA] = data_s, [RECORD_FORWARD] = forward_s}};
    r->line[rec->n_lines++] = (struct record_line){
        .event = RECORD_INTERVAL, .at = rec->n_intervals++, .step = step, .kept_to = UINT64_MAX};
    r->run.wall_s += data_s + forward_s;
    r->run.n_steps += n_steps;
}

static void begin(struct run *r)
{
    *r = (struct run){.start = {.n_ranks = 1, .job = "", .program = "", .version = "", .device = "cpu"}};
    r->run.record = (struct record){.line = r->line, .interval = r->interval, .start = &r->start, .n_starts = 1};
    r->run.start = &r->start;
    for (uint64_t i = 1; i <= N; i++)
        add(r, i * STEPS, STEPS, 0.02 * STEPS, 0.08 * STEPS);
}

/* In how many of the places `part` is drawn as high as that of a whole interval: its share of a step's 0.1 s. */
static int places(const struct run *r, const char *part, double share)
{
    char *text = NULL, begins[64], high[32];
    size_t size;
    int n = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    struct chart c = {.f = f, .runs = &r->run, .n = 1, .least = 0, .most = N * STEPS};
    chart_put_stacks(&c, 0);
    fclose(f);
    snprintf(begins, sizeof begins, "<path style=\"fill:var(--%s)\"", part);
    snprintf(high, sizeof high, "v%.1fh", CHART_HEIGHT * share / 1.05);
    char *at = strstr(text, begins);
    assert_non_null(at);
    *strstr(at, "/>") = 0;
    assert_null(strstr(at, "nan"));
    while ((at = strstr(at, high))) {
        n++;
        at++;
    }
    free(text);
    return n;
}

static void every_interval_has_its_place(void **state)
{
    struct run r;
    (void)state;
    begin(&r);
    assert_int_equal(places(&r, "data", 0.2), N);
    assert_int_equal(places(&r, "forward", 0.8), N);
}

/* As of a run that ended within a step, or whose steps were all skipped. It lies within a place, and at its border. */
static void one_of_no_steps(void **state)
{
    struct run r;
    (void)state;
    for (uint64_t step = STEPS / 2; step <= N * STEPS; step += STEPS / 2) {
        begin(&r);
        add(&r, step, 0, 0.3, 0.2);
        assert_int_equal(places(&r, "data", 0.2), N + 1);
        assert_int_equal(places(&r, "forward", 0.8), N + 1);
    }
}

/* Its place alone stays empty. */
static void one_that_took_no_time(void **state)
{
    struct run r;
    (void)state;
    begin(&r);
    r.interval[1] = (struct record_interval){.n_steps = STEPS};
    assert_int_equal(places(&r, "data", 0.2), N - 1);
    assert_int_equal(places(&r, "forward", 0.8), N - 1);
}

/* ---- events ---- */

enum { EVENTS = 300 };

struct story {
    struct report_run run;
    struct record_line line[EVENTS];
    struct record_other other[EVENTS];
    struct report_event event[REPORT_EVENTS_MAX];
};

/* n lines of an event, the k-th at step k. How many are shown. */
static size_t tell(struct story *s, enum record_event what, size_t n, size_t *ret_left_out)
{
    *s = (struct story){.run.record = {.line = s->line, .other = s->other, .n_lines = n, .n_others = n}};
    for (size_t k = 0; k < n; k++) {
        s->line[k] = (struct record_line){.event = what, .at = k, .t = (double)k, .step = k};
        s->other[k] = (struct record_other){.rank = (int)k, .text = "", .node = "", .factor = 2, .stood_still_s = NAN,
                                            .bytes = NAN};
    }
    s->run.n_checkpoints = n;
    return report_events(&s->run, s->event, ret_left_out);
}

/* Of many the first and the last, in order; the middle is counted. */
static void events_are_left_out_in_the_middle(void **state)
{
    static struct story s;
    const size_t half = REPORT_EVENTS_MAX / 2;
    (void)state;
    for (size_t n = 0, left_out; n <= EVENTS; n++) {
        size_t want = n < REPORT_EVENTS_MAX ? n : REPORT_EVENTS_MAX;
        assert_int_equal(tell(&s, RECORD_FAILURE, n, &left_out), want);
        assert_int_equal(left_out, n - want);
        for (size_t i = 0; i < want; i++)
            assert_int_equal(s.event[i].step, i < half ? i : i + left_out);
    }
}

/* Of each rank once, of so many that there is room for; of checkpoints the last one. */
static void what_repeats_is_told_once(void **state)
{
    static struct story s;
    size_t left_out;
    (void)state;
    assert_int_equal(tell(&s, RECORD_SLOW, EVENTS, &left_out), 32);
    assert_int_equal(left_out, 0);
    assert_int_equal(tell(&s, RECORD_CHECKPOINT, EVENTS, &left_out), 1);
    assert_int_equal(s.event[0].step, EVENTS - 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_interval_has_its_place),
    cmocka_unit_test(one_of_no_steps),
    cmocka_unit_test(one_that_took_no_time),
    cmocka_unit_test(events_are_left_out_in_the_middle),
    cmocka_unit_test(what_repeats_is_told_once),
};

UNIT_MAIN(tests)
