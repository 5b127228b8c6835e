#include "t/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/step/moves.h"

static void one_line_says_who_goes_and_who_comes(void **state)
{
    static const struct move all[] = {{"n2", "n8"}, {"n10", ""}, {"n1", "n9"}, {"n3", ""}, {"login", ""}, {"n11", ""}};
    char text[MOVES_TEXT_MAX];
    (void)state;
    assert_string_equal(moves_text(all, 0, text), "");
    assert_string_equal(moves_text(all, 1, text), "n8 takes the place of n2");
    assert_string_equal(moves_text(all + 3, 1, text), "it goes on without n3");
    assert_string_equal(moves_text(all, 6, text), "n8 takes the place of n2, n9 takes the place of n1, it goes on "
                        "without login,n[3,10-11]");
}

/* Whatever the names are, it names whole nodes only, and counts the others. */
static void what_has_no_room_is_counted(void **state)
{
    enum { N = 200 };
    static struct move all[N];
    char text[MOVES_TEXT_MAX], *end;
    (void)state;
    for (int width = 1; width < HOSTLIST_NAME_MAX - 8; width += 7)
        for (int i = 0; i < N; i++) {
            snprintf(all[i].who, sizeof all[i].who, "%0*d-ib", width, i);
            snprintf(all[i].by, sizeof all[i].by, "s%0*d", width, i);
            if (i % 2)
                all[i].by[0] = 0;
            moves_text(all, (size_t)i + 1, text);
            size_t n_named = 0;
            for (const char *p = text; (p = strstr(p, " of ")); p++)
                n_named++;
            const char *list = strstr(text, "without ");
            for (const char *p = list; p; p = strstr(p + 1, "-ib,"))
                n_named += strncmp(p, "-ib, ", 5) != 0; /* which is the list's end */
            const char *more = strstr(text, ", and ");
            n_named += strtoul(more ? more + 6 : text, &end, 10) * (more || strstr(text, "nodes have left"));
            assert_int_equal(n_named, i + 1);
            assert_true(!more || !strcmp(end, " more have left"));
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_line_says_who_goes_and_who_comes),
    cmocka_unit_test(what_has_no_room_is_counted),
};
UNIT_MAIN(tests)
