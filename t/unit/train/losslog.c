/* The loss log: what stays of it when training goes on from a checkpoint. */
#include "t/unit/unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/losslog.h"

#define STEP(n) "{\"step\": " #n ", \"loss\": 2.5}\n"
#define VAL(n) "{\"step\": " #n ", \"val_loss\": 2.25}\n"
#define SKIP(n) "{\"step\": " #n ", \"loss\": 2.5, \"skipped\": true}\n"

static char path[32];

static int make_file(void **state)
{
    (void)state;
    strcpy(path, "/tmp/ddp-t.XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void put(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static uint64_t n_missing; /* as the last resume has it */
static uint64_t n_skipped; /* that the next resume's checkpoint holds behind its step */

/* What the file has after a resume from `step` and one more line. */
static void assert_resumes(const char *before, uint64_t step, bool drops_validation, const char *after, uint64_t last)
{
    ddp_error_t e;
    char has[4096] = "";
    uint64_t is_last = 77;
    put(before);
    FILE *f = losslog_open(path, &e);
    assert_non_null(f);
    assert_int_equal(losslog_resume(f, path, step, n_skipped, drops_validation, &is_last, &n_missing, &e), 0);
    fputs("more\n", f);
    FILE *other = fopen(path, "r"); /* the line is in the file, though it was not flushed */
    size_t n = fread(has, 1, sizeof has - 1, other);
    fclose(other);
    fclose(f);
    assert_true(n >= 5);
    assert_string_equal(has + n - 5, "more\n");
    has[n - 5] = 0;
    assert_string_equal(has, after);
    assert_int_equal(is_last, last);
}

static void steps_beyond_the_checkpoint_go(void **state)
{
    (void)state;
    assert_resumes(STEP(1) STEP(2) STEP(3), 2, false, STEP(1) STEP(2), 2);
    assert_resumes(STEP(1) STEP(2) STEP(3), 3, false, STEP(1) STEP(2) STEP(3), 3);
    assert_resumes(STEP(1), 0, false, "", 0);
    assert_resumes(STEP(9) STEP(10) STEP(11), 10, false, STEP(9) STEP(10), 10);
}

static void a_validation_stays_unless_it_comes_again(void **state)
{
    (void)state;
    assert_resumes(STEP(1) STEP(2) VAL(2) STEP(3) VAL(3), 2, false, STEP(1) STEP(2) VAL(2), 2);
    assert_resumes(STEP(1) STEP(2) VAL(2) STEP(3) VAL(3), 2, true, STEP(1) STEP(2), 2);
    assert_resumes(STEP(1) STEP(2) VAL(2) STEP(3) VAL(3), 3, true, STEP(1) STEP(2) VAL(2) STEP(3), 3);
}

/* A step that is skipped has the number of the one before. */
static void a_step_that_was_skipped_comes_again(void **state)
{
    (void)state;
    assert_resumes(STEP(1) STEP(2) SKIP(2) SKIP(2) STEP(3), 2, false, STEP(1) STEP(2), 2);
    assert_resumes(STEP(1) STEP(2) SKIP(2) STEP(3), 3, false, STEP(1) STEP(2) SKIP(2) STEP(3), 3);
    assert_resumes(SKIP(0) STEP(1) STEP(2), 1, false, SKIP(0) STEP(1), 1);
}

static void a_step_that_was_skipped_before_the_checkpoint_stays(void **state)
{
    (void)state;
    n_skipped = 2;
    assert_resumes(STEP(1) STEP(2) SKIP(2) SKIP(2) SKIP(2) STEP(3), 2, false, STEP(1) STEP(2) SKIP(2) SKIP(2), 2);
    assert_resumes(STEP(1) STEP(2) VAL(2) SKIP(2) SKIP(2) SKIP(2), 2, false, STEP(1) STEP(2) VAL(2) SKIP(2) SKIP(2), 2);
    assert_resumes(STEP(1) SKIP(1) SKIP(1) SKIP(1) STEP(2) SKIP(2), 2, false,
                   STEP(1) SKIP(1) SKIP(1) SKIP(1) STEP(2) SKIP(2), 2);
    assert_resumes(SKIP(0) SKIP(0) SKIP(0) STEP(1), 0, false, SKIP(0) SKIP(0), 0);
    n_skipped = 0;
}

static void what_is_no_line_ends_it(void **state)
{
    (void)state;
    assert_resumes(STEP(1) "{\"step\": 2, \"loss\": 2.", 2, false, STEP(1), 1);
    assert_resumes(STEP(1) "{\"step\": 2, \"loss\": 2.}", 2, false, STEP(1), 1);
    assert_resumes(STEP(1) "{\"step\": 2x}\n" STEP(2), 2, false, STEP(1), 1);
    assert_resumes(STEP(1) "{\"step\": }\n", 2, false, STEP(1), 1);
    assert_resumes(STEP(2) STEP(1), 2, false, STEP(2), 2);
    assert_resumes("text\n", 2, false, "", 0);
    assert_resumes("", 2, false, "", 0);
}

static void a_log_that_is_short_is_told(void **state)
{
    (void)state;
    assert_resumes(STEP(1) STEP(2), 5, false, STEP(1) STEP(2), 2);
    assert_int_equal(n_missing, 0);
}

static void a_hole_is_told(void **state)
{
    (void)state;
    assert_resumes(STEP(1) STEP(2) STEP(5) VAL(5) SKIP(5) STEP(6) STEP(8), 8, false,
                   STEP(1) STEP(2) STEP(5) VAL(5) SKIP(5) STEP(6) STEP(8), 8);
    assert_int_equal(n_missing, 3);
    assert_resumes(STEP(3) STEP(4), 4, false, STEP(3) STEP(4), 4); /* a log that begins with a resume */
    assert_int_equal(n_missing, 0);
}

static void what_cannot_be_written_is_told(void **state)
{
    (void)state;
    ddp_error_t e;
    FILE *f = losslog_open(path, &e), *full = losslog_open("/dev/full", &e);
    fputs(STEP(1), f);
    assert_int_equal(losslog_sync(f, &e), 0);
    assert_int_equal(losslog_sync(full, &e), 0);
    fputs(STEP(1), full);
    assert_int_equal(losslog_sync(full, &e), -1);
    assert_error_has(e, "--log-json: lines ");
    fclose(full);
    fclose(f);
}

static void it_begins_empty(void **state)
{
    (void)state;
    ddp_error_t e;
    put(STEP(1));
    FILE *f = losslog_open(path, &e);
    assert_int_equal(losslog_begin(f, path, &e), 0);
    fputs("x\n", f);
    assert_int_equal(ftello(f), 2);
    fclose(f);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 2);
}

static void what_is_no_file_stays(void **state)
{
    (void)state;
    ddp_error_t e;
    uint64_t last = 0;
    FILE *f = losslog_open("/dev/null", &e);
    assert_non_null(f);
    assert_int_equal(losslog_begin(f, "/dev/null", &e), 0);
    assert_int_equal(losslog_resume(f, "/dev/null", 7, 0, true, &last, &n_missing, &e), 0);
    assert_int_equal(losslog_sync(f, &e), 0);
    assert_int_equal(last, 7);
    fclose(f);
    assert_null(losslog_open("/nowhere/x", &e));
    assert_error_has(e, "/nowhere/x cannot be written: No such file");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps_beyond_the_checkpoint_go),
    cmocka_unit_test(a_validation_stays_unless_it_comes_again),
    cmocka_unit_test(a_step_that_was_skipped_comes_again),
    cmocka_unit_test(a_step_that_was_skipped_before_the_checkpoint_stays),
    cmocka_unit_test(what_is_no_line_ends_it),
    cmocka_unit_test(a_log_that_is_short_is_told),
    cmocka_unit_test(a_hole_is_told),
    cmocka_unit_test(what_cannot_be_written_is_told),
    cmocka_unit_test(it_begins_empty),
    cmocka_unit_test(what_is_no_file_stays),
};

int main(void)
{
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
