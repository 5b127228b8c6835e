#include "t/unit/unit.h"

#include "runtime/base/clock.h"
#include "spank/step/hostlist.h"

static int append(const char *host, void *arg)
{
    strcat(strcat(arg, host), " ");
    return 0;
}

static void expands_to(const char *list, const char *want)
{
    char got[4096] = "", first[HOSTLIST_NAME_MAX + 1];
    size_t n = 0, words = 0;
    ddp_error_t e = {0};
    if (hostlist_each(list, append, got, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(got, want);
    for (const char *p = want; *p; p++)
        words += *p == ' ';
    assert_int_equal(hostlist_count(list, &n, &e), 0);
    assert_int_equal(n, words);
    assert_int_equal(hostlist_nth(list, 0, first, &e), 0);
    assert_int_equal(strncmp(first, want, strlen(first)), 0);
    assert_int_equal(want[strlen(first)], ' ');
    assert_int_equal(hostlist_nth(list, n, first, &e), -1);
}

static void lists_expand_as_slurm_does(void **state)
{
    (void)state;
    expands_to("n1", "n1 ");
    expands_to("login", "login ");
    expands_to("a,b,c", "a b c ");
    expands_to("n[1-3]", "n1 n2 n3 ");
    expands_to("n[1-2,4]", "n1 n2 n4 ");
    expands_to("n[08-11]", "n08 n09 n10 n11 ");
    expands_to("n[9-11]", "n9 n10 n11 ");
    expands_to("n[099-101]", "n099 n100 n101 ");
    expands_to("n[1,007,02-03]", "n1 n007 n02 n03 ");
    expands_to("gpu[001-002]-ib0", "gpu001-ib0 gpu002-ib0 ");
    expands_to("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2 ");
    expands_to("r[1-2]n[01,3]x", "r1n01x r1n3x r2n01x r2n3x ");
    expands_to("a[1-2],b,c[3]d[4],e-5.f", "a1 a2 b c3d4 e-5.f ");
    expands_to("[1-2]n", "1n 2n ");
    expands_to("n[5-5]", "n5 ");
    expands_to("n[999999999999999998-999999999999999999]", "n999999999999999998 n999999999999999999 ");
}

static void bad_lists_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",        ",",        "a,",       ",a",      "a,,b",     "n[",      "n]",       "n[]",       "n[1-",     "n[1",
        "n[1-]",   "n[-1]",    "n[2-1]",   "n[1,]",   "n[,1]",    "n[1,,2]", "n[a]",     "n[1-2-3]",  "n[[1]]",
        "n[1]]",   "n[1[2]]",  "n[1 - 2]", "n [1]",   "n1 n2",    "n[1-2]x]", "n[0-262144]",
        "n[1-1000000]x[1-1000000]",
        "n[99999999999999999999]",         "n[1-99999999999999999999]",      "a[1]b[1]c[1]d[1]e[1]f[1]g[1]h[1]i[1]",
        "n[0-262143],m",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n = 77;
        ddp_error_t e = {0};
        if (hostlist_count(bad[i], &n, &e) == 0)
            fail_msg("\"%s\" was accepted as %zu hosts", bad[i], n);
        assert_true(e.text[0] != 0);
        assert_int_equal(n, 77);
    }
    assert_int_equal(hostlist_count(NULL, &(size_t){0}, NULL), -1);
    char big[400];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    assert_int_equal(hostlist_count(big, &(size_t){0}, NULL), -1);
    size_t n;
    assert_int_equal(hostlist_count("n[0-262143]", &n, NULL), 0);
    assert_int_equal(n, HOSTLIST_HOSTS_MAX);
}

/* A list as long as a variable can be, "n[1,1,1,...]" with `before` in front of the bracket; the caller frees it. */
static char *make_long(const char *before, size_t n)
{
    char *list = malloc(strlen(before) + 2 * n + 2), *p = list + sprintf(list, "%s[", before);
    assert_non_null(list);
    for (size_t i = 0; i < n; i++, p += 2)
        memcpy(p, "1,", 2);
    strcpy(p - 1, "]");
    return list;
}

static int count_host(const char *host, void *arg)
{
    (void)host;
    ++*(size_t *)arg;
    return 0;
}

/* What counted ranges from the start for each host took minutes over the second of these. */
static void long_lists_cost_their_length(void **state)
{
    (void)state;
    static const struct { const char *before; size_t n, want; } lists[] = {
        {"n", 65000, 65000}, {"r[1-4]n", 65000, 260000},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char *list = make_long(lists[i].before, lists[i].n), host[HOSTLIST_NAME_MAX + 1];
        size_t n = 0;
        uint64_t deadline = deadline_in(10);
        assert_int_equal(hostlist_each(list, count_host, &n, NULL), 0);
        assert_int_equal(n, lists[i].want);
        assert_int_equal(hostlist_nth(list, n - 1, host, NULL), 0);
        assert_true(deadline_left_ns(deadline) > 0);
        free(list);
    }
}

static void what_would_be_huge_names_the_limit(void **state)
{
    (void)state;
    static const char *const lists[] = {"n[0-999999999]", "n[0-511]x[0-511]y[0-1]", "n[0-99999],m[0-99999],o[0-99999]",
                                        "a[0-9]b[0-9]c[0-9]d[0-9]e[0-9]f[0-9]g[0-9]h[0-9]"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        ddp_error_t e = {0};
        assert_int_equal(hostlist_each(lists[i], count_host, &(size_t){0}, &e), -1);
        assert_error_has(e, "more than 262144 hosts");
    }
}

static int stop_at_third(const char *host, void *arg)
{
    (void)host;
    return ++*(int *)arg == 3 ? 42 : 0;
}

static void walk_can_stop(void **state)
{
    (void)state;
    int n = 0;
    assert_int_equal(hostlist_each("n[1-100]", stop_at_third, &n, NULL), 42);
    assert_int_equal(n, 3);
}

/* Makes a list and, beside it, what it must expand to. */
static void make_list(char *list, char *want)
{
    *list = *want = 0;
    for (int expr = rand() % 3; expr >= 0; expr--) {
        int lo = rand() % 120, n = rand() % 5, width = rand() % 5, lo2 = rand() % 12, n2 = rand() % 3;
        int has_second = rand() % 2, digits = snprintf(NULL, 0, "%0*d", width, lo);
        sprintf(list + strlen(list), "h-%d-[%0*d-%0*d]", expr, digits, lo, digits, lo + n);
        if (has_second)
            sprintf(list + strlen(list), "x[%d-%d]y", lo2, lo2 + n2);
        for (int i = lo; i <= lo + n; i++)
            for (int k = lo2; k <= (has_second ? lo2 + n2 : lo2); k++) {
                sprintf(want + strlen(want), "h-%d-%0*d", expr, digits, i);
                if (has_second)
                    sprintf(want + strlen(want), "x%dy", k);
                strcat(want, " ");
            }
        if (expr > 0)
            strcat(list, ",");
    }
}

static void random_lists_match_a_simple_reference(void **state)
{
    (void)state;
    srand(4711);
    for (int round = 0; round < 2000; round++) {
        char list[512], want[4096];
        make_list(list, want);
        expands_to(list, want);
    }
}

static void random_texts_do_no_harm(void **state)
{
    (void)state;
    static const char alphabet[] = "n[]-,019 x";
    srand(99);
    for (int round = 0; round < 100000; round++) {
        char text[24], host[HOSTLIST_NAME_MAX + 1];
        size_t len = (size_t)rand() % (sizeof text - 1), n = 0;
        for (size_t i = 0; i < len; i++)
            text[i] = alphabet[(size_t)rand() % (sizeof alphabet - 1)];
        text[len] = 0;
        if (hostlist_count(text, &n, NULL) < 0)
            continue;
        assert_true(n >= 1 && n <= HOSTLIST_HOSTS_MAX);
        assert_int_equal(hostlist_nth(text, n - 1, host, NULL), 0);
        assert_true(host[0] && !strpbrk(host, "[], "));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lists_expand_as_slurm_does), cmocka_unit_test(bad_lists_are_refused),
    cmocka_unit_test(long_lists_cost_their_length), cmocka_unit_test(what_would_be_huge_names_the_limit),
    cmocka_unit_test(walk_can_stop),              cmocka_unit_test(random_lists_match_a_simple_reference),
    cmocka_unit_test(random_texts_do_no_harm),
};
UNIT_MAIN(tests)
