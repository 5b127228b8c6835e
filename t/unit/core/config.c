#include "t/unit/unit.h"

#include "runtime/core/config.h"
#include "spank/keys/keys.h"

#define ROOM (128 << 10) /* bytes of doc/user.md */

static struct config load(char **argv)
{
    struct config cfg;
    ddp_error_t e;
    int argc = 0;
    while (argv && argv[argc])
        argc++;
    if (config_load(&cfg, &argc, &argv, &e) < 0)
        fail_msg("%s", e.text);
    return cfg;
}

static void defaults_are_typed(void **state)
{
    (void)state;
    struct config c = load(NULL);
    assert_true(c.timeout_s == 300 && c.keep == 2 && c.requeue_limit == 100 && c.ckpt_file_mb == 4096);
    assert_true(c.progress == COMM_PROGRESS_AUTO && c.zero == ZERO_AUTO && c.compress == COMPRESS_NONE);
    assert_true(c.order == DATA_LEDGER && c.requeue == REQUEUE_OFF && !c.ckpt_required && !c.deterministic);
    assert_true(c.bucket_mb == -1 && c.first_bucket_mb == -1 && c.mtbf_hours == -1 && c.ckpt_every == -1);
    assert_true(!config_text(c.interface) && !config_text(c.trace) && !config_text(c.requeue_exclude));
    assert_string_equal(config_text(c.device), "auto");
    assert_string_equal(c.stop_signals, "TERM,USR1,USR2,INT");
}

/* A value that is not the default. */
static const char *other_value(const struct knob *k, char *buf, size_t size)
{
    switch (k->type) {
    case KNOB_BOOL:
        return strcmp(k->def, "on") ? "on" : "off";
    case KNOB_ENUM:
        return strrchr(k->choices, '|') + 1;
    case KNOB_INT:
    case KNOB_DOUBLE:
        snprintf(buf, size, "%.10g", k->max);
        return k->type == KNOB_DOUBLE || k->max < 1e6 + 1 ? buf : "1000000000000000";
    case KNOB_STRING:
    case KNOB_PATH:
        break;
    }
    return "x,y";
}

#define TYPE(type, field, scope, ...)                                                                                  \
    _Generic(((struct config *)0)->field, bool : KNOB_BOOL, int : KNOB_INT, int64_t : KNOB_INT, double : KNOB_DOUBLE, \
             char * : KNOB_STRING, default : KNOB_ENUM),

static void rows_are_of_their_fields_types(void **state)
{
    (void)state;
    static const enum knob_type type_of_field[] = {CONFIG_SETTINGS(TYPE)};
    for (size_t i = 0; i < config_n_knobs; i++)
        if (config_knobs[i].type != type_of_field[i])
            fail_msg("%s is read as knob type %d into a field of type %d", config_knobs[i].name, config_knobs[i].type,
                     type_of_field[i]);
}

static void a_setting_goes_to_its_own_field(void **state)
{
    (void)state;
    const struct config before = load(NULL);
    for (size_t i = 0; i < config_n_knobs; i++) {
        char argument[400], want[300], text[300], value[64];
        const char *is = other_value(&config_knobs[i], value, sizeof value);
        snprintf(argument, sizeof argument, "--ddp-%s=%s", config_knobs[i].name, is);
        char *argv[] = {"program", argument, NULL};
        const struct config after = load(argv);
        for (size_t j = 0; j < config_n_knobs; j++) {
            snprintf(want, sizeof want, "%s", j == i ? is : knob_format(&config_knobs[j], &before, text, sizeof text));
            knob_format(&config_knobs[j], &after, text, sizeof text);
            bool is_same = config_knobs[j].type == KNOB_DOUBLE ? strtod(want, NULL) == strtod(text, NULL)
                                                               : !strcmp(want, text);
            if (!is_same)
                fail_msg("after %s, %s is %s, not %s", argument, config_knobs[j].name, text, want);
        }
    }
}

static void options_come_out_of_argv(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"--ddp-timeout=0", "command line: --ddp-timeout=0 is not allowed: use --ddp-timeout=0.1..86400"},
        {"--ddp-timeout", "--ddp-timeout lacks a value: write --ddp-timeout=VALUE"},
        {"--ddp-tmeout=3", "unknown option --ddp-tmeout=3, did you mean --ddp-timeout? libddp(7) lists them"},
        {"--ddp-DDP_TIMEOUT=3", "unknown option --ddp-DDP_TIMEOUT=3"},
        {"--ddp-trace=123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789."
         "123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789."
         "123456789.123456789.123456789.123456789.123456789.x", "is too long: 240 bytes are allowed"},
    };
    struct config cfg;
    ddp_error_t e;
    char *words[] = {"program", "a", "--ddp-keep=7", "b", "--ddp-zero=1", NULL}, **argv = words;
    int argc = 5;
    setenv("DDP_KEEP", "5", 1);
    assert_int_equal(config_load(&cfg, NULL, NULL, &e), 0);
    assert_int_equal(cfg.keep, 5);
    assert_int_equal(config_load(&cfg, &argc, &argv, &e), 0);
    unsetenv("DDP_KEEP");
    assert_true(cfg.keep == 7 && cfg.zero == ZERO_ON && argc == 3 && !argv[3]);
    assert_string_equal(argv[2], "b");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *wrong[] = {"program", "--ddp-keep=7", (char *)bad[i][0], NULL}, **v = wrong;
        int n = 3;
        if (config_load(&cfg, &n, &v, &e) == 0)
            fail_msg("accepted: %s", bad[i][0]);
        assert_error_has(e, bad[i][1]);
        assert_true(n == 3 && v[1] && !strcmp(v[1], "--ddp-keep=7"));
    }
}

static void the_program_sets_what_is_not_too_late(void **state)
{
    (void)state;
    struct config cfg = load(NULL);
    ddp_error_t e;
    assert_int_equal(config_set(&cfg, "bucket-mb", "4", &e), 0);
    assert_true(cfg.bucket_mb == 4 && cfg.keep == 2);
    assert_int_equal(config_set(&cfg, "bucket-mb", "x", &e), -1);
    assert_error_has(e, "ddp_option: bucket-mb=x is not allowed: use bucket-mb=0.0001..1000000");
    assert_true(cfg.bucket_mb == 4);
    assert_int_equal(config_set(&cfg, "bucket", "4", &e), -1);
    assert_error_has(e, "unknown option bucket, did you mean bucket-mb? libddp(7) lists them");
    assert_int_equal(config_set(&cfg, "bucket-md", "4", &e), -1);
    assert_error_has(e, "unknown option bucket-md, did you mean bucket-mb? libddp(7) lists them");
    assert_int_equal(config_set(&cfg, "timeout", "4", &e), -1);
    assert_error_has(e, "option timeout takes effect in ddp_init: set DDP_TIMEOUT or pass --ddp-timeout=4");
}

static void slips_in_variables_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *name, *meant; /* NULL: it is nobody's, or another program's */
    } cases[] = {
        {"DDP_TIMOUT", "DDP_TIMEOUT?"},
        {"DDP_TIMEOUTS", "DDP_TIMEOUT?"},
        {"DDP_DETERMINSTC", "DDP_DETERMINISTIC?"},
        {"DDP_KEEPS", "DDP_KEEP?"},
        {"DDP_VERBSE", "DDP_VERBOSE?"},
        {"DDP_VERBOSE", NULL},
        {"DDP_RESTRATS", "DDP_RESTARTS?"},
        {"DDP_RESTART", NULL},
        {"DDP_SPARE", "DDP_SPARES?"},
        {"DDP_BNID", "DDP_BIND?"},
        {"DDP_STOPCODE", "DDP_STOP_CODE?"},
        {"DDP_STOP_SIGNALS", NULL},
        {"DDP_MAX_NODES", NULL},
        {"DDP_STEP", NULL},
        {"DDP_MODE", NULL},
        {"DDP_MP", NULL},
        {"DDP_BOOT", NULL},
        {"DDP_RANK", NULL},
        {"DDP_SIZE", NULL},
        {"DDP_VERSION", NULL},
        {"DDP_BACKEND", NULL},
        {"DDP_TEST_MARK", NULL},
        {"ADDP_TIMOUT", NULL},
        {"DDP_", NULL},
        {"DDP_X", NULL},
    };
    struct config cfg;
    ddp_error_t e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv(cases[i].name, "on", 1);
        int rc = config_load(&cfg, NULL, NULL, &e);
        unsetenv(cases[i].name);
        if (rc != (cases[i].meant ? -1 : 0))
            fail_msg("%s: %d", cases[i].name, rc);
        if (cases[i].meant)
            assert_error_has(e, cases[i].meant);
    }
    for (size_t i = 0; i < KEY_COUNT; i++) { /* the plugin's, which a task has, too */
        const char *env = ddp_keys[i].env;
        if (!env || getenv(env) || knob_find(config_knobs, config_n_knobs, env))
            continue;
        setenv(env, "x", 1);
        if (config_load(&cfg, NULL, NULL, &e) < 0)
            fail_msg("%s: %s", env, e.text);
        unsetenv(env);
    }
}

/* Ranks whose settings mean the same agree, however they were written. */
static void ranks_compare_what_they_share(void **state)
{
    (void)state;
    char *one[] = {"program", "--ddp-bucket-mb=4", "--ddp-find-unused=yes", "--ddp-trace=x", "--ddp-timeout=9", NULL},
         *same[] = {"program", "--ddp-find-unused=1", "--ddp-bucket-mb=4.0", NULL},
         *other[] = {"program", "--ddp-find-unused=1", NULL};
    struct config a = load(one), b = load(same), c = load(other);
    char *text_a = config_shared_text(&a, "none"), *text_b = config_shared_text(&b, "none"),
         *text_c = config_shared_text(&c, "none");
    ddp_error_t e;
    assert_string_equal(text_a, text_b);
    assert_non_null(strstr(text_a, "\nfind-unused=on\n"));
    assert_non_null(strstr(text_a, "\nlibddp=" DDP_VERSION "\n"));
    assert_int_equal(config_explain(text_a, 0, text_c, 3, &e), -1);
    assert_error_has(e, "bucket-mb=4 on rank 0, bucket-mb=(unset) on rank 3; start every rank with the same options");
    assert_int_equal(config_explain("hook=none\nlibddp=0.1.0\n", 0, "hook=none\nlibddp=0.2.0\n", 3, &e), -1);
    assert_error_has(e, "libddp=0.1.0 on rank 0, libddp=0.2.0 on rank 3; install the same libddp on all nodes");
    free(text_a);
    free(text_b);
    free(text_c);
}

/* ---- the table of doc/user.md: variable, option, value, default, meaning ---- */

enum cell { VARIABLE, OPTION, VALUE, DEFAULT, MEANING, N_CELLS };

/* "| a | b | ..." in cells, which point into line. */
static bool split_row(char *line, char *cell[N_CELLS])
{
    int n = 0;
    for (char *p = line, *end; n < N_CELLS && !strncmp(p, "| ", 2) && (end = strstr(p, " |")); p = end + 1) {
        cell[n++] = p + 2;
        *end = 0;
    }
    return n == N_CELLS;
}

/* What the column of values is to say; "": it is free. */
static const char *allowed(const struct knob *k, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = 0;
    if (k->type == KNOB_BOOL)
        snprintf(buf, size, "`on`, `off`");
    if (k->type == KNOB_INT || k->type == KNOB_DOUBLE)
        snprintf(buf, size, "%.10g to %.10g", k->min, k->max);
    for (const char *p = k->choices; k->type == KNOB_ENUM && *p; p += strcspn(p, "|"), p += *p == '|')
        used += (size_t)snprintf(buf + used, size - used, "%s`%.*s`", used ? ", " : "", (int)strcspn(p, "|"), p);
    return buf;
}

/* What is wrong with a row, into why; "": nothing. Returns the row's setting, or NULL. */
static const struct knob *check_row(char *line, char *why, size_t size)
{
    char *cell[N_CELLS], want[120], bare[40];
    why[0] = 0;
    if (!split_row(line, cell)) {
        snprintf(why, size, "a row has not %d columns: %.60s", N_CELLS, line);
        return NULL;
    }
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(cell[VARIABLE] + 1, "`"), cell[VARIABLE] + 1);
    const struct knob *k = knob_find(config_knobs, config_n_knobs, bare);
    if (!k)
        snprintf(why, size, "%s is no setting", cell[VARIABLE]);
    if (!k)
        return NULL;
    snprintf(want, sizeof want, "`--ddp-%s=`", k->name);
    if (strcmp(cell[OPTION], want))
        snprintf(why, size, "%s: the option is %s, not %s", bare, want, cell[OPTION]);
    allowed(k, want, sizeof want);
    if (want[0] ? strcmp(cell[VALUE], want) : !cell[VALUE][0])
        snprintf(why, size, "%s: the value is %s, not %s", bare, want, cell[VALUE]);
    snprintf(want, sizeof want, k->type == KNOB_INT || k->type == KNOB_DOUBLE ? "%s" : "`%s`", k->def ? k->def : "");
    if (k->def ? strcmp(cell[DEFAULT], want) : cell[DEFAULT][0] == '`' || !cell[DEFAULT][0])
        snprintf(why, size, "%s: the default is %s, not %s", bare, k->def ? want : "none", cell[DEFAULT]);
    return k;
}

static void check_page(const char *page, char *why, size_t size)
{
    static const char head[] = "| variable | option | value | default | meaning |\n|---|---|---|---|---|\n";
    bool is_told[64] = {false};
    const char *p = strstr(page, head);
    assert_true(config_n_knobs <= 64);
    snprintf(why, size, "the page has no table of settings");
    for (p = p ? p + sizeof head - 1 : NULL; p && *p == '|'; p = strchr(p, '\n') + 1) {
        char line[1000];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
        const struct knob *k = check_row(line, why, size);
        if (k && is_told[k - config_knobs])
            snprintf(why, size, "%s comes twice", k->env);
        if (why[0])
            return;
        is_told[k - config_knobs] = true;
    }
    for (size_t i = 0; p && i < config_n_knobs; i++)
        if (!is_told[i])
            snprintf(why, size, "%s is missing", config_knobs[i].env);
}

static const char *read_page(char *buf)
{
    char path[1024];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/doc/user.md", top ? top : ".");
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("cannot open %s: run in the source tree, or set top_srcdir", path);
    size_t n = fread(buf, 1, ROOM - 1, f);
    assert_true(n < ROOM - 1);
    buf[n] = 0;
    fclose(f);
    return buf;
}

static void users_page_has_every_setting_and_no_other(void **state)
{
    (void)state;
    static char page[ROOM];
    char why[300];
    check_page(read_page(page), why, sizeof why);
    if (why[0])
        fail_msg("doc/user.md: %s", why);
}

/* The same page with `from` replaced by `to` is refused with a reason. */
static void expect_refused(const char *page, const char *from, const char *to, const char *reason)
{
    static char wrong[ROOM + 100];
    char why[300];
    const char *at = strstr(page, from);
    if (!at)
        fail_msg("doc/user.md has no \"%s\"", from);
    snprintf(wrong, sizeof wrong, "%.*s%s%s", (int)(at - page), page, to, at + strlen(from));
    check_page(wrong, why, sizeof why);
    if (!strstr(why, reason))
        fail_msg("\"%s\" for \"%s\": \"%s\" lacks \"%s\"", to, from, why, reason);
}

static void a_page_that_is_wrong_is_refused(void **state)
{
    (void)state;
    static char page[ROOM];
    read_page(page);
    expect_refused(page, "| 1 to 1000000 | 2 |", "| 1 to 1000000 | 3 |", "DDP_KEEP: the default is 2, not 3");
    expect_refused(page, "| 1 to 1000000 | 2 |", "| 1 to 100 | 2 |",
                   "DDP_KEEP: the value is 1 to 1000000, not 1 to 100");
    expect_refused(page, "| `none`, `bf16`, `f16` |", "| `none`, `bf16` |",
                   "DDP_COMPRESS: the value is `none`, `bf16`, `f16`");
    expect_refused(page, "`--ddp-keep=`", "`--ddp-kept=`", "DDP_KEEP: the option is `--ddp-keep=`");
    expect_refused(page, "| `DDP_KEEP` |", "| `DDP_KEPT` |", "`DDP_KEPT` is no setting");
    expect_refused(page, "| `DDP_KEEP` | `--ddp-keep=` | 1 to 1000000 | 2 |",
                   "| `DDP_REQUEUE_LIMIT` | `--ddp-requeue-limit=` | 0 to 1000000 | 100 |", "comes twice");
    expect_refused(page, "| `DDP_KEEP` | `--ddp-keep=` | 1 to 1000000 | 2 | newest checkpoints that stay |\n", "",
                   "DDP_KEEP is missing");
    expect_refused(page, "| 2 | newest checkpoints that stay |", "| 2 |", "a row has not 5 columns");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(defaults_are_typed),
    cmocka_unit_test(rows_are_of_their_fields_types),
    cmocka_unit_test(a_setting_goes_to_its_own_field),
    cmocka_unit_test(options_come_out_of_argv),
    cmocka_unit_test(the_program_sets_what_is_not_too_late),
    cmocka_unit_test(slips_in_variables_are_told),
    cmocka_unit_test(ranks_compare_what_they_share),
    cmocka_unit_test(users_page_has_every_setting_and_no_other),
    cmocka_unit_test(a_page_that_is_wrong_is_refused),
};
UNIT_MAIN(tests)
