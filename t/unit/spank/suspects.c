/* What guards say of a failure that may come from another program, or from where all waited. */
#include "config.h"
#include "t/unit/spank/members.h"

#include <signal.h>

/* What is on its way up has come a level further. */
static void pass_on(struct members *m, int rank)
{
    struct heard h;
    for (int i = 0; i < 2; i++) {
        members_tell(m, rank, DO_WAIT);
        assert_true(members_hears(m, rank, 20, &h));
    }
}

/* What went before an exit code is said with it, where it is clear what it was. */
static void what_a_failure_may_come_from_is_said_with_it(void **state)
{
    static const struct {
        enum order did[3]; /* of ranks 3, 2, 3 */
        enum order fails;
        const char *says;
    } cases[] = {
        {{DO_LEAVE}, DO_FAIL_1, "rank 3 (n2) ended with code 0 after 0 s"},
        {{DO_LEAVE, DO_LEAVE}, DO_FAIL_1, ""}, /* they were ready */
        {{DO_HALT}, DO_FAIL_1, "rank 3 (n2) was stopped by signal 19 (Stopped (signal))"},
        {{DO_HALT, DO_LEAVE}, DO_FAIL_1, "rank 3 (n2) was stopped by signal 19 (Stopped (signal))"},
        {{DO_HALT, 0, DO_GO_ON}, DO_FAIL_1, ""},
        {{DO_HALT, DO_GO_ON}, DO_FAIL_1, "rank 3 (n2) was stopped by signal 19 (Stopped (signal))"}, /* another's */
        {{DO_LEAVE}, DO_DIE, ""}, /* by itself */
        {{DO_LEAVE}, DO_TELL, "rank 3 (n2) ended with code 0 after 0 s"}, /* libddp knew less */
        {{0}, DO_TELL, "rank 3 left"},
        {{DO_LEAVE}, DO_TELL_THEN, "rank 3 (n2) ended with code 0 after 0 s, and then rank 2 aborted: why"},
        {{0}, DO_TELL_THEN, "rank 3 left, and then rank 2 aborted: why"},
    };
    struct members m = {.n = 0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct heard h;
        members_start_all(&m, 2, 2);
        for (int k = 0; k < 3; k++)
            if (cases[i].did[k]) {
                if (k == 1 && cases[i].did[k] == DO_GO_ON)
                    pass_on(&m, 2); /* rank 3's word */
                members_tell(&m, k == 1 ? 2 : 3, cases[i].did[k]);
                assert_true(members_hears(&m, k == 1 ? 2 : 3, 20, &h)); /* it is on its way */
            }
        members_tell(&m, 2, cases[i].fails);
        assert_true(members_hears(&m, 0, 20, &h));
        assert_int_equal(h.verdict.rank, cases[i].fails == DO_TELL || cases[i].fails == DO_TELL_THEN ? 3 : 2);
        assert_string_equal(h.verdict.text, cases[i].says);
        members_end(&m);
    }
}

/* Slurm ends all programs of a step, and tells the guards, but where it cannot (proctrack/linuxproc). */
static void who_is_ended_alone_has_died(void **state)
{
    static const struct {
        enum order did[4]; /* of ranks 3, 2, 1, 0 */
        int who;           /* -1: nobody */
    } cases[] = {
        {{DO_BE_ENDED}, 3},
        {{0, 0, 0, DO_BE_ENDED}, 0},
        {{DO_BE_ENDED, DO_LEAVE}, 3},
        {{DO_BE_ENDED, DO_BE_ENDED}, -1},
        {{DO_BE_ENDED, 0, DO_EXPECT_END}, -1},
        {{DO_BE_ENDED, DO_STOP}, -1},
        {{DO_BE_ENDED, 0, 0, DO_FINISH}, -1},
    };
    struct members m = {.n = 0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct heard h = {.verdict = {.kind = DEATH_NONE}};
        members_start_all(&m, 2, 2);
        for (int k = 0; k < 4; k++)
            if (cases[i].did[k])
                members_tell(&m, 3 - k, cases[i].did[k]);
        while (members_hears(&m, 0, cases[i].who < 0 ? GUARDS_ALONE_S + 0.5 : 20, &h) && h.verdict.kind == DEATH_NONE)
            continue;
        assert_int_equal(h.verdict.kind, cases[i].who < 0 ? DEATH_NONE : DEATH_ENDED);
        if (cases[i].who >= 0)
            assert_true(h.verdict.rank == cases[i].who && h.verdict.how == SIGTERM && h.is_ours);
        members_end(&m);
    }
}

/* Of a hang: for whom the others waited, where that is clear. */
static void who_computed_while_all_others_waited_is_said(void **state)
{
    static const struct {
        enum order do_[4], fails;
        int who;
        bool is_said;
    } cases[] = {
        {{DO_WAIT, DO_WAIT, DO_WAIT, DO_COMPUTE}, DO_FAIL_1, 2, true},
        {{DO_WAIT, DO_WAIT, DO_WAIT, DO_COMPUTE}, DO_FAIL_1, 3, false}, /* it is what fails */
        {{DO_WAIT, DO_WAIT, DO_WAIT, DO_COMPUTE}, DO_DIE, 2, false},    /* by itself */
        {{DO_WAIT, DO_COMPUTE, DO_WAIT, DO_COMPUTE}, DO_FAIL_1, 2, false},
        {{DO_WAIT, 0, DO_WAIT, DO_COMPUTE}, DO_FAIL_1, 2, false},
        {{DO_WAIT, DO_WAIT, DO_WAIT, DO_WAIT}, DO_FAIL_1, 2, false},
        {{DO_WAIT, DO_WAIT, DO_WAIT, DO_COMPUTE}, DO_TELL, 2, false}, /* libddp knew more */
    };
    static const char says[] = "rank 3 (n2) had computed for ";
    struct members m = {.n = 0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct heard h;
        members_start_all(&m, 2, 2);
        for (int r = 3; r >= 0; r--)
            if (cases[i].do_[r]) {
                members_tell(&m, r, cases[i].do_[r]);
                assert_true(members_hears(&m, r, 20, &h));
            }
        pass_on(&m, 2); /* rank 3's word; then all, to where it is decided */
        pass_on(&m, 0);
        members_tell(&m, cases[i].who, cases[i].fails);
        assert_true(members_hears(&m, 0, 20, &h));
        const char *else_ = cases[i].fails == DO_TELL ? "rank 3 left" : "";
        assert_int_equal(h.verdict.rank, *else_ ? 3 : cases[i].who);
        assert_int_equal(strncmp(h.verdict.text, says, sizeof says - 1) == 0, cases[i].is_said);
        assert_true(cases[i].is_said || !strcmp(h.verdict.text, else_));
        members_end(&m);
    }
}

/* A round of questions, and the answers on their way to the root. */
static void answer_once(struct members *m)
{
    struct heard h;
    for (int r = 5; r >= 0; r--)
        assert_true(members_hears(m, r, 20, &h) && h.has_answered);
    for (int r = 4; r > 0; r -= 2)
        pass_on(m, r);
}

/* When all wait, they are asked in which calls. */
static void where_all_wait_is_said(void **state)
{
    static const struct {
        const char *answers[6], *says;
        bool is_news;
    } cases[] = {
        {{"cA", "cA", "cA", "cA", "cB", "cA"}, "rank 4 (n3) in B, the 5 others in A", true},
        {{"cA", "cA", "cA", "cA", "cB", "-"}, "rank 4 (n3) in B, the 4 others in A", true}, /* it has no program */
        {{"cA", "cB", "cA", "cB", "cA", "cB"}, "rank 0 (n1) and 2 more in A, the 3 others in B", true},
        {{"cA", "cA", "cA", "cA", "oread", "cA"}, "rank 4 (n3) in read, the 5 others in A", false},
        {{"o", "cA", "cA", "cA", "cA", "cA"}, "rank 0 (n1) elsewhere, the 5 others in A", false},
        {{"cA", "cA", "cA", "cA", "cA", "cA"}, "all in A", false},
        {{"cA", "cA", "cA", "cA", "mB", "cA"}, "rank 4 (n3) in B, the 5 others in A", false}, /* it may come yet */
        {{"oread", "o", "o", "o", "o", "o"}, NULL, false}, /* nothing is known of them */
        {{"cA", "cB", "cC", "cD", "cE", "cA"}, NULL, false},
        {{"-", "-", "-", "-", "-", "-"}, NULL, false},
    };
    struct members m = {.idle_s = 2};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct heard h;
        char news[200], says[200];
        snprintf(news, sizeof news, "warning: all ranks wait, and not in the same collective: %s", cases[i].says);
        snprintf(says, sizeof says, "s%s%s", cases[i].says ? ": " : "", cases[i].says ? cases[i].says : "");
        m.answers = cases[i].answers;
        members_start_all(&m, 3, 2);
        for (int r = 5; r >= 0; r--) {
            members_tell(&m, r, DO_WAIT);
            assert_true(members_hears(&m, r, 20, &h));
        }
        answer_once(&m);
        if (cases[i].is_news) { /* when they have said the same again */
            answer_once(&m);
            assert_true(members_hears(&m, 0, 20, &h) && h.is_warned);
            assert_string_equal(h.news, news);
        } else {
            pass_on(&m, 0);
        }
        members_tell(&m, 3, DO_FAIL_1);
        assert_true(members_hears(&m, 0, 20, &h));
        assert_int_equal(h.verdict.rank, 3);
        const char *since = strstr(h.verdict.text, " s"); /* the number of seconds before it is what it is */
        if (strncmp(h.verdict.text, "all ranks had waited for ", 25) != 0 || !since || strcmp(since + 1, says) != 0)
            fail_msg("%s", h.verdict.text);
        members_end(&m);
    }
}

/* It computes for a while before it exits; the others wait still. Where it is not known in which calls all waited, that
 * all did is worth no word once one does not. */
static void who_gives_up_first_does_not_hide_where_all_waited(void **state)
{
    static const char *const known[] = {"cA", "cA", "cB", "cA", "cA", "cA"};
    static const char *const unknown[] = {"o", "o", "o", "o", "o", "o"};
    static const struct {
        const char *const *answers;
        int who;
        const char *says;
    } cases[] = {
        {known, 1, "s: rank 2 (n2) in B, the 5 others in A"},
        {known, 3, "s: rank 2 (n2) in B, the 5 others in A"},
        {unknown, 1, ""},
        {unknown, 3, "rank 1 (n1) had computed for "},
    };
    struct members m = {.idle_s = 2};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct heard h;
        int who = cases[i].who;
        m.answers = cases[i].answers;
        members_start_all(&m, 3, 2);
        for (int r = 5; r >= 0; r--) {
            members_tell(&m, r, DO_WAIT);
            assert_true(members_hears(&m, r, 20, &h));
        }
        answer_once(&m);
        pass_on(&m, 0);
        members_tell(&m, 1, DO_COMPUTE);
        assert_true(members_hears(&m, 1, 20, &h));
        pass_on(&m, 0);
        members_tell(&m, who, DO_FAIL_1);
        assert_true(members_hears(&m, 0, 20, &h));
        assert_int_equal(h.verdict.rank, who);
        if (!strstr(h.verdict.text, cases[i].says) || (*h.verdict.text && !*cases[i].says))
            fail_msg("%s", h.verdict.text);
        members_end(&m);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_a_failure_may_come_from_is_said_with_it),
    cmocka_unit_test(who_is_ended_alone_has_died),
    cmocka_unit_test(who_computed_while_all_others_waited_is_said),
    cmocka_unit_test(where_all_wait_is_said),
    cmocka_unit_test(who_gives_up_first_does_not_hide_where_all_waited),
};

UNIT_MAIN(tests)
