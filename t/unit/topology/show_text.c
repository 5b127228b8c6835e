/* Names, markup and CPU lists, as they are written wherever something is shown. */
#include "t/unit/unit.h"

#include "t/unit/topology/showing.h"
#include "topology/show/text.h"

static void names_are_cleaned(void **state)
{
    (void)state;
    struct text t = {0};
    text_name(&t, HOSTILE, 0);
    text_add(&t, "|");
    text_ascii(&t, "\xc3\xa9 H100", 0);
    text_add(&t, "|");
    text_name(&t, "0123456789", 5);
    text_add(&t, "|");
    text_name(&t, "\xed\xa0\x80\xf5\xc0\xaf\xe2\x82", 0); /* a surrogate, too high, too long, cut off */
    char *s = text_take(&t);
    assert_string_equal(s, "a<b>&\"'?[31m???\xc3\xa9]]>?|? H100|0123~|????????");
    free(s);
}

static void markup_is_escaped(void **state)
{
    (void)state;
    struct text t = {0};
    text_xml(&t, "<a b='c'>&\"");
    char *s = text_take(&t);
    assert_string_equal(s, "&lt;a b=&#39;c&#39;&gt;&amp;&quot;");
    free(s);
}

static void cpu_lists_are_short(void **state)
{
    (void)state;
    static const struct {
        const char *list, *full, *brief;
    } cases[] = {
        {"none", "none", "none"},
        {"0", "0", "0"},
        {"0-3,8", "0-3,8", "0-3,8"},
        {"0,2,4,6", "0,2,4,6", "0-6:2"},
        {"0,2", "0,2", "0,2"},
        {"0,64", "0,64", "0,64"},
        {"1,5,9,100-102", "1,5,9,100-102", "1-9:4,100-102"},
        {"8190,8191", "8190-8191", "8190-8191"},
        {"0,2-4", "0,2-4", "0,2-4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cpus set = {{0}};
        struct text full = {0}, brief = {0};
        ddp_error_t e;
        assert_int_equal(cpus_parse(cases[i].list, &set, &e), 0);
        text_cpus(&full, &set);
        text_cpus_short(&brief, &set);
        char *a = text_take(&full), *b = text_take(&brief);
        assert_string_equal(a, cases[i].full);
        assert_string_equal(b, cases[i].brief);
        struct cpus back;
        assert_int_equal(cpus_parse(b, &back, &e), 0);
        assert_true(cpus_equal(&set, &back));
        free(a);
        free(b);
    }
}

static const struct CMUnitTest tests[] = {
    CASE(names_are_cleaned),
    CASE(markup_is_escaped),
    CASE(cpu_lists_are_short),
};
UNIT_MAIN(tests)
