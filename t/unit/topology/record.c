#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "t/lib/folder.h"
#include "topology/record.h"

static const char empty[] = "<topology></topology>";

static int load_text(const char *text, import_f *import, double timeout_s, struct inventory *inv, ddp_error_t *errp)
{
    struct record_reader reader = {import, 2, deadline_in(timeout_s)};
    return record_load_text(&reader, text, strlen(text), "m.xml", inv, errp);
}

static int load(import_f *import, double timeout_s, struct inventory *inv, ddp_error_t *errp)
{
    return load_text(empty, import, timeout_s, inv, errp);
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

static void formats_that_hwloc_reads_are_tried(void **state)
{
    (void)state;
    static const char *const good[] = {"<topology></topology>", "<topology version=\"2.0\"></topology>",
                                       "<?xml version=\"3.0\"?>\n<!DOCTYPE topology>\n<topology version=\"2.9\">"};
    static const char *const bad[][2] = {
        {"", "m.xml is no topology that hwloc wrote: there is no <topology>"},
        {"<root></root>", "there is no <topology>"},
        {"<topology version=\"3.0\"></topology>",
         "m.xml is of hwloc 3.0's format, and the hwloc here reads 2's: write it with lstopo --export-xml-flags v2"},
        {"<topology version=\"12.1\"></topology>", "hwloc 12.1's format"},
    };
    static struct inventory inv;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(load_text(good[i], sound, 10, &inv, NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ddp_error_t e = {0};
        assert_int_equal(load_text(bad[i][0], sound, 10, &inv, &e), -1);
        assert_int_equal(e.domain, DDP_E_DATA);
        assert_error_has(e, bad[i][1]);
    }
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
        import_f *import;
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
    struct record_reader patient = {sound, 2, deadline_in(60)}, hasty = {sound, 2, deadline_in(0.05)};
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
    cmocka_unit_test(formats_that_hwloc_reads_are_tried),
    cmocka_unit_test(a_child_imports),
    cmocka_unit_test(what_the_child_does_not_survive_is_refused),
    cmocka_unit_test(children_may_be_ignored),
    cmocka_unit_test_setup_teardown(files_that_say_nothing_do_not_hang, folder_make, folder_remove),
};
UNIT_MAIN(tests)
