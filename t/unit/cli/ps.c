/* Who holds up a step, as `ddp ps` says it from what each rank tells of itself; and a rank as a line, and back. */
#include "t/unit/unit.h"

#include "runtime/cli/ps/ps.h"

#define N 3

/* all-reduce number `n_calls`, for the third second of a wait for `waits_for` */
static struct ps_rank rank(int rank, char state, uint64_t n_calls, int waits_for)
{
    struct ps_rank r = {.step = "7.0", .node = "n1", .rank = rank, .pid = 100 + rank, .state = state,
                        .has_flight = true, .command = "./train"};
    r.flight = (struct flight_view){.rank = rank, .size = N, .waits_for = waits_for, .n_steps = 4, .n_calls = n_calls};
    r.flight.waits_s = waits_for == FLIGHT_NOBODY ? 0 : 3;
    for (int i = 0; i < FLIGHT_CALLS; i++)
        strcpy(r.flight.name[i], "all-reduce");
    return r;
}

/* The lines below the table. The caller frees. */
static char *said(struct ps_rank a, struct ps_rank b, struct ps_rank c)
{
    struct ps_rank ranks[N] = {a, b, c};
    struct ps_list l = {ranks, N};
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    ps_show(f, &l, "/lib/ddp-waits");
    fclose(f);
    const char *at = text;
    for (int i = 0; i <= N; i++)
        at = strchr(at, '\n') + 1;
    memmove(text, at, strlen(at) + 1);
    return text;
}

static void expect(const char *want, struct ps_rank a, struct ps_rank b, struct ps_rank c)
{
    char *got = said(a, b, c);
    assert_string_equal(got, want);
    free(got);
}

static void one_is_behind(void **state)
{
    (void)state;
    expect("7.0: rank 1 (n1) has not entered all-reduce 9, after step 4; 2 ranks wait\n",
           rank(0, 'S', 9, 1), rank(1, 'R', 8, FLIGHT_NOBODY), rank(2, 'S', 9, 1));
    expect("7.0: rank 1 (n1) has not entered all-reduce 9, after step 4; 1 rank waits\n",
           rank(0, 'S', 9, 1), rank(1, 'R', 8, FLIGHT_NOBODY), rank(2, 'R', 9, FLIGHT_NOBODY));
}

static void one_stands_still_within(void **state)
{
    (void)state;
    expect("7.0: rank 1 (n1) does not go on in all-reduce 9, after step 4; 2 ranks wait\n",
           rank(0, 'S', 9, 1), rank(1, 'R', 9, FLIGHT_NOBODY), rank(2, 'S', 9, 1));
}

/* Each waits for another; but one of them could not go on whatever came. */
static void one_was_stopped_while_it_waited(void **state)
{
    (void)state;
    expect("7.0: rank 1 (n1) does not go on in all-reduce 9, after step 4; 2 ranks wait\n",
           rank(0, 'S', 9, 1), rank(1, 'T', 9, 2), rank(2, 'S', 9, 1));
}

static void nobody_is_to_blame(void **state)
{
    (void)state;
    expect("", rank(0, 'R', 9, FLIGHT_NOBODY), rank(1, 'R', 8, FLIGHT_NOBODY), rank(2, 'R', 9, FLIGHT_NOBODY));
    expect("", rank(0, 'S', 9, 1), rank(1, 'S', 9, 2), rank(2, 'S', 9, 0)); /* a network that is slow, most likely */
    struct ps_rank foreign = rank(1, 'S', 0, FLIGHT_NOBODY);
    foreign.has_flight = false;
    expect("", rank(0, 'S', 9, 2), foreign, rank(2, 'S', 9, 0));
}

/* Once, whatever else is said, and no call of that name. */
static void a_missing_helper_is_said(void **state)
{
    (void)state;
    struct ps_rank a = rank(0, 'R', 8, FLIGHT_NOBODY), b = rank(1, 'S', 9, 0), c = rank(2, 'S', 9, 0);
    strcpy(a.waits, PS_LACKS);
    strcpy(c.waits, PS_LACKS);
    strcpy(c.node, "n2");
    expect("7.0: rank 0 (n1) has not entered all-reduce 9, after step 4; 2 ranks wait\n"
           "ddp-waits is missing on n1: /lib/ddp-waits\n", a, b, c);
}

static void a_line_and_back(void **state)
{
    (void)state;
    struct ps_rank want = rank(2, 'T', 9, -2), got;
    strcpy(want.waits, "gloo::allreduce");
    char line[4096] = "";
    FILE *f = fmemopen(line, sizeof line, "w");
    assert_non_null(f);
    ps_write(f, &want);
    fclose(f);
    *strchr(line, '\n') = 0;
    want.flight.rank = 0; /* it is the rank's own */
    assert_true(ps_read(line, &got));
    assert_memory_equal(&got, &want, sizeof got);
    for (size_t n = strlen(line); n-- > 0;) {
        line[n] = 0;
        assert_false(ps_read(line, &got));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_is_behind),
    cmocka_unit_test(one_stands_still_within),
    cmocka_unit_test(one_was_stopped_while_it_waited),
    cmocka_unit_test(nobody_is_to_blame),
    cmocka_unit_test(a_missing_helper_is_said),
    cmocka_unit_test(a_line_and_back),
};

UNIT_MAIN(tests)
