#include "t/unit/unit.h"

#include <errno.h>

#include "runtime/base/clock.h"
#include "runtime/sched/comment.h"

static void what_the_user_wrote_stays(void **state)
{
    (void)state;
    static const struct {
        const char *before, *want;
    } cases[] = {
        {"", "ddp: new"},
        {"(null)", "ddp: new"},
        {"ddp: old", "ddp: new"},
        {"run 7, lr=0.1", "run 7, lr=0.1 | ddp: new"},
        {"run 7 | ddp: old", "run 7 | ddp: new"},
        {"a | b", "a | b | ddp: new"},
        {"about ddp: x", "about ddp: x | ddp: new"},
    };
    char ret[COMMENT_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(comment_join(cases[i].before, "new", ret, NULL), 0);
        assert_string_equal(ret, cases[i].want);
    }
}

static void none_that_is_too_long(void **state)
{
    (void)state;
    char before[COMMENT_MAX] = "", ret[COMMENT_MAX] = "as it was";
    ddp_error_t e;
    memset(before, 'x', COMMENT_MAX - 1 - strlen(" | ddp: new"));
    assert_int_equal(comment_join(before, "new", ret, &e), 0);
    assert_int_equal(strlen(ret), COMMENT_MAX - 1);
    assert_int_equal(comment_join(before, "newer", ret, &e), -1);
    assert_non_null(strstr(e.text, "too long"));
}

static void what_squeue_says(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "7 <ddp<a", "7 a>ddp>", "7 >ddp><ddp<", "17 <ddp<a>ddp>", "7+1 <ddp<a>ddp>",
                                      "<ddp<a>ddp>", "squeue: error: Invalid job id"};
    char ret[COMMENT_MAX], text[2 * COMMENT_MAX] = "7 <ddp<";
    const size_t n = strlen(text);
    ddp_error_t e;
    assert_int_equal(comment_find("squeue: warning: x\n7 <ddp<a b | ddp: c>ddp>\n", "7", ret, &e), 0);
    assert_string_equal(ret, "a b | ddp: c");
    assert_int_equal(comment_find("7+0 <ddp<first>ddp>\n7+1 <ddp<second>ddp>\n", "7+1", ret, &e), 0);
    assert_string_equal(ret, "second");
    assert_int_equal(comment_find("7 <ddp<>ddp>\n", "7", ret, &e), 0);
    assert_string_equal(ret, "");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(comment_find(bad[i], "7", ret, &e), -1);
    memset(text + n, 'x', COMMENT_MAX - 1);
    strcpy(text + n + COMMENT_MAX - 1, ">ddp>");
    assert_int_equal(comment_find(text, "7", ret, &e), 0);
    strcpy(text + n + COMMENT_MAX - 1, "x>ddp>");
    assert_int_equal(comment_find(text, "7", ret, &e), -1);
}

static void where_slurm_is_not_installed(void **state)
{
    (void)state;
    ddp_error_t e;
    setenv("PATH", "/nowhere", 1);
    assert_int_equal(comment_set("1", "new", deadline_in(10), &e), -1);
    assert_int_equal(e.code, ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_user_wrote_stays),
        cmocka_unit_test(none_that_is_too_long),
        cmocka_unit_test(what_squeue_says),
        cmocka_unit_test(where_slurm_is_not_installed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
