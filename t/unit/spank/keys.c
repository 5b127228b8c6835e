#include "t/unit/unit.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/core/config.h"
#include "spank/keys/keys.h"
#include "spank/keys/site.h"

/* A list of "NAME=VALUE" ended by NULL. */
static const char *lookup(const char *name, void *arg)
{
    size_t n = strlen(name);
    for (const char *const *e = arg; e && *e; e++)
        if (!strncmp(*e, name, n) && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

static void options_are_read(void **state)
{
    (void)state;
    struct keys o;
    ddp_error_t e;
    assert_int_equal(keys_parse("on", "--ddp", &o, &e), 0);
    assert_int_equal(o.mode, DDP_MODE_ON);
    assert_false(o.key[KEY_BIND].is_set);
    assert_int_equal(keys_parse("on,bind=none,verbose", "--ddp", &o, &e), 0);
    assert_int_equal(o.key[KEY_BIND].choice, BIND_NONE);
    assert_true(o.key[KEY_VERBOSE].b);
    assert_int_equal(keys_parse("port=29500,verbose=off,timeout=2.5,interface=ib0", "--ddp", &o, &e), 0);
    assert_int_equal(o.mode, DDP_MODE_ON);
    assert_int_equal(o.key[KEY_PORT].i, 29500);
    assert_false(o.key[KEY_VERBOSE].b);
    assert_true(o.key[KEY_TIMEOUT].d == 2.5);
    assert_int_equal(keys_parse("off,bind=none", "--ddp", &o, &e), 0);
    assert_int_equal(o.mode, DDP_MODE_OFF);
    assert_int_equal(keys_parse("omp=2,omp=3", "--ddp", &o, &e), 0);
    assert_int_equal(o.key[KEY_OMP].i, 3);
}

static void slips_in_variables_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *meant; /* NULL: it is another's */
    } cases[] = {
        {"DDP_BNID=none", "the variable DDP_BNID is no key of --ddp, and nobody reads it, did you mean DDP_BIND?"},
        {"DDP_RESTRATS=3", "did you mean DDP_RESTARTS?"}, {"DDP_SPARE=1", "did you mean DDP_SPARES?"},
        {"DDP_STOPCODE=", "did you mean DDP_STOP_CODE?"}, {"DDP_STOP=TERM", NULL},
        {"DDP_BIND=nnoe", NULL},  {"DDP_RESTART=1", NULL}, {"DDP_STEP=1", NULL}, {"DDP_MAX_NODES=1", NULL},
        {"DDP_SORT=1", "did you mean DDP_PORT?"}, {"DDP_MODE=1", NULL}, {"DDP_MP=1", NULL}, {"BNID=none", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160] = "";
        bool is = keys_have_slip(cases[i].variable, text, sizeof text);
        if (is != (cases[i].meant != NULL) || (is && !strstr(text, cases[i].meant)))
            fail_msg("%s: %s", cases[i].variable, text);
    }
}

/* What a task gets, and what is libddp's, is no slip of a key's. */
static void settings_are_no_slips(void **state)
{
    (void)state;
    static const char *const gets[] = {"DDP_RESTART", "DDP_DEVICE", "DDP_SET", "DDP_END_TIME", "DDP_VERSION",
                                       "DDP_NUMA"};
    char text[160];
    for (size_t i = 0; i < sizeof gets / sizeof *gets; i++)
        assert_false(keys_have_slip(gets[i], text, sizeof text));
#define CHECK(type, field, scope, ...)                                                                                 \
    {                                                                                                                  \
        const struct knob k = {__VA_ARGS__};                                                                           \
        assert_false(k.env && keys_have_slip(k.env, text, sizeof text));                                               \
    }
    CONFIG_SETTINGS(CHECK)
#undef CHECK
}

static void bad_options_are_named(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } bad[] = {
        {"", "empty item"},       {"on,", "empty item"},     {"on,,verbose", "empty item"}, {"on,off", "together"},
        {"bnd=none", "did you mean bind?"},                  {"verbos", "did you mean verbose?"},
        {"zzzzzz=1", "one of bind, guard, interface"},         {"enabled=off", "unknown key"},
        {"a-name-that-is-as-long-as-32-may=1", "stop_code, timeout, topo, verbose"},
        {"DDP_BIND=none", "unknown key"},                    {"bind", "bind=auto|none"},    {"bind=", "auto|none"},
        {"bind=Auto", "auto|none"},                          {"port=80", "1024..65535"},
        {"port=70000", "1024..65535"},                       {"port=0x5000", "1024..65535"},
        {"verbose=maybe", "on|off"},                         {"on=1", "unknown key"},
        {"interface=a-name-too-long-for-linux", "too long: 15 bytes"},
        {"=x", "unknown key"},                               {"timeout=nan", "timeout"},
        {"requeue", "requeue=off|auto"},                     {"requeue=on", "requeue=off|auto"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct keys o = {.mode = 77};
        ddp_error_t e = {0};
        if (keys_parse(bad[i].text, "--ddp", &o, &e) == 0)
            fail_msg("\"%s\" was accepted", bad[i].text);
        assert_error_has(e, "--ddp: ");
        assert_error_has(e, bad[i].says);
        assert_int_equal(o.mode, 77);
    }
    char big[KEYS_TEXT_MAX + 2];
    struct keys o;
    ddp_error_t e;
    memset(big, ',', sizeof big);
    big[sizeof big - 1] = 0;
    assert_int_equal(keys_parse(big, "--ddp", &o, &e), -1);
    assert_error_has(e, "longer than 4096");
}

static void command_line_beats_environment_beats_site(void **state)
{
    (void)state;
    struct keys o, site = {.mode = DDP_MODE_UNSET};
    ddp_error_t e;
    const char *env[] = {"DDP_BIND=none", NULL, NULL}, *none[] = {NULL};
    assert_int_equal(site_parse("{\"bind\":\"none\",\"omp\":5}", 23, "f", &site, &e), 0);
    assert_int_equal(keys_resolve("on", lookup, none, NULL, &o, &e), 0);
    assert_int_equal(o.key[KEY_BIND].choice, BIND_AUTO);
    assert_int_equal(keys_resolve("on", lookup, none, &site, &o, &e), 0);
    assert_int_equal(o.key[KEY_BIND].choice, BIND_NONE);
    assert_string_equal(o.key[KEY_BIND].source, "site file");
    env[1] = "DDP_OMP=7";
    assert_int_equal(keys_resolve("on", lookup, env, &site, &o, &e), 0);
    assert_int_equal(o.key[KEY_OMP].i, 7);
    assert_int_equal(keys_resolve("omp=9", lookup, env, &site, &o, &e), 0);
    assert_int_equal(o.key[KEY_OMP].i, 9);
    assert_false(o.key[KEY_PORT].is_set);

    assert_int_equal(keys_resolve(NULL, lookup, none, NULL, &o, &e), 0);
    assert_int_equal(o.mode, DDP_MODE_OFF);
    env[1] = "SLURM_DDP=on,bind=auto";
    assert_int_equal(keys_resolve(NULL, lookup, env, NULL, &o, &e), 0);
    assert_int_equal(o.mode, DDP_MODE_ON);
    assert_int_equal(o.key[KEY_BIND].choice, BIND_AUTO);
    assert_int_equal(keys_resolve("off", lookup, env, NULL, &o, &e), 0);
    assert_int_equal(o.mode, DDP_MODE_OFF);
    env[1] = "DDP_PORT=1";
    assert_int_equal(keys_resolve("on", lookup, env, NULL, &o, &e), -1);
    assert_error_has(e, "DDP_PORT");
    assert_int_equal(keys_resolve("off", lookup, env, NULL, &o, &e), 0);
}

static void help_fits(void **state)
{
    (void)state;
    char buf[2048];
    keys_help(buf, sizeof buf);
    assert_true(strlen(buf) < sizeof buf - 1);
    for (int i = 0; i < KEY_USER_COUNT; i++)
        assert_non_null(strstr(buf, ddp_keys[i].help));
    assert_null(strchr(buf, '\n'));
}

static void parse_site(const char *text, const char *says)
{
    struct keys o = {.mode = 77};
    ddp_error_t e = {0};
    if (site_parse(text, strlen(text), "/etc/ddp.json", &o, &e) == 0)
        fail_msg("accepted: %s", text);
    assert_error_has(e, says);
    assert_int_equal(e.domain, DDP_E_DATA);
    assert_int_equal(o.mode, 77);
}

static void site_file_is_strict(void **state)
{
    (void)state;
    struct keys o;
    ddp_error_t e;
    static const char good[] = "{\n \"enabled\": true, \"bind\": \"none\", \"mpi\": \"pmix\", \"port_min\": 21000,\n"
                               " \"port_max\": 21999, \"verbose\": false, \"omp\": 4, \"timeout\": 60 }\n";
    static const char again[] = "{\"spares\": 1, \"min_nodes\": 2, \"restarts\": 3, \"stop\": \"SIGUSR1@60\"}";
    static const char srun[] = "{\"srun_port_min\": 60001, \"srun_port_max\": 63000}";
    assert_int_equal(site_parse(good, strlen(good), "f", &o, &e), 0);
    assert_int_equal(o.key[KEY_PORT_MIN].i, 21000);
    assert_true(o.key[KEY_ENABLED].b && o.key[KEY_TIMEOUT].d == 60);
    assert_int_equal(site_parse("{}", 2, "f", &o, &e), 0);
    assert_false(o.key[KEY_ENABLED].is_set);
    parse_site("", "/etc/ddp.json:1: not JSON");
    parse_site("{\n\"bind\": \"none\",\n}", "/etc/ddp.json:3: not JSON");
    parse_site("{} {}", "/etc/ddp.json:1: not JSON");
    parse_site("[]", "one JSON object");
    parse_site("{\n\n \"bnd\": 1}", "/etc/ddp.json:3: unknown key \"bnd\", did you mean bind?");
    parse_site("{\n \"DDP_BIND\": \"none\"}", "/etc/ddp.json:2: unknown key \"DDP_BIND\"; ddp.json(5) lists them");
    parse_site("{\"guard_silnt\": 9}", "\"guard_silnt\", did you mean guard_silent? ddp.json(5) lists them");
    parse_site("{\"timeout\": 0.05}", ":1: timeout: 0.05 is not allowed; it may be 0.1..86400");
    parse_site("{\"verbose\":\n \"on\"}", "/etc/ddp.json:1: verbose: must be true or false");
    parse_site("{\"omp\": \"4\"}", "omp: must be a whole number");
    parse_site("{\"omp\": 4.5}", "omp: must be a whole number");
    parse_site("{\"omp\": null}", "omp: must be a whole number");
    parse_site("{\"bind\": true}", "bind: must be a string");
    parse_site("{\"bind\": \"none\\u0000\"}", "not JSON");
    parse_site("{\n\"bind\": \"no\"}", "/etc/ddp.json:2: bind: no is not allowed; it may be auto|none");
    parse_site("{\"port_min\": 80}", "port_min: 80 is not allowed; it may be 1024..65535");
    parse_site("{\"interface\": \"a-name-too-long-for-linux\"}",
               ":1: interface: a-name-too-long-for-linux is too long: 15");
    parse_site("{\"bind\": \"none\",\n \"bind\": \"auto\"}", "/etc/ddp.json:2: not JSON: duplicate");
    parse_site("{\n\"port_min\": 30000}", "/etc/ddp.json:2: port_min: port_min (30000) is above port_max (29999)");
    parse_site("{\"omp\": 99999999999999999999999}", "not JSON");
    parse_site("{\n\n\"srun_port_max\": 6000}", "/etc/ddp.json:3: srun_port_max: srun_port_min and srun_port_max make");
    parse_site("{\"srun_port_min\": 6001, \"srun_port_max\": 6000}", "srun_port_min (6001) is above srun_port_max");
    parse_site("{\n\"stop\": \"USR1@x\"}", "/etc/ddp.json:2: stop=USR1@x: use none, or HUP");
    parse_site("{\n\"spares\": 5}", "/etc/ddp.json:2: spares is for programs that are started again: give restarts");
    parse_site("{\"restarts\": 0,\n\"min_nodes\": 2}", "/etc/ddp.json:2: min_nodes is for programs");
    assert_int_equal(site_parse(again, strlen(again), "f", &o, &e), 0);
    assert_int_equal(site_parse(srun, strlen(srun), "f", &o, &e), 0);
    assert_int_equal(o.key[KEY_SRUN_PORT_MIN].i, 60001);
}

static void site_file_is_the_sites(void **state)
{
    (void)state;
    struct keys o;
    bool is_missing = false;
    ddp_error_t e;
    char path[] = "/tmp/ddp-site-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{}", 2), 2);
    assert_int_equal(fchmod(fd, 0644), 0);
    if (getuid() == 0) {
        is_missing = true;
        assert_int_equal(site_load(path, &o, &is_missing, &e), 0);
        assert_false(is_missing);
        assert_int_equal(fchown(fd, 65534, 65534), 0);
    }
    assert_int_equal(site_load(path, &o, &is_missing, &e), -1);
    assert_error_has(e, "must belong to root");
    if (getuid() == 0)
        assert_int_equal(fchown(fd, 0, 0), 0);
    assert_int_equal(fchmod(fd, 0664), 0);
    assert_int_equal(site_load(path, &o, &is_missing, &e), -1);
    assert_error_has(e, "writable by root alone");
    close(fd);
    unlink(path);
    assert_int_equal(site_load(path, &o, &is_missing, &e), 0);
    assert_true(is_missing);
    assert_int_equal(site_load("/tmp", &o, &is_missing, &e), -1);
    assert_error_has(e, "not a regular file");
}

static void the_argument_of_the_plugin(void **state)
{
    char text[PATH_MAX + 6] = "site=";
    (void)state;
    assert_string_equal(site_argument("site=/etc/slurm/ddp.json"), "/etc/slurm/ddp.json");
    static const char *const refused[] = {"", "site=", "site=ddp.json", "sight=/x", "/x", "xsite=/x"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_null(site_argument(refused[i]));
    memset(text + 5, '/', PATH_MAX - 1);
    assert_string_equal(site_argument(text), text + 5);
    text[PATH_MAX + 4] = '/'; /* one byte more */
    assert_null(site_argument(text));
}

/* A file of the source tree, whole. */
static const char *read_source(const char *name, char *buf, size_t size)
{
    char path[1024];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/%s", top ? top : ".", name);
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("cannot open %s: run in the source tree, or set top_srcdir", path);
    buf[fread(buf, 1, size - 1, f)] = 0;
    fclose(f);
    return buf;
}

/* The line of the page's table that has `cell` in its first column. */
static const char *find_row(const char *page, const char *cell, char *buf, size_t size)
{
    for (const char *row = strstr(page, "\n|"); row; row = strstr(row + 1, "\n|")) {
        snprintf(buf, size, "%.*s", (int)strcspn(row + 1, "\n"), row + 1);
        const char *at = strstr(buf, cell);
        if (at && at < strstr(buf + 1, " |"))
            return buf;
    }
    fail_msg("no line of the page's tables is of %s", cell);
    return buf;
}

static void expect_in_row(const char *row, const char *word)
{
    if (!strstr(row, word))
        fail_msg("\"%s\" lacks \"%s\"", row, word);
}

static void expect_values(const char *row, const struct knob *k)
{
    char word[64];
    const char *choice = k->choices;
    snprintf(word, sizeof word, "| %g to %g |", k->min, k->max);
    if (k->type == KNOB_INT || k->type == KNOB_DOUBLE)
        expect_in_row(row, word);
    if (k->type == KNOB_BOOL)
        expect_in_row(row, "| true, false |");
    for (size_t n; k->type == KNOB_ENUM && *choice; choice += n + (choice[n] == '|')) {
        n = strcspn(choice, "|");
        snprintf(word, sizeof word, "\"%.*s\"", (int)n, choice);
        expect_in_row(row, word);
    }
    if (k->def && k->type == KNOB_BOOL)
        expect_in_row(row, strcmp(k->def, "on") ? "| false |" : "| true |");
    else if (k->def)
        expect_in_row(row, k->def);
}

static void admins_page_and_example_match_the_table(void **state)
{
    (void)state;
    static char page[65536], example[4096];
    struct keys o;
    ddp_error_t e = {0};
    read_source("doc/admin.md", page, sizeof page);
    read_source("contrib/slurm/ddp.json", example, sizeof example);
    for (int i = 0; i < KEY_COUNT; i++) {
        char cell[40], row[1024];
        snprintf(cell, sizeof cell, "`%s`", ddp_keys[i].name);
        expect_values(find_row(page, cell, row, sizeof row), &ddp_keys[i]);
    }
    if (site_parse(example, strlen(example), "ddp.json", &o, &e) < 0)
        fail_msg("%s", e.text);
}

static void users_page_names_the_users_keys(void **state)
{
    (void)state;
    static char page[65536];
    read_source("doc/user.md", page, sizeof page);
    for (int i = 0; i < KEY_USER_COUNT; i++) {
        char cell[40], row[1024];
        snprintf(cell, sizeof cell, ddp_keys[i].type == KNOB_BOOL ? "`%s`" : "`%s=`", ddp_keys[i].name);
        find_row(page, cell, row, sizeof row);
        snprintf(cell, sizeof cell, "`%s`", ddp_keys[i].env);
        expect_in_row(row, cell);
        if (ddp_keys[i].type == KNOB_ENUM && ddp_keys[i].def)
            expect_in_row(row, ddp_keys[i].def);
    }
}

static void a_trial_is_shown(void **state)
{
    (void)state;
    static const char *const texts[] = {"bind=print", "topo=m.xml", "topo=m.xml,bind=none,verbose=off"};
    static const char *const env[] = {"DDP_TOPO=m.xml", NULL};
    struct keys o;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(keys_resolve(texts[i], lookup, NULL, NULL, &o, NULL), 0);
        assert_true(o.key[KEY_BIND].choice == BIND_PRINT && o.key[KEY_VERBOSE].b);
    }
    assert_int_equal(keys_resolve("off", lookup, (void *)env, NULL, &o, NULL), 0);
    assert_false(o.key[KEY_VERBOSE].b);
    assert_int_equal(keys_resolve("on", lookup, (void *)env, NULL, &o, NULL), 0);
    assert_true(o.key[KEY_BIND].choice == BIND_PRINT && o.key[KEY_VERBOSE].b);
    assert_int_equal(keys_resolve("topo=", lookup, (void *)env, NULL, &o, NULL), 0); /* over the variable's */
    assert_true(o.key[KEY_BIND].choice == BIND_AUTO && !o.key[KEY_VERBOSE].b);
}

/* Random texts made of what the parsers look for: none may crash, hang, or be accepted with a key out of its range. */
static void random_texts_do_no_harm(void **state)
{
    (void)state;
    static const char *const piece[] = {"on", "off", ",", "=", "bind", "none", "port", "1024", "65536", "\"", "{", "}",
                                        ":", "verbose", "\n", "-1", "[", "true", "\x80", "%s", "omp", "0", " ", "\\"};
    unsigned seed = 12345;
    srand(seed);
    for (int round = 0; round < 20000; round++) {
        char text[256] = "";
        struct keys o;
        ddp_error_t e = {0};
        for (int i = rand() % 16; i > 0; i--)
            strcat(text, piece[(size_t)rand() % (sizeof piece / sizeof *piece)]);
        if (keys_parse(text, "--ddp", &o, &e) == 0)
            assert_true(o.mode != DDP_MODE_UNSET && (!o.key[KEY_PORT].is_set || o.key[KEY_PORT].i == 1024));
        else
            assert_true(e.text[0] && !strchr(e.text, '\n'));
        if (site_parse(text, strlen(text), "f", &o, &e) < 0)
            assert_true(e.domain == DDP_E_DATA && e.text[0] && !strchr(e.text, '\n'));
    }
}

static void a_stop_needs_a_guard(void **state)
{
    (void)state;
    struct keys o;
    ddp_error_t e = {0};
    const char *none[] = {NULL}, *variable[] = {"DDP_STOP=USR1@x", NULL};
    assert_int_equal(keys_resolve("stop=USR1@120", lookup, none, NULL, &o, &e), 0);
    assert_true(o.key[KEY_GUARD].b);
    assert_int_equal(o.key[KEY_STOP_CODE].i, 75);
    assert_int_equal(keys_resolve("stop=none", lookup, none, NULL, &o, &e), 0);
    assert_false(o.key[KEY_GUARD].b);
    assert_int_equal(keys_resolve("stop=KILL", lookup, none, NULL, &o, &e), -1);
    assert_error_has(e, "--ddp: stop=KILL: use none, or");
    assert_int_equal(keys_resolve("on", lookup, variable, NULL, &o, &e), -1);
    assert_error_has(e, "DDP_STOP: stop=USR1@x: use none, or");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(options_are_read),
    cmocka_unit_test(bad_options_are_named),
    cmocka_unit_test(slips_in_variables_are_told),
    cmocka_unit_test(settings_are_no_slips),
    cmocka_unit_test(command_line_beats_environment_beats_site),
    cmocka_unit_test(help_fits),
    cmocka_unit_test(site_file_is_strict),
    cmocka_unit_test(site_file_is_the_sites),
    cmocka_unit_test(the_argument_of_the_plugin),
    cmocka_unit_test(admins_page_and_example_match_the_table),
    cmocka_unit_test(users_page_names_the_users_keys),
    cmocka_unit_test(a_trial_is_shown),
    cmocka_unit_test(random_texts_do_no_harm),
    cmocka_unit_test(a_stop_needs_a_guard),
};
UNIT_MAIN(tests)
