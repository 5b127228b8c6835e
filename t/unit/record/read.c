/* A record's lines: what is read of them, what is let pass, and what is refused, by file and line. */
#include <config.h>

#include <math.h>

#include "runtime/record/read.h"
#include "t/unit/unit.h"

#define START "{\"event\":\"start\",\"v\":1,\"t\":100,\"job\":\"7.0\",\"program\":\"train\",\"ranks\":2," \
              "\"nodes\":[\"n0\",\"n1\"],\"node_of\":[0,1],\"alloc_t\":90.5,\"began_t\":99}\n"
#define TRAIN "{\"event\":\"train\",\"t\":101,\"step\":%d,\"steps\":1000,\"item\":\"token\",\"flops_per_item\":null}\n"
#define INTERVAL "{\"event\":\"interval\",\"t\":%d,\"step\":%d,\"steps\":50,\"wall_s\":10,\"loss\":null," \
                 "\"items\":800,\"parts\":{\"data\":1,\"forward\":2.5},\"compute_s\":[3,4],\"memory_bytes\":[5,6]}\n"
#define SHORT "{\"event\":\"interval\",\"t\":1,\"step\":1,\"steps\":1" /* and no end */
#define END "{\"event\":\"end\",\"t\":900,\"step\":100,\"how\":\"%s\"}\n"

static int parse(const char *text, size_t n, struct record *r, ddp_error_t *e)
{
    FILE *f = n ? fmemopen((void *)(uintptr_t)text, n, "r") : fopen("/dev/null", "r");
    assert_non_null(f);
    int rc = record_read_stream(f, "x", r, e);
    fclose(f);
    return rc;
}

static struct record good(const char *text)
{
    struct record r;
    ddp_error_t e;
    if (parse(text, strlen(text), &r, &e) < 0)
        fail_msg("%s", e.text);
    return r;
}

static void expect_refused(const char *text, const char *why)
{
    struct record r;
    ddp_error_t e;
    assert_int_equal(parse(text, strlen(text), &r, &e), -1);
    assert_error_has(e, why);
}

/* A text made of lines with numbers in them. */
static char *join(const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    assert_true(vasprintf(&text, fmt, ap) >= 0);
    va_end(ap);
    return text;
}

static void members_are_read(void **state)
{
    (void)state;
    char *text = join(START TRAIN INTERVAL END, 0, 120, 50, "done"), buf[64];
    struct record r = good(text);
    assert_int_equal(r.n_lines, 4);
    assert_string_equal(r.start[0].job, "7.0");
    assert_string_equal(r.start[0].version, "");
    assert_true(r.start[0].alloc_t == 90.5 && r.start[0].requeue == -1);
    assert_string_equal(record_rank_name(&r, 1, buf, sizeof buf), "rank 1 (n1)");
    assert_string_equal(record_rank_name(&r, 2, buf, sizeof buf), "rank 2");
    assert_true(isnan(r.train[0].flops_per_item) && r.train[0].steps == 1000);
    const struct record_interval *v = &r.interval[r.line[2].at];
    assert_true(isnan(v->loss) && isnan(v->efficiency) && v->items == 800 && v->n_steps == 50 && v->wall_s == 10);
    assert_true(v->part_s[RECORD_FORWARD] == 2.5 && v->part_s[RECORD_OTHER] == 0);
    assert_true(v->slowest == 1 && v->slowest_s == 4 && v->compute_s == 3 && v->memory_bytes == 6);
    assert_string_equal(r.other[r.line[3].at].text, "done");
    assert_true(r.line[3].step == 100 && r.line[3].kept_to == UINT64_MAX);
    record_clear(&r);
    free(text);
}

static void strangers_are_let_pass(void **state)
{
    (void)state;
    struct record r = good(START "{\"event\":\"weather\",\"t\":\"warm\"}\n\n"
                           "{\"event\":\"stop\",\"t\":3,\"step\":null,\"new\":[1],\"signal\":null}\n");
    assert_int_equal(r.n_lines, 2);
    assert_string_equal(r.other[0].text, "");
    assert_int_equal(r.n_cut, 0);
    record_clear(&r);
}

static void a_cut_line_is_let_pass(void **state)
{
    (void)state;
    struct record r = good(START "{\"event\":\"interval\",\"t\":12");
    assert_true(r.n_lines == 1 && r.n_cut == 1);
    record_clear(&r);
    r = good(START "{\"event\":\"interval\",\"t\":12\n" START); /* the next generation began a new line */
    assert_true(r.n_lines == 2 && r.n_starts == 2 && r.n_cut == 1);
    record_clear(&r);
    r = good(START "{\"event\":\"interval\",\"t\":12" START START); /* and this one did not */
    assert_true(r.n_lines == 3 && r.n_starts == 3 && r.n_cut == 1);
    record_clear(&r);
    expect_refused(START "{\"event\":\"interval\",\"t\":12\n{\"event\":\"stop\",\"t\":1}\n" START, "x:2: not JSON");
    expect_refused(START "nonsense\n", "x:2: not JSON");
}

/* A start that was cut, too; and two who have ended the line at once. */
static void cut_lines_in_a_row_are_let_pass(void **state)
{
    (void)state;
    struct record r = good(START SHORT "\n{\"event\":\"start\"\n" START);
    assert_true(r.n_lines == 2 && r.n_starts == 2 && r.n_cut == 2);
    record_clear(&r);
    r = good(START SHORT "\n\n" START "\n" SHORT "\n\n" SHORT START);
    assert_true(r.n_lines == 3 && r.n_starts == 3 && r.n_cut == 3);
    record_clear(&r);
    r = good(START SHORT "\n{\"event\":\"start\"");
    assert_true(r.n_lines == 1 && r.n_cut == 2);
    record_clear(&r);
    expect_refused(START SHORT "\n\n" SHORT "\n{\"event\":\"stop\",\"t\":1}\n" START, "x:2: not JSON");
    expect_refused(START SHORT "\n\n", "x:2: not JSON");
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    expect_refused("", "x has no line \"start\"");
    expect_refused("{\"event\":\"new\"}\n", "x has no line \"start\"");
    expect_refused("{\"event\":\"stop\",\"t\":1}\n", "x:1: a line \"stop\" before the first \"start\"");
    expect_refused("{\"event\":\"start\",\"v\":2,\"t\":1}\n", "x:1: a record of version 2, and this software reads 1");
    expect_refused("[]\n", "x:1: not a line of a record");
    expect_refused("{\"event\":\"start\",\"v\":1,\"t\":1}\n", "lacks ranks");
    expect_refused("{\"event\":\"start\",\"v\":1,\"t\":1,\"ranks\":0}\n", "at least 1");
    expect_refused("{\"event\":\"start\",\"v\":1,\"t\":1,\"ranks\":20000}\n", "at most 16384");
    expect_refused("{\"event\":\"start\",\"v\":1,\"ranks\":1}\n", "no possible t");
    expect_refused("{\"event\":\"start\",\"v\":1,\"t\":-1,\"ranks\":1}\n", "no possible t");
    expect_refused("{\"event\":\"start\",\"v\":1,\"t\":1,\"ranks\":1,\"nodes\":[\"a\",\"b\"],\"node_of\":[0]}\n",
                   "impossible nodes");
    expect_refused("{\"event\":\"start\",\"v\":1,\"t\":1,\"ranks\":1,\"nodes\":[\"a\"],\"node_of\":[1]}\n",
                   "impossible node_of");
    expect_refused("{\"event\":\"start\",\"v\":1,\"t\":1,\"ranks\":1,\"nodes\":[7]}\n", "impossible nodes");
    expect_refused(START SHORT "}\n", "x:2: a line \"interval\" lacks wall_s");
    expect_refused(START "{\"event\":\"interval\",\"t\":1,\"steps\":1,\"wall_s\":1}\n", "no possible step");
    expect_refused(START "{\"event\":\"interval\",\"t\":1,\"step\":-1,\"steps\":1,\"wall_s\":1}\n", "no possible step");
    expect_refused(START SHORT ",\"wall_s\":-1}\n", "impossible wall_s");
    expect_refused(START SHORT ",\"wall_s\":1,\"compute_s\":[1]}\n",
                   "not a number for each rank as compute_s");
    expect_refused(START SHORT ",\"wall_s\":1,\"exposed_s\":[1,-2]}\n",
                   "not a number for each rank as exposed_s");
    expect_refused(START SHORT ",\"wall_s\":1,\"parts\":{\"data\":\"x\"}}\n",
                   "impossible parts");
    expect_refused(START "{\"event\":\"end\",\"t\":1,\"how\":5}\n", "impossible how");
}

static void lines_of_any_length(void **state)
{
    (void)state;
    size_t n = sizeof START - 1, size = n + RECORD_LINE_MAX + 8;
    char *text = malloc(size);
    struct record r;
    ddp_error_t e;
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text, START, n);
    memcpy(text + n, "{\"event\":\"weather\"}", 19);
    text[n + RECORD_LINE_MAX] = '\n';
    assert_int_equal(parse(text, n + RECORD_LINE_MAX + 1, &r, &e), 0);
    assert_int_equal(r.n_lines, 1);
    record_clear(&r);
    text[n + RECORD_LINE_MAX] = ' ';
    text[n + RECORD_LINE_MAX + 1] = '\n';
    assert_int_equal(parse(text, n + RECORD_LINE_MAX + 2, &r, &e), -1);
    assert_error_has(e, "x:2: longer than 2097152 bytes");
    assert_int_equal(parse(START "{\"event\":\0\"x\"}\n" START, 2 * n + 15, &r, &e), 0); /* a null byte is a cut, too */
    assert_int_equal(r.n_starts, 2);
    record_clear(&r);
    free(text);
}

/* An interval of as many ranks as there may be, each number of the four lists as long as one gets. */
static void all_ranks_fit_into_a_line(void **state)
{
    (void)state;
    static const char *const list[] = {"compute_s", "exposed_s", "memory_bytes", "send_bps"};
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    fprintf(f, "{\"event\":\"start\",\"v\":1,\"t\":1,\"ranks\":%d}\n" SHORT ",\"wall_s\":1", RECORD_RANKS_MAX);
    for (int i = 0; i < 4; i++) {
        fprintf(f, ", \"%s\": [", list[i]);
        for (int r = 0; r < RECORD_RANKS_MAX; r++)
            fprintf(f, "%s1.23456789e-05", r ? ", " : "");
        fputs("]", f);
    }
    fputs("}\n", f);
    fclose(f);
    struct record r = good(text);
    assert_true(r.n_intervals == 1 && r.interval[0].slowest_s == 1.23456789e-05);
    record_clear(&r);
    free(text);
}

static void texts_steer_nothing(void **state)
{
    (void)state;
    char expected[RECORD_TEXT_MAX + 1], *text;
    struct record r = good("{\"event\":\"start\",\"v\":1,\"t\":1,\"ranks\":1,\"job\":\"a\\u001b[2J\\nb\\u202e\"}\n");
    assert_string_equal(r.start[0].job, "a?[2J b?");
    record_clear(&r);
    memset(expected, 'x', sizeof expected); /* cut between characters, not within one */
    expected[RECORD_TEXT_MAX - 1] = 0;
    text = join("{\"event\":\"start\",\"v\":1,\"t\":1,\"ranks\":1,\"job\":\"%s\303\244z\"}\n", expected);
    r = good(text);
    assert_string_equal(r.start[0].job, expected);
    record_clear(&r);
    free(text);
}

static void what_was_done_again_is_marked(void **state)
{
    (void)state;
    char *text = join(START TRAIN INTERVAL INTERVAL INTERVAL START TRAIN INTERVAL START TRAIN INTERVAL, 0, 120, 50, 130,
                      100, 140, 150, 70, 150, 160, 110, 170, 120);
    struct record r = good(text);
    static const uint64_t want[11] = {0, 70, 70, 70, 70, 70, 110, 110, 110, UINT64_MAX, UINT64_MAX};
    assert_int_equal(r.n_lines, 11);
    for (size_t i = 0; i < r.n_lines; i++)
        if (r.line[i].kept_to != want[i])
            fail_msg("line %zu is kept to %llu", i, (unsigned long long)r.line[i].kept_to);
    record_clear(&r);
    free(text);
    text = join(START TRAIN INTERVAL END START TRAIN, 0, 120, 50, "done", 0); /* another run behind it */
    r = good(text);
    assert_true(r.line[2].kept_to == UINT64_MAX);
    record_clear(&r);
    free(text);
    text = join(START TRAIN INTERVAL "{\"event\":\"checkpoint\",\"t\":120,\"step\":40}\n" END, 10, 120, 50, "failed");
    r = good(text);
    assert_int_equal(r.line[2].kept_to, 40);
    record_clear(&r);
    free(text);
    text = join("{\"event\":\"start\",\"v\":1,\"t\":100,\"ranks\":2,\"restart\":0}\n" TRAIN INTERVAL
                "{\"event\":\"checkpoint\",\"t\":120,\"step\":40}\n"
                "{\"event\":\"failure\",\"t\":121,\"text\":\"x\"}\n"
                "{\"event\":\"end\",\"t\":122,\"by\":\"guard\",\"step\":null,\"how\":\"stopped\",\"restart\":0}\n",
                10, 120, 50);
    r = good(text);
    assert_int_equal(r.n_lines, 6);
    assert_int_equal(r.line[2].kept_to, 40);
    record_clear(&r);
    free(text);
}

static void a_checkpoint_does_not_say_how_far_the_run_is(void **state)
{
    (void)state;
    char *text = join(START TRAIN INTERVAL INTERVAL "{\"event\":\"checkpoint\",\"t\":131,\"step\":60}\n"
                      "{\"event\":\"failure\",\"t\":132,\"text\":\"x\"}\n", 0, 120, 50, 130, 100);
    struct record r = good(text);
    assert_int_equal(r.line[4].step, 60);
    assert_true(r.line[5].step == 100 && r.step == 100 && r.line[5].kept_to == 60);
    record_clear(&r);
    free(text);
}

static void what_a_program_adds_spoils_nothing(void **state)
{
    (void)state;
    static const char own[] = "{\"event\":\"validation\",\"t\":1,\"step\":50,\"loss\":[2.5]}\n"
                              "{\"event\":\"train\",\"t\":1,\"step\":50,\"loss\":1.5,\"item\":7,\"steps\":-1}\n"
                              "{\"event\":\"validation\",\"t\":1,\"step\":-1,\"loss\":0.5}\n"
                              "{\"event\":\"validation\",\"t\":1,\"step\":60.5}\n"
                              "{\"event\":\"train\",\"t\":1,\"step\":\"a\"}\n";
    char *text = join(START TRAIN INTERVAL "%s" END, 0, 120, 50, own, "failed");
    struct record r = good(text);
    assert_int_equal(r.n_lines, 9);
    for (size_t i = 3; i < 8; i++)
        assert_int_equal(r.line[i].step, 50);
    assert_true(isnan(r.other[0].loss) && r.other[1].loss == 0.5 && r.train[1].steps == 0 && !*r.train[1].item);
    assert_true(r.line[1].is_begin && !r.line[4].is_begin);
    assert_int_equal(r.line[2].kept_to, 0); /* no checkpoint, and that train is none */
    record_clear(&r);
    free(text);
}

static void ranks_are_compared_over_the_same_time(void **state)
{
    (void)state;
    char *text = join(START INTERVAL "{\"event\":\"start\",\"v\":1,\"t\":300,\"job\":\"7.0\",\"ranks\":1}\n"
                      "{\"event\":\"interval\",\"t\":310,\"step\":60,\"steps\":10,\"wall_s\":1,\"compute_s\":[9]}\n"
                      START INTERVAL INTERVAL, 120, 50, 420, 60, 430, 110);
    struct record r = good(text);
    assert_true(r.ranks.n == 2 && r.ranks.n_now == 2 && r.ranks.compute_s[0] == 6 && r.ranks.compute_s[1] == 8);
    record_clear(&r);
    free(text);
}

/* Waiting, too, as long as there are as many ranks as now; the peak of memory is of all time. */
static void waiting_is_compared_over_the_same_time(void **state)
{
    (void)state;
    char *text = join(START "{\"event\":\"start\",\"v\":1,\"t\":110,\"job\":\"7.0\",\"ranks\":3}\n" SHORT
                      ",\"wall_s\":1,\"compute_s\":[9,9,9],\"exposed_s\":[1,2,8],\"memory_bytes\":[7,7,7]}\n"
                      START SHORT ",\"wall_s\":1,\"compute_s\":[3,4],\"exposed_s\":[4,8]}\n" INTERVAL SHORT
                      ",\"wall_s\":1,\"exposed_s\":[1,1]}\n", 420, 60);
    struct record r = good(text);
    assert_true(r.ranks.n == 3 && r.ranks.n_now == 2);
    assert_true(r.ranks.exposed_s[0] == 5 && r.ranks.exposed_s[1] == 9 && r.ranks.exposed_s[2] == 0);
    assert_true(r.ranks.compute_s[0] == 6 && r.ranks.compute_s[1] == 8 && r.ranks.compute_s[2] == 0);
    assert_true(r.ranks.memory_bytes[0] == 7 && r.ranks.memory_bytes[1] == 7 && r.ranks.memory_bytes[2] == 7);
    record_clear(&r);
    free(text);
}

static void ranks_that_are_not_known_are_not_compared(void **state)
{
    (void)state;
    char *text = join(START INTERVAL "{\"event\":\"interval\",\"t\":130,\"step\":60,\"steps\":10,\"wall_s\":1,"
                      "\"compute_s\":[9,null],\"memory_bytes\":[9,null]}\n"
                      "{\"event\":\"interval\",\"t\":140,\"step\":70,\"steps\":10,\"wall_s\":1,"
                      "\"compute_s\":[0,0]}\n", 120, 50);
    struct record r = good(text);
    assert_true(r.interval[1].slowest == -1 && isnan(r.interval[1].compute_s) && r.interval[1].memory_bytes == 9);
    assert_int_equal(r.interval[2].slowest, -1);
    assert_true(r.ranks.compute_s[0] == 3 && r.ranks.compute_s[1] == 4);
    assert_true(r.ranks.memory_bytes[0] == 9 && r.ranks.memory_bytes[1] == 6);
    record_clear(&r);
    free(text);
}

/* ---- several runs ---- */

#define START_OF "{\"event\":\"start\",\"v\":1,\"t\":200,\"job\":\"%s\",\"ranks\":2,\"requeue\":%d,\"restart\":%d," \
                 "\"alloc_t\":90}\n"
#define RESUME "{\"event\":\"resume\",\"t\":201,\"step\":50,\"from\":\"x\",\"took_s\":0}\n"

/* Of a run, and a start behind it. */
static const struct second {
    const char *first, *job, *begin; /* which lines follow its start */
    int requeue, restart;
    bool goes_on;
} seconds[] = {
    {"7.0", "7.0", "", 0, 1, true},      /* by guards */
    {"7.1", "7.0", "", 1, 0, true},      /* requeued */
    {"7.0", "7.1", RESUME, 0, 0, true},
    {"7.0", "7.1", "", 0, 0, false},
    {"7.0", "17.0", RESUME, 0, 0, false},
    {"7.0", "8.0", "", 0, 1, false},
    {"", "", RESUME, 0, 0, true},
    {"", "", "", 0, 0, false},
};

static void the_last_run_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        const struct second *s = &seconds[i];
        bool is_begun = *s->begin, is_same_job = i == 3 || i == 7;
        char *text = join(START_OF TRAIN INTERVAL END START_OF "%s" INTERVAL END, s->first, 0, 0, 0, 120, 50, "stopped",
                          s->job, s->requeue, s->restart, s->begin, 230, 100, "done");
        struct record r = good(text);
        if (r.n_earlier != !s->goes_on || r.n_lines != (s->goes_on ? 7u : 3u) + is_begun)
            fail_msg("%s after %s: %zu earlier, %zu lines", s->job, s->first, r.n_earlier, r.n_lines);
        const struct record_line *end = &r.line[r.n_lines - 1];
        assert_true(r.line[0].event == RECORD_START && isnan(r.start[0].alloc_t) == (!s->goes_on && is_same_job));
        assert_string_equal(r.start[r.n_starts - 1].job, s->job);
        assert_true(r.interval[end[-1].at].n_steps == 50 && end[-1].at == r.n_intervals - 1 && r.step == 100);
        assert_string_equal(r.other[end->at].text, "done");
        assert_true(r.n_trains == s->goes_on && r.line[0].step == 0);
        assert_true(r.ranks.compute_s[0] == (s->goes_on && !is_begun ? 6 : 3)); /* of the same step of Slurm's */
        record_clear(&r);
        free(text);
    }
    struct record r = good(START "{\"event\":\"start\",\"v\":1,\"t\":110,\"job\":\"8.0\",\"ranks\":3}\n" START);
    assert_true(r.n_earlier == 2 && r.n_lines == 1 && r.start[0].alloc_t == 90.5);
    record_clear(&r);
}

/* ---- a guard's lines ---- */

#define GUARD "\"by\":\"guard\",\"restart\":%d}\n"
#define GUARD_START "{\"event\":\"start\",\"v\":1,\"t\":%d,\"job\":\"7.0\",\"program\":\"sh\",\"ranks\":2," \
                    "\"device\":\"\",\"node_of\":null,\"requeue\":0," GUARD
#define OWN_START "{\"event\":\"start\",\"v\":1,\"t\":%d,\"job\":\"7.0\",\"program\":\"train\",\"ranks\":2," \
                  "\"device\":\"cpu\",\"requeue\":0,\"restart\":%d}\n"
#define REQUEUED_START "{\"event\":\"start\",\"v\":1,\"t\":%d,\"job\":\"7.0\",\"program\":\"train\",\"ranks\":2," \
                       "\"device\":\"cpu\",\"requeue\":1,\"restart\":%d}\n"
#define GUARD_FAILURE "{\"event\":\"failure\",\"t\":200,\"text\":\"rank 1 died\",\"rank\":1," GUARD
#define OWN_FAILURE "{\"event\":\"failure\",\"t\":199,\"step\":47,\"text\":\"lost rank 0\",\"rank\":0}\n"
#define GUARD_END "{\"event\":\"end\",\"t\":901,\"step\":null,\"how\":\"done\"," GUARD

/* The record's lines: their programs, where they are starts, else event and writer. */
static void expect_lines(char *text, const char *want)
{
    char got[256] = "";
    struct record r = good(text);
    for (size_t i = 0; i < r.n_lines; i++) {
        const struct record_line *l = &r.line[i];
        const char *by = l->is_guards ? "guard" : "own";
        size_t n = strlen(got);
        if (l->event == RECORD_START)
            snprintf(got + n, sizeof got - n, "%s %d; ", r.start[l->at].program, r.start[l->at].restart);
        else
            snprintf(got + n, sizeof got - n, "%s %d; ", by, (int)l->event);
    }
    assert_string_equal(got, want);
    record_clear(&r);
    free(text);
}

static void a_program_goes_before_its_guard(void **state)
{
    (void)state;
    expect_lines(join(GUARD_START GUARD_FAILURE GUARD_START GUARD_END, 99, 0, 0, 300, 1, 1),
                 "sh 0; guard 9; sh 1; guard 10; ");
    expect_lines(join(GUARD_START OWN_START END GUARD_END, 99, 0, 100, 0, "done", 0), "train 0; own 10; ");
    expect_lines(join(OWN_START GUARD_START OWN_FAILURE GUARD_FAILURE, 100, 0, 99, 0, 0), "train 0; guard 9; ");
    expect_lines(join(GUARD_START OWN_START GUARD_FAILURE OWN_FAILURE OWN_START, 99, 0, 100, 0, 0, 250, 1),
                 "train 0; guard 9; train 1; ");
}

/* Whoever of them has told it first, and also behind the program's end. */
static void a_failure_has_the_guards_cause_and_the_programs_step(void **state)
{
    static const char guards[] = "{\"event\":\"failure\",\"t\":200,\"text\":\"rank 1 died\",\"rank\":1,\"node\":\"n1\","
                                 "\"by\":\"guard\",\"restart\":0}\n",
                      end[] = "{\"event\":\"end\",\"t\":200,\"step\":48,\"how\":\"failed\"}\n";
    static const char *const told[][3] = {
        {OWN_FAILURE, guards, ""}, {guards, OWN_FAILURE, ""}, {OWN_FAILURE, end, guards}};
    (void)state;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        char *text = join(OWN_START INTERVAL "%s%s%s" OWN_START, 100, 0, 120, 1, told[i][0], told[i][1], told[i][2],
                          250, 1);
        struct record r = good(text);
        const struct record_line *l = &r.line[2];
        assert_true(r.n_lines == 4 + (i == 2) && l->event == RECORD_FAILURE && l->is_guards);
        assert_true(l->t == (i == 1 ? 200 : 199) && l->step == 47 && r.line[3].step >= 47);
        assert_string_equal(r.other[l->at].text, "rank 1 died");
        assert_int_equal(r.other[l->at].rank, 1);
        record_clear(&r);
        free(text);
    }
}

static void a_guard_of_another_generation_is_let_pass(void **state)
{
    (void)state;
    expect_lines(join(GUARD_START GUARD_START GUARD_FAILURE GUARD_END, 99, 0, 300, 1, 0, 1), "sh 0; sh 1; guard 10; ");
    /* restarts are counted anew in a job that was requeued */
    expect_lines(join(GUARD_START REQUEUED_START, 99, 0, 300, 0), "sh 0; train 0; ");
}

static void a_guard_ends_a_line_that_was_cut(void **state)
{
    (void)state;
    expect_lines(join(OWN_START SHORT "\n" GUARD_FAILURE OWN_START, 99, 0, 0, 300, 1), "train 0; guard 9; train 1; ");
}

static void ranks_fit_into_columns(void **state)
{
    (void)state;
    enum { N = 1000 };
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    fputs(START, f);
    for (int i = 1; i <= N; i++)
        fprintf(f, INTERVAL, 100 + i, 50 * i);
    fputs("{\"event\":\"start\",\"v\":1,\"t\":9999,\"job\":\"7.0\",\"ranks\":3}\n"
          "{\"event\":\"interval\",\"t\":9999,\"step\":60000,\"steps\":5,\"wall_s\":1,\"compute_s\":[1,2,8]}\n", f);
    fclose(f);
    struct record r = good(text);
    const struct record_ranks *t = &r.ranks;
    assert_true(t->n == 3 && t->per_column == 4 && t->n_columns == 251 && t->n_in_last == 1);
    assert_true(t->n_now == 3 && t->compute_s[0] == 1 && t->compute_s[1] == 2 && t->compute_s[2] == 8);
    assert_true(t->memory_bytes[1] == 6 && t->memory_bytes[2] == 0);
    for (int c = 0; c < 250; c++) {
        assert_true(t->cell[3 * c] == 12 && t->cell[3 * c + 1] == 16 && t->cell[3 * c + 2] == 0);
        assert_true(t->column[c].first == (uint64_t)c * 200 && t->column[c].last == (uint64_t)(c + 1) * 200);
    }
    assert_true(t->cell[752] == 8 && t->column[250].first == 59995);
    record_clear(&r);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_read),       cmocka_unit_test(strangers_are_let_pass),
        cmocka_unit_test(a_cut_line_is_let_pass), cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(cut_lines_in_a_row_are_let_pass),
        cmocka_unit_test(lines_of_any_length),    cmocka_unit_test(texts_steer_nothing),
        cmocka_unit_test(all_ranks_fit_into_a_line),
        cmocka_unit_test(the_last_run_is_read),
        cmocka_unit_test(a_program_goes_before_its_guard),
        cmocka_unit_test(a_failure_has_the_guards_cause_and_the_programs_step),
        cmocka_unit_test(a_guard_of_another_generation_is_let_pass),
        cmocka_unit_test(a_guard_ends_a_line_that_was_cut),
        cmocka_unit_test(ranks_fit_into_columns), cmocka_unit_test(what_was_done_again_is_marked),
        cmocka_unit_test(a_checkpoint_does_not_say_how_far_the_run_is),
        cmocka_unit_test(what_a_program_adds_spoils_nothing),
        cmocka_unit_test(ranks_are_compared_over_the_same_time),
        cmocka_unit_test(waiting_is_compared_over_the_same_time),
    cmocka_unit_test(ranks_that_are_not_known_are_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
