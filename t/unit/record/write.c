/* Lines of a record, and the files that are refused. */
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/record/read.h"
#include "runtime/record/write.h"

static char path[] = "/tmp/record.XXXXXX";

static int make(void **state)
{
    (void)state;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int clear(void **state)
{
    (void)state;
    return unlink(path);
}

static char *read_record(void)
{
    size_t n;
    char *text = io_read_file(path, 1 << 16, &n, NULL);
    assert_non_null(text);
    return text;
}

/* What is behind the time in the only line. */
static void expect_line(const char *want)
{
    const size_t n_time = strlen("1700000000.123");
    char *text = read_record(), *time = strstr(text, "\"t\": ");
    assert_non_null(time);
    assert_int_equal(strcspn(time + 5, ",}"), n_time);
    assert_string_equal(time + 5 + n_time, want);
    assert_int_equal(strcspn(text, "\n"), strlen(text) - 1);
    free(text);
}

static void a_line_has_members_of_each_kind(void **state)
{
    (void)state;
    struct recorder r;
    const double x[] = {1, NAN, 0.25};
    const int k[] = {0, 1};
    const char *const names[] = {"n0", "a\"b"};
    assert_int_equal(recorder_open(&r, path, NULL), 0);
    recorder_begin(&r, "interval");
    recorder_count(&r, "step", 7);
    recorder_number(&r, "loss", INFINITY);
    recorder_enter(&r, "parts");
    recorder_number(&r, "data", 0.5);
    recorder_number(&r, "other", 1e-7);
    recorder_leave(&r);
    recorder_numbers(&r, "compute_s", x, 3);
    recorder_number(&r, "memory_bytes", 5123456789.);
    recorder_counts(&r, "node_of", k, 2);
    recorder_texts(&r, "nodes", names, 2);
    recorder_texts(&r, "none", names, 0);
    recorder_text(&r, "text", "line\nand \\ \x1b[31m");
    recorder_text(&r, "signal", NULL);
    recorder_time(&r, "alloc_t", 0);
    assert_int_equal(recorder_members(&r, "\"a\": [\"]\", {\"b\": 1}]", NULL), 0);
    assert_int_equal(recorder_end(&r, NULL), 0);
    expect_line(", \"step\": 7, \"loss\": null, \"parts\": {\"data\": 0.5, \"other\": 1e-07}, \"compute_s\": [1, null, "
                "0.25], \"memory_bytes\": 5123456789, \"node_of\": [0, 1], \"nodes\": [\"n0\", \"a\\\"b\"], "
                "\"none\": [], \"text\": \"line and \\\\ ?[31m\", \"signal\": null, \"alloc_t\": null, "
                "\"a\": [\"]\", {\"b\": 1}]}\n");
    recorder_close(&r);
}

static void what_a_program_adds_is_json(void **state)
{
    (void)state;
    static const char *const bad[] = {"\"a\": 1}", "\"a\": {", "\"a\": \"b", "\"a\": 1,\n\"b\": 2", "\"a\": \"\\",
                                      "\"a\": \"l1\nl2\"", "\"a\": [1}", "{}", "1",
                                      "\"a\": 1, \"a\": 2", "\"t\": 1", "\"event\": \"a\"", ", \"a\": 1"};
    struct recorder r;
    assert_int_equal(recorder_open(&r, path, NULL), 0);
    recorder_begin(&r, "train");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(recorder_members(&r, bad[i], NULL), -1);
    assert_int_equal(recorder_members(&r, "", NULL), 0);
    assert_int_equal(recorder_members(&r, NULL, NULL), 0);
    assert_int_equal(recorder_end(&r, NULL), 0);
    expect_line("}\n");
    recorder_close(&r);
    assert_true(recorder_is_name("validation"));
    assert_false(recorder_is_own("validation"));
    assert_true(recorder_is_own("interval"));
    assert_false(recorder_is_name(""));
    assert_false(recorder_is_name("a\"b"));
    assert_false(recorder_is_name(NULL));
}

static void what_a_program_adds_is_not_called_wrong_for_want_of_memory(void **state)
{
    (void)state;
    struct recorder r;
    ddp_error_t e;
    assert_int_equal(recorder_open(&r, path, NULL), 0);
    recorder_begin(&r, "train");
    json_set_alloc_funcs(unit_no_memory, free);
    int rc = recorder_members(&r, "\"a\": 1", &e);
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(rc, -1);
    assert_error_has(e, "no memory to look at the members of a record");
    errno = ENOMEM; /* of a call before */
    assert_int_equal(recorder_members(&r, "\"a\": ", &e), -1);
    assert_error_has(e, "members of a record are JSON");
    recorder_close(&r);
}

static void what_a_program_adds_can_be_read(void **state)
{
    (void)state;
    enum { MAX = 1000000 };
    struct recorder r;
    struct record read;
    ddp_error_t e;
    char *members = malloc(MAX + 2);
    assert_non_null(members);
    assert_int_equal(snprintf(members, MAX + 2, "\"text\": \"%0*d\"", MAX - 10, 0), MAX);
    assert_int_equal(recorder_open(&r, path, NULL), 0);
    recorder_begin(&r, "start");
    recorder_count(&r, "v", 1);
    recorder_count(&r, "ranks", 1);
    assert_int_equal(recorder_end(&r, NULL), 0);
    recorder_begin(&r, "abcdefghijklmnopqrstuvwxyz01234");
    assert_int_equal(recorder_members(&r, members, NULL), 0);
    assert_int_equal(recorder_end(&r, NULL), 0);
    strcat(members, " ");
    assert_int_equal(recorder_members(&r, members, &e), -1);
    assert_error_has(e, "at most 1000000 bytes, not 1000001");
    recorder_close(&r);
    assert_int_equal(record_read(path, &read, NULL), 0);
    record_clear(&read);
    free(members);
}

static void a_piece_of_a_line_gets_an_end(void **state)
{
    (void)state;
    struct recorder r;
    int fd = open(path, O_WRONLY), n_lines = 0;
    assert_int_equal(write(fd, "{\"event\": \"sta", 14), 14);
    close(fd);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(recorder_open(&r, path, NULL), 0);
        recorder_begin(&r, "end");
        assert_int_equal(recorder_end(&r, NULL), 0);
        recorder_close(&r);
    }
    char *text = read_record();
    assert_int_equal(strncmp(text, "{\"event\": \"sta\n{\"event\": \"end\"", 30), 0);
    for (char *p = text; *p; p++)
        n_lines += *p == '\n';
    assert_int_equal(n_lines, 3);
    free(text);
}

static void expect_refused(const char *name, const char *why)
{
    struct recorder r;
    ddp_error_t e;
    assert_int_equal(recorder_open(&r, name, &e), -1);
    assert_error_has(e, why);
    recorder_begin(&r, "end"); /* goes nowhere */
    recorder_count(&r, "step", 1);
    assert_int_equal(recorder_end(&r, &e), 0);
    recorder_close(&r);
}

static void files_that_a_stranger_may_have_put_there_are_refused(void **state)
{
    (void)state;
    char other[64];
    snprintf(other, sizeof other, "%s.other", path);
    assert_int_equal(symlink(path, other), 0);
    expect_refused(other, "symbolic link");
    unlink(other);
    assert_int_equal(link(path, other), 0);
    expect_refused(path, "one name");
    unlink(other);
    assert_int_equal(mkfifo(other, 0600), 0);
    expect_refused(other, "regular file");
    unlink(other);
    expect_refused("/nowhere/record", "/nowhere/record");
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(path, 65534, 65534), 0);
    expect_refused(path, "another user");
}

static void a_full_disk_is_told_once(void **state)
{
    (void)state;
    struct recorder r;
    ddp_error_t e;
    assert_int_equal(recorder_open(&r, path, NULL), 0);
    int full = open("/dev/full", O_WRONLY);
    assert_true(full >= 0 && dup2(full, r.fd) == r.fd);
    close(full);
    recorder_begin(&r, "end");
    assert_int_equal(recorder_end(&r, &e), -1);
    assert_error_has(e, "ends here");
    recorder_begin(&r, "end");
    assert_int_equal(recorder_end(&r, &e), 0);
    recorder_close(&r);
}

/* Its beginning is there; what comes behind it would be no line either. */
static void a_line_of_which_a_part_fits_is_the_last(void **state)
{
    (void)state;
    struct recorder r;
    struct rlimit before, small;
    ddp_error_t e;
    assert_int_equal(recorder_open(&r, path, NULL), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    recorder_begin(&r, "end");
    int rc = recorder_end(&r, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, -1);
    assert_error_has(e, "ends here: No space left on device");
    recorder_begin(&r, "end");
    assert_int_equal(recorder_end(&r, &e), 0);
    recorder_close(&r);
    char *text = read_record();
    assert_string_equal(text, "{\"event\": ");
    free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_line_has_members_of_each_kind, make, clear),
    cmocka_unit_test_setup_teardown(what_a_program_adds_is_json, make, clear),
    cmocka_unit_test_setup_teardown(what_a_program_adds_is_not_called_wrong_for_want_of_memory, make, clear),
    cmocka_unit_test_setup_teardown(what_a_program_adds_can_be_read, make, clear),
    cmocka_unit_test_setup_teardown(a_piece_of_a_line_gets_an_end, make, clear),
    cmocka_unit_test_setup_teardown(files_that_a_stranger_may_have_put_there_are_refused, make, clear),
    cmocka_unit_test_setup_teardown(a_full_disk_is_told_once, make, clear),
    cmocka_unit_test_setup_teardown(a_line_of_which_a_part_fits_is_the_last, make, clear),
};
UNIT_MAIN(tests)
