/* What a program is called. */
#include "config.h"
#include "t/unit/unit.h"

#include "runtime/record/program.h"

static void a_program_is_called_by_its_first_words(void **state)
{
    static const struct {
        char *argv[6];
        const char *name;
    } cases[] = {
        {{"/opt/train"}, "train"},
        {{"./train", "--data", "x"}, "train"},
        {{"./train", "configs/large.json", "x"}, "train large.json"},
        {{"bash", "-c", "exec ./train"}, "bash"},
        {{"/usr/bin/python3", "/home/me/train.py", "--epochs", "3"}, "python3 train.py"},
        {{"python", "-u", "-OO", "train.py"}, "python train.py"},
        {{"python", "-m", "pkg.train", "x"}, "python pkg.train"},
        {{"python", "-um", "pkg"}, "python"},
        {{"python", "-c", "import this"}, "python"},
        {{"python", "-", "x"}, "python"},
        {{"python", "-u"}, "python"},
        {{"python", "-m"}, "python"},
        {{"train", ""}, "train"},
        {{NULL}, ""},
    };
    char name[PROGRAM_NAME_MAX + 1], longest[301];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int argc = 0;
        while (cases[i].argv[argc])
            argc++;
        program_name(argc, cases[i].argv, name);
        assert_string_equal(name, cases[i].name);
    }
    memset(longest, 'x', 300);
    longest[300] = 0;
    program_name(2, (char *[]){longest, longest}, name);
    assert_int_equal(strlen(name), 121);
}

static void this_process_knows_its_own(void **state)
{
    char name[PROGRAM_NAME_MAX + 1];
    (void)state;
    program_own_name(name);
    assert_string_equal(name, "program.t");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_program_is_called_by_its_first_words),
    cmocka_unit_test(this_process_knows_its_own),
};

UNIT_MAIN(tests)
