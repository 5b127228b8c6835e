#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/lib/folder.h"
#include "topology/record.h"
#include "topology/xml.h"

/* ---- xml.h ---- */

static char *tidy(const char *text, ddp_error_t *errp)
{
    size_t n = 0;
    char *plain = xml_tidy(text, strlen(text), "m.xml", 2, &n, errp);
    if (plain)
        assert_int_equal(n, strlen(plain) + 1);
    return plain;
}

static void records_become_plain(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"<topology/>", NULL},
        {"<topology version=\"2.0\"></topology>", "<topology version=\"2.0\"></topology>\n"},
        {"<topology></topology>", "<topology></topology>\n"},
        {"\xef\xbb\xbf<?xml version='1.0'?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version = '2.1' >\n"
         "  <!-- a <b> & \"c\" -->\n  <object  a='x\"y' b = \"p'q\"\n\tc=\"\"/>\n</topology >\n",
         "<topology version=\"2.1\"><object a=\"x&quot;y\" b=\"p'q\" c=\"\"/>\n</topology>\n"},
        {"<topology><o n=\"&lt;&gt;&amp;&quot;&apos;&#10;&#x9;&#233;&#x20ac;&#x1F600;\xc3\xa9>\"></o></topology>",
         "<topology><o n=\"&lt;&gt;&amp;&quot;'&#10;&#9;\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9&gt;\"></o>\n"
         "</topology>\n"},
        {"<topology><indexes length=\"4\">1 2 </indexes> </topology>",
         "<topology><indexes length=\"4\">1 2 </indexes>\n</topology>\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *plain = tidy(cases[i][0], NULL);
        if (!cases[i][1]) {
            assert_null(plain);
            continue;
        }
        assert_non_null(plain);
        assert_string_equal(plain, cases[i][1]);
        char *again = tidy(plain, NULL);
        assert_string_equal(again, plain);
        free(plain);
        free(again);
    }
}

static void what_is_no_record_is_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "there is no <topology>"},
        {"hello", "text outside"},
        {"<root></root>", "one <topology>"},
        {"<topology></topology><topology></topology>", "one <topology>"},
        {"<topology>", "ends too soon"},
        {"<topology></topo>", "not the last one begun"},
        {"</topology>", "not the last one begun"},
        {"<topology>\n\n<a></b></topology>", "line 3"},
        {"<topology x=\"2.0\">", "another attribute"},
        {"<topology version=\"2.0\" x=\"1\"></topology>", "does not end in >"},
        {"<topology version=\"3.0\"></topology>", "hwloc 3.0's format"},
        {"<topology><o a=b/></topology>", "quotes"},
        {"<topology><o a=\"b", "not closed"},
        {"<topology><o a=\"<\"/></topology>", "not closed"},
        {"<topology><o a/></topology>", "no value"},
        {"<topology><o a=\"1\"b=\"2\"/></topology>", "does not end in >"},
        {"<topology><O/></topology>", "a name belongs"},
        {"<topology><o a=\"&nbsp;\"/></topology>", "reference"},
        {"<topology><o a=\"&#0;\"/></topology>", "no character"},
        {"<topology><o a=\"&#x110000;\"/></topology>", "no character"},
        {"<topology><o a=\"&#99999999;\"/></topology>", "reference"},
        {"<topology><![CDATA[x]]></topology>", "a name belongs"},
        {"<!DOCTYPE topology [<!ENTITY a \"b\">]><topology></topology>", "DOCTYPE"},
        {"<!-- <topology>", "comment"},
        {"<?xml", "does not end"},
        {"<topology>\x01</topology>", "control character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ddp_error_t e = {0};
        if (tidy(cases[i][0], &e))
            fail_msg("\"%s\" was taken", cases[i][0]);
        assert_int_equal(e.domain, DDP_E_DATA);
        assert_error_has(e, "m.xml");
        assert_error_has(e, cases[i][1]);
    }
    size_t n;
    assert_null(xml_tidy("<topology>\0</topology>", 22, "m.xml", 2, &n, NULL));
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    for (int depth = XML_DEPTH_MAX; depth <= XML_DEPTH_MAX + 1; depth++) {
        char text[64 + 8 * (XML_DEPTH_MAX + 1)] = "<topology>";
        for (int i = 1; i < depth; i++)
            strcat(text, "<a>");
        for (int i = 1; i < depth; i++)
            strcat(text, "</a>");
        char *plain = tidy(strcat(text, "</topology>"), NULL);
        assert_int_equal(plain != NULL, depth == XML_DEPTH_MAX);
        free(plain);
    }
}

/* ---- record.h ---- */

static const char empty[] = "<topology></topology>";

static int load(record_f *import, double timeout_s, struct inventory *inv, ddp_error_t *errp)
{
    struct record_reader reader = {import, 2, timeout_s};
    return record_load_text(&reader, empty, strlen(empty), "m.xml", inv, errp);
}

static int sound(const char *text, size_t n, struct inventory *inv, ddp_error_t *errp)
{
    (void)errp;
    inv->n_packages = inv->n_numas = inv->n_caches = inv->n_cores = n == strlen(text) + 1;
    inv->core[0] = (struct inventory_core){.n_cpus = 1};
    cpus_add(&inv->all, 0);
    return 0;
}

static int unsound(const char *text, size_t n, struct inventory *inv, ddp_error_t *errp)
{
    sound(text, n, inv, errp);
    inv->core[0].cpu[0] = 1;
    return 0;
}

static int fails(const char *text, size_t n, struct inventory *inv, ddp_error_t *errp)
{
    (void)text, (void)n, (void)inv;
    return error_set(errp, DDP_E_DATA, 5, "line 3 is odd");
}

static int aborts(const char *text, size_t n, struct inventory *inv, ddp_error_t *errp)
{
    (void)text, (void)n, (void)inv, (void)errp;
    abort();
    return 0;
}

static int hangs(const char *text, size_t n, struct inventory *inv, ddp_error_t *errp)
{
    (void)text, (void)n, (void)inv, (void)errp;
    while (pause() < 0)
        continue;
    return 0;
}

static void a_child_imports(void **state)
{
    (void)state;
    static struct inventory inv = {.has_io = true};
    ddp_error_t e = {0};
    assert_int_equal(load(sound, 10, &inv, &e), 0);
    assert_int_equal(inv.n_cores, 1);
    assert_true(inv.has_io);
}

static void what_the_child_does_not_survive_is_refused(void **state)
{
    (void)state;
    static const struct {
        record_f *import;
        double timeout_s;
        int domain;
        const char *text;
    } cases[] = {{unsound, 10, DDP_E_DATA, "m.xml: it contradicts itself"},
                 {fails, 10, DDP_E_DATA, "m.xml: line 3 is odd"},
                 {aborts, 10, DDP_E_DATA, "m.xml: hwloc does not survive it"},
                 {hangs, 0.05, DDP_E_TIMEOUT, "m.xml: hwloc was not done with it"}};
    static struct inventory inv;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ddp_error_t e = {0};
        inv.n_cores = 77;
        assert_int_equal(load(cases[i].import, cases[i].timeout_s, &inv, &e), -1);
        assert_int_equal(e.domain, cases[i].domain);
        assert_error_has(e, cases[i].text);
        assert_int_equal(inv.n_cores, 77);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    }
}

/* As in a daemon that ignores its children's ends. */
static void children_may_be_ignored(void **state)
{
    (void)state;
    static struct inventory inv;
    signal(SIGCHLD, SIG_IGN);
    assert_int_equal(load(sound, 10, &inv, NULL), 0);
    assert_int_equal(load(aborts, 10, &inv, NULL), -1);
    signal(SIGCHLD, SIG_DFL);
}

/* A task reads the file that topo= names: no kind of file may keep it. */
static void files_that_say_nothing_do_not_hang(void **state)
{
    (void)state;
    static struct inventory inv;
    static const char record[] = "<topology></topology>";
    struct record_reader patient = {sound, 2, 10}, hasty = {sound, 2, 0.05};
    char fifo[80], path[64];
    ddp_error_t e = {0};
    snprintf(fifo, sizeof fifo, "%s/fifo", test_folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(record_load(&patient, fifo, &inv, &e), -1); /* nobody writes to it */
    assert_error_has(e, "there is no <topology>");
    int fd = open(fifo, O_RDWR | O_CLOEXEC); /* somebody might */
    assert_int_equal(record_load(&hasty, fifo, &inv, &e), -1);
    assert_error_has(e, strerror(ETIMEDOUT));
    assert_int_equal(record_load(&patient, "/dev/zero", &inv, &e), -1);
    assert_error_has(e, "larger than any");
    close(fd);
    fd = open(fifo, O_RDWR | O_CLOEXEC);
    assert_int_equal(write(fd, record, sizeof record - 1), sizeof record - 1);
    int writer = open(fifo, O_WRONLY | O_CLOEXEC), pipe = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    close(fd);
    close(writer);
    snprintf(path, sizeof path, "/proc/self/fd/%d", pipe); /* as a shell names <(zcat record.xml.gz) */
    assert_int_equal(record_load(&patient, path, &inv, &e), 0);
    close(pipe);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(records_become_plain),
    cmocka_unit_test(what_is_no_record_is_named),
    cmocka_unit_test(nesting_is_bounded),
    cmocka_unit_test(a_child_imports),
    cmocka_unit_test(what_the_child_does_not_survive_is_refused),
    cmocka_unit_test(children_may_be_ignored),
    cmocka_unit_test_setup_teardown(files_that_say_nothing_do_not_hang, folder_make, folder_remove),
};
UNIT_MAIN(tests)
