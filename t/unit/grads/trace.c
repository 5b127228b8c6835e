/* What a trace says. */
#include "t/unit/unit.h"

#include <locale.h>

#include "runtime/grads/trace.h"
#include "t/lib/commas.h"
#include "t/lib/folder.h"

static void write_span(char *text, size_t size)
{
    struct trace t = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/trace", test_folder);
    assert_int_equal(trace_open(&t, path, 0, 1, NULL), 0);
    trace_span(&t, TRACE_STEP, "step", NULL, 1234567, 2234570);
    trace_instant(&t, TRACE_STEP, "mark", "w\"0\\1", 3234570);
    assert_int_equal(trace_flush(&t, NULL), 0);
    trace_close(&t);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
}

static void times_are_exact(void **state)
{
    (void)state;
    char text[4096];
    write_span(text, sizeof text);
    assert_non_null(strstr(text, "\"ts\":1234.567,"));
    assert_non_null(strstr(text, "\"dur\":1000.003}"));
}

static void a_parameter_may_have_any_name(void **state)
{
    (void)state;
    char text[4096];
    write_span(text, sizeof text);
    assert_non_null(strstr(text, "\"name\":\"mark w\\\"0\\\\1\","));
}

static void times_have_a_point_in_any_language(void **state)
{
    (void)state;
    char text[4096];
    unit_needs(commas_speak(), "a language that writes 1,5");
    write_span(text, sizeof text);
    setlocale(LC_NUMERIC, "C");
    assert_non_null(strstr(text, "\"ts\":1234.567,"));
    assert_non_null(strstr(text, "\"dur\":1000.003}"));
}

static void a_name_without_room_is_cut(void **state)
{
    (void)state;
    struct trace t = {0};
    char name[4 * sizeof t.path];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(trace_open(&t, name, 0, 1, NULL), -1); /* which the system refuses */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)
static const struct CMUnitTest tests[] = {
    CASE(times_are_exact),
    CASE(a_parameter_may_have_any_name),
    CASE(times_have_a_point_in_any_language),
    CASE(a_name_without_room_is_cut),
};
UNIT_MAIN(tests)
