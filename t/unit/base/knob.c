#include "t/unit/unit.h"

#include <locale.h>

#include "runtime/base/knob.h"
#include "t/lib/commas.h"
#include "t/lib/folder.h"

static const struct knob some[] = {
    {.name = "bind", .env = "DDP_T_BIND", .type = KNOB_ENUM, .def = "auto", .choices = "auto|none", .help = "x"},
    {.name = "port", .env = "DDP_T_PORT", .type = KNOB_INT, .min = 1, .max = 65535, .help = "x"},
    {.name = "verbose", .env = "DDP_T_VERBOSE", .type = KNOB_BOOL, .def = "off", .help = "x"},
};

static void knobs_come_from_the_table(void **state)
{
    (void)state;
    struct knob_value v[3];
    ddp_error_t e;
    setenv("DDP_T_BIND", "none", 1);
    unsetenv("DDP_T_PORT");
    assert_int_equal(knob_load(some, 3, v, &e), 0);
    assert_int_equal(v[0].choice, 1);
    assert_string_equal(v[0].source, "DDP_T_BIND");
    assert_false(v[1].is_set);
    assert_true(v[2].is_set && !v[2].b);
    setenv("DDP_T_PORT", "70000", 1);
    assert_int_equal(knob_load(some, 3, v, &e), -1);
    assert_error_has(e, "DDP_T_PORT");
    assert_error_has(e, "1..65535");
    assert_int_equal(knob_parse(&some[0], "aut", "--ddp", v, &e), -1);
    assert_error_has(e, "auto|none");
    assert_int_equal(knob_parse(&some[0], "", "--ddp", v, &e), -1);
    assert_null(knob_find(some, 3, "bin"));
}

static void texts_have_a_greatest_length(void **state)
{
    (void)state;
    const struct knob name = {.name = "interface", .type = KNOB_STRING, .max = 15},
                      any = {.name = "any", .type = KNOB_STRING},
                      vast = {.name = "vast", .type = KNOB_STRING, .max = 9999};
    struct knob_value v;
    ddp_error_t e;
    char text[sizeof v.text + 1];
    memset(text, 'x', sizeof text);
    text[sizeof v.text] = 0;
    assert_int_equal(knob_text_max(&name), 15);
    assert_int_equal(knob_text_max(&any), sizeof v.text - 1);
    assert_int_equal(knob_text_max(&vast), sizeof v.text - 1);
    assert_int_equal(knob_parse(&name, "123456789012345", "-i", &v, &e), 0);
    assert_int_equal(knob_parse(&name, "1234567890123456", "-i", &v, &e), -1);
    assert_int_equal(e.domain, DDP_E_USAGE);
    assert_error_has(e, "-i: interface=1234567890123456 is too long: 15 bytes are allowed");
    assert_int_equal(knob_parse(&any, text, "-i", &v, &e), -1);
    assert_int_equal(knob_parse(&any, text + 1, "-i", &v, &e), 0);
    assert_string_equal(v.text, text + 1);
}

/* ---- a command line ---- */

enum { STEPS, RATE, TYPE, JSON, LOAD, N };
static const struct knob options[N] = {
    [STEPS] = {.name = "-n", .type = KNOB_INT, .def = "20", .min = 1, .max = 100, .help = "timed steps"},
    [RATE] = {.name = "--rate", .type = KNOB_DOUBLE, .min = -1, .max = 1, .help = "learning rate"},
    [TYPE] = {.name = "--type", .type = KNOB_ENUM, .def = "float", .choices = "float|double", .help = "of elements"},
    [JSON] = {.name = "--json", .type = KNOB_BOOL, .def = "off", .help = "print JSON"},
    [LOAD] = {.name = "--load", .type = KNOB_PATH, .min = 1, .help = "weights to begin with", .value = "FILE"},
};

/* The words of line, which ends at the first empty one. */
static int read_line(const char *line, struct knob_value *v, int *ret_rest, ddp_error_t *errp)
{
    static char words[200];
    char *argv[20] = {"program"}, *rest = words;
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    while (rest && *rest)
        argv[argc++] = strsep(&rest, " ");
    return knob_argv(options, N, "program --help", argc, argv, v, ret_rest, errp);
}

static void options_are_read(void **state)
{
    (void)state;
    struct knob_value v[N];
    ddp_error_t e;
    int rest;
    assert_int_equal(read_line("", v, NULL, &e), 0);
    assert_true(v[STEPS].i == 20 && !v[RATE].is_set && !v[LOAD].is_set);
    assert_int_equal(read_line("-n 30 --rate -0.5 --json --type=double --load a/b", v, NULL, &e), 0);
    assert_true(v[STEPS].i == 30 && v[RATE].d == -0.5 && v[JSON].b && v[TYPE].choice == 1);
    assert_string_equal(v[LOAD].path, "a/b");
    assert_int_equal(read_line("--json=off -n=7 -n 8", v, NULL, &e), 0);
    assert_true(!v[JSON].b && v[STEPS].i == 8);
    assert_int_equal(read_line("-n 3 a.out --json", v, &rest, &e), 0);
    assert_true(rest == 3 && !v[JSON].b);
    assert_int_equal(read_line("--json -- -n 3", v, &rest, &e), 0);
    assert_true(rest == 3 && v[STEPS].i == 20);
    assert_int_equal(read_line("--json", v, &rest, &e), 0);
    assert_int_equal(rest, 2);
    assert_int_equal(read_line("-n 3 --help --nonsense", v, NULL, &e), 1);
    assert_int_equal(read_line("-h", v, &rest, &e), 1);
    assert_int_equal(read_line("a.out -h", v, &rest, &e), 0);
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"--step 3", "there is no option --step: program --help lists them"},
        {"word", "there is no option word: program --help lists them"},
        {"-n3", "there is no option -n3"},
        {"-n", "-n wants a value after it: timed steps"},
        {"-n --json", "-n wants a value after it"},
        {"-n 101", "-n=101 is not allowed: use -n=1..100"},
        {"--json=maybe", "--json=maybe is not allowed: use --json=on|off"},
        {"--type f", "--type=f is not allowed: use --type=float|double"},
        {"--load=", "--load wants a name after it: weights to begin with"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct knob_value v[N];
        ddp_error_t e = {0};
        if (read_line(lines[i][0], v, NULL, &e) != -1)
            fail_msg("accepted: %s", lines[i][0]);
        assert_error_has(e, lines[i][1]);
        assert_int_equal(e.domain, DDP_E_USAGE);
    }
}

static void help_lists_what_there_is(void **state)
{
    (void)state;
    static const struct knob wordy[] = {
        {.name = "--long", .type = KNOB_BOOL, .def = "off",
         .help = "a line that goes on and on and on and on and on and on and on and on and on and on and on, until it "
                 "is broken"},
        {.name = "--an-even-longer-name", .env = "DDP_T_LONG", .type = KNOB_INT, .def = "3", .help = "x"},
    };
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    knob_help(f, options, N);
    knob_help(f, wordy, 2);
    fclose(f);
    assert_string_equal(text, "  -n N                 timed steps [20]\n"
                              "  --rate X             learning rate\n"
                              "  --type NAME          of elements: float|double [float]\n"
                              "  --json               print JSON\n"
                              "  --load FILE          weights to begin with\n"
                              "  --long               a line that goes on and on and on and on and on and on and on "
                              "and on and on and on and\n"
                              "                       on, until it is broken\n"
                              "  --an-even-longer-name N x [DDP_T_LONG, else 3]\n");
    free(text);
}

/* ---- fields ---- */

enum colour { RED, GREEN, BLUE };
struct fields {
    bool flag;
    char before;
    int number;
    uint64_t large;
    double real;
    enum colour colour;
    knob_text_t text;
    const char *path;
    char after;
};
#define AT(field) KNOB_FIELD(struct fields, field)
static const struct knob typed[] = {
    {.name = "flag", .type = KNOB_BOOL, AT(flag)},
    {.name = "number", .type = KNOB_INT, .max = 1e6, AT(number)},
    {.name = "large", .type = KNOB_INT, .max = 1e15, AT(large)},
    {.name = "real", .type = KNOB_DOUBLE, .max = 1e6, AT(real)},
    {.name = "colour", .type = KNOB_ENUM, .choices = "red|green|blue", AT(colour)},
    {.name = "text", .type = KNOB_STRING, AT(text)},
    {.name = "path", .type = KNOB_PATH, AT(path)},
    {.name = "elsewhere", .type = KNOB_INT, .def = "3", .max = 9},
};
#define N_TYPED (sizeof typed / sizeof *typed)

static void values_go_to_their_fields(void **state)
{
    (void)state;
    static const char *const text[N_TYPED] = {"on", "12", "1000000000000", "0.1", "blue", "a b", "x/y", "4"};
    struct knob_value v[N_TYPED];
    struct fields f;
    char buf[64];
    memset(&f, 'x', sizeof f);
    knob_clear(typed, N_TYPED, &f);
    assert_true(!f.flag && f.number == -1 && f.large == UINT64_MAX && f.real == -1 && f.colour == RED);
    assert_true(!f.text[0] && !f.path && f.before == 'x' && f.after == 'x');
    assert_string_equal(knob_format(&typed[1], &f, buf, sizeof buf), "(unset)");
    assert_string_equal(knob_format(&typed[3], &f, buf, sizeof buf), "(unset)");
    assert_string_equal(knob_format(&typed[5], &f, buf, sizeof buf), "(unset)");
    assert_int_equal(knob_load(typed, N_TYPED, v, NULL), 0);
    f.real = 7; /* what nobody names stays */
    knob_store(typed, N_TYPED, v, &f);
    assert_true(f.real == 7 && f.number == -1);
    for (size_t i = 0; i < N_TYPED; i++)
        assert_int_equal(knob_parse(&typed[i], text[i], "x", &v[i], NULL), 0);
    knob_store(typed, N_TYPED, v, &f);
    assert_true(f.flag && f.number == 12 && f.large == 1000000000000 && f.real == 0.1 && f.colour == BLUE);
    assert_ptr_equal(f.path, text[6]);
    assert_true(f.before == 'x' && f.after == 'x');
    for (size_t i = 0; i + 1 < N_TYPED; i++)
        assert_string_equal(knob_format(&typed[i], &f, buf, sizeof buf), text[i]);
    f.real = 0.1 + 1e-17 + 1e-16;
    assert_true(strtod(knob_format(&typed[3], &f, buf, sizeof buf), NULL) == f.real);
}

static void numbers_have_a_point_in_any_language(void **state)
{
    (void)state;
    struct knob_value v;
    struct fields f;
    char buf[64];
    unit_needs(commas_speak(), "a language that writes 1,5");
    int rc = knob_parse(&typed[3], "0.25", "x", &v, NULL);
    f.real = 0.1;
    knob_format(&typed[3], &f, buf, sizeof buf);
    setlocale(LC_NUMERIC, "C");
    assert_int_equal(rc, 0);
    assert_true(v.d == 0.25);
    assert_string_equal(buf, "0.1");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(knobs_come_from_the_table), cmocka_unit_test(texts_have_a_greatest_length),
    cmocka_unit_test(options_are_read),          cmocka_unit_test(wrong_options_are_named),
    cmocka_unit_test(help_lists_what_there_is),  cmocka_unit_test(values_go_to_their_fields),
    cmocka_unit_test_setup_teardown(numbers_have_a_point_in_any_language, folder_make, folder_remove),
};
UNIT_MAIN(tests)
