/* A text for Prometheus, and the file that it replaces whole. */
#include "t/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/record/prometheus.h"

static char folder[] = "/tmp/prometheus.XXXXXX";
static char path[64], temporary[72];

static int make(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/run.prom", folder);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    unlink(path);
    unlink(temporary);
    return rmdir(folder); /* there is nothing else */
}

static int n_files(void)
{
    int n = -2;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static char *text_of_file(void)
{
    size_t n;
    char *text = io_read_file(path, 1 << 20, &n, NULL);
    assert_non_null(text);
    return text;
}

static void families_have_a_head_and_samples(void **state)
{
    (void)state;
    struct prometheus p;
    prometheus_open(&p, path);
    prometheus_label(&p, "jobid", "12");
    prometheus_label(&p, "stepid", NULL);
    prometheus_label(&p, "program", "a\"b\\c\n\x1b");
    prometheus_begin(&p);
    prometheus_family(&p, "ddp_up", "gauge", "One.");
    prometheus_sample(&p, NULL, 1);
    prometheus_family(&p, "ddp_loss", "gauge", "Not known.");
    prometheus_sample(&p, NULL, NAN);
    prometheus_sample(&p, NULL, INFINITY);
    prometheus_family(&p, "ddp_time_seconds_total", "counter", "Two.");
    prometheus_sample(&p, "part=\"data\"", 0.125);
    prometheus_sample(&p, "part=\"other\"", 5123456789.);
    assert_int_equal(prometheus_end(&p, NULL), 0);
    prometheus_close(&p);
    char *text = text_of_file();
    assert_string_equal(text, "# HELP ddp_up One.\n# TYPE ddp_up gauge\n"
                              "ddp_up{jobid=\"12\",program=\"a\\\"b\\\\c ?\"} 1\n"
                              "# HELP ddp_time_seconds_total Two.\n# TYPE ddp_time_seconds_total counter\n"
                              "ddp_time_seconds_total{jobid=\"12\",program=\"a\\\"b\\\\c ?\",part=\"data\"} 0.125\n"
                              "ddp_time_seconds_total{jobid=\"12\",program=\"a\\\"b\\\\c ?\",part=\"other\"} "
                              "5123456789\n");
    free(text);
}

static void a_label_is_whole_or_not_there(void **state)
{
    (void)state;
    char quoted[16];
    for (size_t n = 0; n < 14; n++) {
        char value[16] = "";
        memset(value, '"', n); /* two bytes each: node=""" */
        value[n] = 0;
        if (prometheus_quote(quoted, sizeof quoted, "n", value) == 0)
            assert_int_equal(strlen(quoted), 4 + 2 * n);
        else
            assert_string_equal(quoted, "");
    }
    assert_int_equal(prometheus_quote(quoted, sizeof quoted, "n", "12345678"), 0);
    assert_string_equal(quoted, "n=\"12345678\"");
    struct prometheus p = {0};
    char name[8];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "l%d", i);
        prometheus_label(&p, name, "value");
    }
    assert_int_equal(p.labels[strlen(p.labels) - 1], '"');
}

static mode_t mode_of_file(void)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

/* Of n_samples; all have the same number. */
static int save(struct prometheus *p, int n_samples, double x, ddp_error_t *errp)
{
    prometheus_begin(p);
    prometheus_family(p, "a", "gauge", "A.");
    for (int i = 0; i < n_samples; i++)
        prometheus_sample(p, NULL, x);
    return prometheus_end(p, errp);
}

static void it_has_the_mode_that_the_umask_says(void **state)
{
    (void)state;
    struct prometheus p;
    prometheus_open(&p, path);
    mode_t before = umask(027);
    assert_int_equal(save(&p, 1, 1, NULL), 0);
    umask(before);
    assert_int_equal(mode_of_file(), 0640);
    prometheus_close(&p);
}

static void what_is_no_file_is_left_alone(void **state)
{
    (void)state;
    struct prometheus p;
    ddp_error_t e;
    assert_int_equal(symlink("/etc/passwd", path), 0);
    prometheus_open(&p, path);
    assert_int_equal(save(&p, 1, 1, &e), -1);
    assert_error_has(e, "no regular file: name another");
    assert_int_equal(n_files(), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", temporary), 0); /* a stranger's, say: it is not followed */
    assert_int_equal(save(&p, 1, 1, &e), 0);
    assert_int_equal(n_files(), 1);
    prometheus_open(&p, "/nowhere/run.prom");
    assert_int_equal(save(&p, 1, 1, &e), -1);
    assert_error_has(e, "/nowhere/run.prom cannot be written (name a file in a folder that is there");
    prometheus_close(&p);
}

static void the_folder_stays_the_one_it_was_opened_in(void **state)
{
    (void)state;
    struct prometheus p;
    int before = open(".", O_RDONLY | O_DIRECTORY);
    assert_true(before >= 0 && chdir(folder) == 0);
    prometheus_open(&p, "run.prom");
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(save(&p, 1, 1, NULL), 0);
    assert_int_equal(save(&p, 1, 2, NULL), 0);
    prometheus_close(&p);
    char *text = text_of_file();
    assert_non_null(strstr(text, "\na{} 2\n"));
    free(text);
    assert_int_equal(n_files(), 1);
    assert_int_equal(fchdir(before), 0);
    close(before);
}

/* All samples of the file have the same number, and the last is whole. */
static void expect_one_text(int n_samples)
{
    char *text = text_of_file(), *p = strchr(text, 'a');
    double first = -1, x;
    int n = 0, at;
    p = strstr(text, "\na{}");
    assert_non_null(p);
    for (p++; *p; p += at, n++) {
        assert_int_equal(sscanf(p, "a{} %lf\n%n", &x, &at), 1);
        first = n ? first : x;
        assert_true(x == first);
    }
    assert_int_equal(n, n_samples);
    assert_int_equal(p[-1], '\n');
    free(text);
}

enum { N_SAMPLES = 4000, N_KILLS = 20 };

/* Whoever reads, and whenever the writer is killed: the text is one. */
static void a_killed_writer_leaves_a_whole_text(void **state)
{
    (void)state;
    struct prometheus p;
    for (int k = 0; k < N_KILLS; k++) {
        prometheus_open(&p, path);
        assert_int_equal(save(&p, N_SAMPLES, 0, NULL), 0);
        assert_int_equal(n_files(), 1);
        pid_t writer = fork();
        if (writer == 0) {
            int i = 1;
            while (save(&p, N_SAMPLES, i, NULL) == 0)
                i++;
            _exit(1);
        }
        assert_true(writer > 0);
        for (int i = 0; i <= k; i++)
            expect_one_text(N_SAMPLES);
        assert_int_equal(kill(writer, SIGKILL), 0);
        assert_int_equal(waitpid(writer, NULL, 0), writer);
        expect_one_text(N_SAMPLES);
        assert_true(n_files() <= 2);
        prometheus_close(&p);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(families_have_a_head_and_samples, make, clear),
    cmocka_unit_test_setup_teardown(a_label_is_whole_or_not_there, make, clear),
    cmocka_unit_test_setup_teardown(it_has_the_mode_that_the_umask_says, make, clear),
    cmocka_unit_test_setup_teardown(what_is_no_file_is_left_alone, make, clear),
    cmocka_unit_test_setup_teardown(the_folder_stays_the_one_it_was_opened_in, make, clear),
    cmocka_unit_test_setup_teardown(a_killed_writer_leaves_a_whole_text, make, clear),
};
UNIT_MAIN(tests)
