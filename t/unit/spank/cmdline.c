/* What is found on srun's command line, and what is a program's own. */
#include "t/unit/unit.h"

#include "spank/cmdline.h"

/* Arguments joined by "|". */
static void expect_ddp(const char *line, const char *want)
{
    char args[512];
    size_t n = strlen(line) + 1;
    memcpy(args, line, n);
    for (size_t i = 0; i < n; i++)
        if (args[i] == '|')
            args[i] = 0;
    const char *got = cmdline_read(args, n).ddp;
    if ((got && want) ? strcmp(got, want) : got != want)
        fail_msg("%s: got %s, want %s", line, got ? got : "nothing", want ? want : "nothing");
}

static void option_is_found_on_the_command_line(void **state)
{
    (void)state;
    expect_ddp("srun|--ddp=on|./train", "on");
    expect_ddp("srun|--ddp|on,verbose|./train", "on,verbose");
    expect_ddp("srun|--dd=on|./train", "on");
    expect_ddp("srun|-n|4|-N2|--nodes|2|--ddp=x|a", "x");
    expect_ddp("srun|-n|4|./train|--ddp=on", NULL);
    expect_ddp("srun|-lO|--ddp=on|a", "on");
    expect_ddp("srun|--exclusive|./train|--ddp=on", NULL);
    expect_ddp("srun|--label|--ddp=on|./train", "on");
    expect_ddp("srun|--exact|--nodes=2|./train|--ddp=on", NULL);
    expect_ddp("srun|--ddp=on|--ddp=off|a", "off");
    expect_ddp("srun|-n1|a|:|-n2|--ddp=on|b", "on");
    expect_ddp("srun|--|./a|--ddp=on", NULL);
    expect_ddp("srun|--ddp", NULL);
    expect_ddp("srun|--ddpx=on|a", NULL);
    expect_ddp("srun", NULL);
    expect_ddp("srun|-K1|./train|--ddp=on", NULL);
    expect_ddp("srun|-I5|./train|--ddp=on", NULL);
    expect_ddp("srun|-lK0|./train|--ddp=on", NULL);
    expect_ddp("srun|--resv-ports|--ddp=on|./train", "on");
    expect_ddp("srun|--bcast|./train|--ddp=on", NULL);
    expect_ddp("srun|--async|--parsable|./train|--ddp=on", NULL);
    expect_ddp("srun|--external-launcher|./train|--ddp=on", NULL);
    expect_ddp("srun|--wait-for-children|./train|--ddp=on", NULL);
    assert_null(cmdline_read("", 0).ddp);
    assert_null(cmdline_read("srun", 4).ddp); /* not ended: not touched */
}

static void reserved_ports_are_found_on_the_command_line(void **state)
{
    (void)state;
    static const char with[] = "srun\0--resv-ports=3\0-n1\0a", flag[] = "srun\0-n\0" "4\0--resv\0a\0--ddp=on",
                      without[] = "srun\0--reservation=x\0--res\0y\0a\0--resv-ports";
    assert_string_equal(cmdline_read(with, sizeof with).resv_ports, "3");
    assert_string_equal(cmdline_read(flag, sizeof flag).resv_ports, "");
    assert_null(cmdline_read(flag, sizeof flag).ddp);
    assert_null(cmdline_read(without, sizeof without).resv_ports);
}

static void async_is_found_on_the_command_line(void **state)
{
    (void)state;
    static const char with[] = "srun\0--async\0--ddp=on\0a", after[] = "srun\0a\0--async";
    assert_non_null(cmdline_read(with, sizeof with).async);
    assert_string_equal(cmdline_read(with, sizeof with).ddp, "on");
    assert_null(cmdline_read(after, sizeof after).async);
}

static void mpi_is_found_on_the_command_line(void **state)
{
    (void)state;
    static const char with[] = "srun\0--mpi\0none\0a", without[] = "srun\0--mem=1\0--mail-type=END\0a\0--mpi=none";
    assert_string_equal(cmdline_read(with, sizeof with).mpi, "none");
    assert_null(cmdline_read(without, sizeof without).mpi);
}

static void cpu_bind_is_found_on_the_command_line(void **state)
{
    (void)state;
    static const char with[] = "srun\0-n2\0--cpu-bind\0none\0a", old[] = "srun\0--cpu_bind=cores\0a",
                      without[] = "srun\0--cpus-per-task\0" "2\0--cpu-freq=high\0--hint=nomultithread\0a\0--cpu-bind=x";
    assert_string_equal(cmdline_read(with, sizeof with).cpu_bind, "none");
    assert_string_equal(cmdline_read(old, sizeof old).cpu_bind, "cores");
    assert_null(cmdline_read(without, sizeof without).cpu_bind);
}

static void kill_on_bad_exit_is_found_on_the_command_line(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        size_t n;
        const char *want;
    } cases[] = {
#define CASE(text, want) {text, sizeof text, want}
        CASE("srun\0-K0\0a", "0"),       CASE("srun\0-n2\0-lK1\0a", "1"), CASE("srun\0-K\0a", ""),
        CASE("srun\0-l\0a\0-K0", NULL), CASE("srun\0-wK0\0a", NULL),      CASE("srun\0-IK0\0a", NULL),
        CASE("srun\0--kill-on-bad-exit\0" "0\0a", ""),
        CASE("srun\0--kill-on-bad-exit=0\0--ddp=on\0a", "0"),
        CASE("srun\0--kill=0\0a", "0"), CASE("srun\0--k\0a", ""), CASE("srun\0--no-kill\0a\0--kill=0", NULL),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = cmdline_read(cases[i].args, cases[i].n).kill_on_bad_exit;
        if (cases[i].want)
            assert_string_equal(got, cases[i].want);
        else
            assert_null(got);
    }
}

static void the_command_is_found(void **state)
{
    (void)state;
    static const char plain[] = "srun\0-n\0" "4\0--ddp=on\0orted\0-mca\0ess", dashes[] = "srun\0--\0./a\0b";
    static const char two[] = "srun\0-n1\0a\0:\0-n2\0b", none[] = "srun\0-n4", bare[] = "srun\0--";
    assert_string_equal(cmdline_read(plain, sizeof plain).command, "orted");
    assert_string_equal(cmdline_read(dashes, sizeof dashes).command, "./a");
    assert_string_equal(cmdline_read(two, sizeof two).command, "a");
    assert_null(cmdline_read(none, sizeof none).command);
    assert_null(cmdline_read(bare, sizeof bare).command);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(option_is_found_on_the_command_line),
    cmocka_unit_test(reserved_ports_are_found_on_the_command_line),
    cmocka_unit_test(async_is_found_on_the_command_line),
    cmocka_unit_test(mpi_is_found_on_the_command_line),
    cmocka_unit_test(cpu_bind_is_found_on_the_command_line),
    cmocka_unit_test(kill_on_bad_exit_is_found_on_the_command_line),
    cmocka_unit_test(the_command_is_found),
};
UNIT_MAIN(tests)
