#include "t/unit/unit.h"

#include "spank/step/hostlist.h"

#define NAMES_MAX 64

/* Space-separated names in, the list out. */
static void compresses_to(const char *names, const char *want)
{
    char copy[1024];
    const char *name[NAMES_MAX];
    size_t n = 0;
    ddp_error_t e = {0};
    strcpy(copy, names);
    for (char *p = strtok(copy, " "); p; p = strtok(NULL, " "))
        name[n++] = p;
    char *list = hostlist_compress(name, n, &e);
    if (!list)
        fail_msg("%s: %s", names, e.text);
    assert_string_equal(list, want);
    free(list);
}

static void names_compress_as_slurm_writes_them(void **state)
{
    (void)state;
    compresses_to("n1", "n1");
    compresses_to("login", "login");
    compresses_to("n1 n2 n3", "n[1-3]");
    compresses_to("n3 n1 n2 n1", "n[1-3]");
    compresses_to("n1 n2 n3 n7 gpu02", "gpu02,n[1-3,7]");
    compresses_to("n8 n9 n10 n11", "n[8-11]");
    compresses_to("n08 n09 n10 n11", "n[08-11]");
    compresses_to("n098 n099 n100", "n[098-100]");
    compresses_to("n9 n10 n11 n100", "n[9-11,100]");
    compresses_to("n99 n0100", "n[99,0100]");
    compresses_to("n1 n01 n2 n02", "n[1,01,2,02]");
    compresses_to("n0 n1 n", "n,n[0-1]");
    compresses_to("a b a1 b1 a2 b2", "a,a[1-2],b,b[1-2]");
    compresses_to("gpu1-ib gpu2-ib", "gpu1-ib,gpu2-ib");
    compresses_to("r1n1 r1n2 r2n1", "r1n[1-2],r2n1");
    compresses_to("1 2 3", "[1-3]");
    compresses_to("n999999999999999999 n999999999999999998", "n[999999999999999998-999999999999999999]");
    compresses_to("n1000000000000000000 n1000000000000000001", "n1[000000000000000000-000000000000000001]");
}

static void what_is_no_name_is_refused(void **state)
{
    (void)state;
    char big[HOSTLIST_NAME_MAX + 2];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    const char *const bad[] = {"", "n 1", "n,1", "n[1", "n]", "n\n", big};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ddp_error_t e = {0};
        assert_null(hostlist_compress(&bad[i], 1, &e));
        assert_int_equal(e.domain, DDP_E_DATA);
    }
    assert_null(hostlist_compress(bad, 0, NULL));
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

struct names {
    size_t n;
    char name[NAMES_MAX][40];
};

static int collect(const char *host, void *arg)
{
    struct names *s = arg;
    assert_true(s->n < NAMES_MAX);
    strcpy(s->name[s->n++], host);
    return 0;
}

static void sort_unique(struct names *s)
{
    size_t kept = 0;
    qsort(s->name, s->n, sizeof *s->name, by_text);
    for (size_t i = 0; i < s->n; i++)
        if (!kept || strcmp(s->name[kept - 1], s->name[i]))
            memmove(s->name[kept++], s->name[i], sizeof *s->name);
    s->n = kept;
}

static void random_name(char *name)
{
    static const char *const prefixes[] = {"n", "gpu-", "n0", "", "r1n", "x9y"};
    static const char *const suffixes[] = {"", "", "", "", "-ib", ".site"};
    const char *prefix = prefixes[rand() % 6];
    sprintf(name, "%s%0*d%s", prefix, rand() % 4, rand() % 3 ? rand() % 12 : 95 + rand() % 12, suffixes[rand() % 6]);
}

static void lists_expand_to_the_names_again(void **state)
{
    (void)state;
    srand(815);
    for (int round = 0; round < 20000; round++) {
        struct names in = {.n = (size_t)rand() % NAMES_MAX + 1}, out = {0};
        const char *name[NAMES_MAX];
        ddp_error_t e = {0};
        for (size_t i = 0; i < in.n; i++) {
            random_name(in.name[i]);
            name[i] = in.name[i];
        }
        char *list = hostlist_compress(name, in.n, &e);
        if (!list || hostlist_each(list, collect, &out, &e) < 0)
            fail_msg("%s: %s", list ? list : "no list", e.text);
        size_t n_out = out.n;
        sort_unique(&in);
        sort_unique(&out);
        assert_int_equal(out.n, n_out); /* no name twice */
        assert_int_equal(out.n, in.n);
        for (size_t i = 0; i < in.n; i++)
            assert_string_equal(out.name[i], in.name[i]);
        free(list);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_compress_as_slurm_writes_them),
    cmocka_unit_test(what_is_no_name_is_refused),
    cmocka_unit_test(lists_expand_to_the_names_again),
};
UNIT_MAIN(tests)
