/* Where a step's time goes, as `ddp report --html` draws it: intervals without steps, or without time, spoil no other's
 * place in the picture. */
#include <config.h> /* open_memstream */

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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_interval_has_its_place),
    cmocka_unit_test(one_of_no_steps),
    cmocka_unit_test(one_that_took_no_time),
};

UNIT_MAIN(tests)
