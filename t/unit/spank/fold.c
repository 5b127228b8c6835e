#include "t/unit/unit.h"

#include "spank/gather/gather.h"

static void folds_to(const struct gather_report *reports, size_t n, const char *want)
{
    char *got = gather_fold(reports, n);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void nodes_that_look_alike_are_one_block(void **state)
{
    (void)state;
    const struct gather_report same[] = {{"n1", "a\n"}, {"n2", "a\n"}, {"n3", "a\n"}, {"n4", "a\n"}};
    folds_to(same, 4, "ddp: n[1-4]: a\n");
    folds_to(same, 1, "ddp: n1: a\n");
    const struct gather_report lines[] = {{"n1", "rank  CPUs\n0     0-3\n\n1     4\n"},
                                          {"gpu02", "rank  CPUs\n0     0-3\n\n1     4\n"}};
    folds_to(lines, 2, "ddp: gpu02,n1:\n  rank  CPUs\n  0     0-3\n  \n  1     4\n");
    const struct gather_report open_end[] = {{"n1", "a"}, {"n2", "a\nb"}};
    folds_to(open_end, 2, "ddp: n1: a\nddp: n2:\n  a\n  b\n");
}

static void the_largest_class_comes_first(void **state)
{
    (void)state;
    const struct gather_report mixed[] = {{"n1", "a"}, {"n2", "b"}, {"n3", "c"}, {"n4", "b"}, {"n5", "c"}, {"n6", "c"}};
    folds_to(mixed, 6, "ddp: n[3,5-6]: c\nddp: n[2,4]: b\nddp: n1: a\n");
    const struct gather_report equal[] = {{"n1", "z"}, {"n2", "y"}, {"n3", "z"}, {"n4", "y"}};
    folds_to(equal, 4, "ddp: n[1,3]: z\nddp: n[2,4]: y\n");
}

static void who_is_missing_is_named_last(void **state)
{
    (void)state;
    const struct gather_report few[] = {{"n1", NULL}, {"n2", "b"}, {"n3", NULL}, {"n4", NULL}};
    folds_to(few, 4, "ddp: n2: b\nddp: n[1,3-4]: have not told where their ranks run (ddp check: is ddp.so there?)\n");
    folds_to(few, 2, "ddp: n2: b\nddp: n1: has not told where its ranks run (ddp check: is ddp.so there?)\n");
}

static void who_has_nothing_to_show_is_not_named(void **state)
{
    (void)state;
    const struct gather_report quiet[] = {{"n1", ""}, {"n2", "b"}, {"n3", ""}, {"n4", NULL}};
    folds_to(quiet, 4, "ddp: n2: b\nddp: n4: has not told where its ranks run (ddp check: is ddp.so there?)\n");
    folds_to(quiet, 1, "");
}

static void a_name_that_is_none_gives_no_fold(void **state)
{
    (void)state;
    const struct gather_report bad[] = {{"n1", "a"}, {"n[2", "a"}};
    assert_null(gather_fold(bad, 2));
}

static void no_text_drives_a_terminal(void **state)
{
    (void)state;
    char text[256] = "";
    for (int i = 1; i < 256; i++)
        text[i - 1] = (char)(i == '\n' ? '-' : i);
    const struct gather_report reports[] = {{"n\033[1", "no name"}, {"n\0331", text}};
    assert_null(gather_fold(reports, 1));
    char *fold = gather_fold(&reports[1], 1);
    assert_non_null(fold);
    assert_int_equal(strncmp(fold, "ddp: n?1: ????", 14), 0);
    for (const char *p = fold; *p; p++)
        assert_true(*p == '\n' ? !p[1] : *p >= ' ' && *p <= '~');
    free(fold);
}

/* Each node in one block, blocks by size, no text in two of them. */
static void random_reports_are_partitioned(void **state)
{
    (void)state;
    static const char *const texts[] = {"a\n", "b\n", "c\n", "a\nb\n"};
    srand(42);
    for (int round = 0; round < 2000; round++) {
        struct gather_report reports[40];
        char names[40][8], want[16];
        size_t n = (size_t)rand() % 40 + 1, count[4] = {0}, last = n;
        for (size_t i = 0; i < n; i++) {
            size_t k = (size_t)rand() % 4;
            sprintf(names[i], "n%zu", i);
            reports[i] = (struct gather_report){names[i], texts[k]};
            count[k]++;
        }
        char *got = gather_fold(reports, n), *p = got;
        assert_non_null(got);
        while (*p) {
            size_t k;
            char *colon = strchr(p, ' ');
            assert_int_equal(strncmp(p, "ddp: n", 6), 0);
            colon = strchr(colon + 1, ':');
            k = colon[1] == '\n' ? 3 : (size_t)(colon[2] - 'a');
            strcpy(want, k == 3 ? ":\n  a\n  b\n" : (const char *[]){": a\n", ": b\n", ": c\n"}[k]);
            assert_int_equal(strncmp(colon, want, strlen(want)), 0);
            assert_true(count[k] > 0 && count[k] <= last);
            last = count[k];
            count[k] = 0;
            p = colon + strlen(want);
        }
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(count[k], 0);
        free(got);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nodes_that_look_alike_are_one_block), cmocka_unit_test(the_largest_class_comes_first),
    cmocka_unit_test(who_has_nothing_to_show_is_not_named),
    cmocka_unit_test(who_is_missing_is_named_last),        cmocka_unit_test(a_name_that_is_none_gives_no_fold),
    cmocka_unit_test(no_text_drives_a_terminal),           cmocka_unit_test(random_reports_are_partitioned),
};
UNIT_MAIN(tests)
