/* Which ends are failures, and how a death is put into words and sent. */
#include "config.h"
#include "t/unit/unit.h"

#include <signal.h>

#include "spank/guards/death.h"

#define EXIT(code) ((code) << 8)
#define CORE 0x80

static void what_somebody_wished_for_is_no_failure(void **state)
{
    static const int wished[] = {EXIT(0), EXIT(75), EXIT(143), EXIT(130), SIGTERM, SIGINT, SIGHUP};
    static const int failed[] = {EXIT(1), EXIT(15), EXIT(137), EXIT(255), SIGKILL, SIGSEGV, SIGABRT | CORE, SIGUSR1};
    (void)state;
    for (size_t i = 0; i < sizeof wished / sizeof *wished; i++)
        assert_false(death_is_failure(wished[i], 75));
    for (size_t i = 0; i < sizeof failed / sizeof *failed; i++)
        assert_true(death_is_failure(failed[i], 75));
    assert_true(death_is_failure(EXIT(75), 3) && !death_is_failure(EXIT(3), 3)); /* another stop_code */
}

static void a_signals_end_is_known_from_a_shell_too(void **state)
{
    (void)state;
    assert_true(death_is_by(SIGUSR1, SIGUSR1) && death_is_by(EXIT(138), SIGUSR1));
    assert_false(death_is_by(SIGUSR2, SIGUSR1) || death_is_by(EXIT(10), SIGUSR1) || death_is_by(EXIT(0), 0));
}

static void what_may_follow_from_another_death(void **state)
{
    static const int may[] = {EXIT(1), EXIT(255), EXIT(134), EXIT(143), SIGABRT | CORE, SIGPIPE},
                     may_not[] = {SIGKILL, SIGSEGV, SIGBUS, EXIT(137), EXIT(139), EXIT(135), EXIT(132), EXIT(136)};
    struct death d = {.kind = DEATH_ENDED};
    (void)state;
    for (size_t i = 0; i < sizeof may / sizeof *may; i++) {
        d.how = may[i];
        assert_true(death_may_follow(&d));
    }
    for (size_t i = 0; i < sizeof may_not / sizeof *may_not; i++) {
        d.how = may_not[i];
        assert_false(death_may_follow(&d));
    }
    assert_false(death_may_follow(&(struct death){.kind = DEATH_MEMORY, .how = SIGKILL}));
    assert_false(death_may_follow(&(struct death){.kind = DEATH_SHORT, .how = EXIT(1)}));
    assert_false(death_may_follow(&(struct death){.kind = DEATH_GUARD}));
    assert_false(death_may_follow(&(struct death){.kind = DEATH_STOPPED, .how = EXIT(138)}));
}

static void what_says_more_of_the_first_death(void **state)
{
    static const struct death signal = {.kind = DEATH_ENDED, .rank = 1, .how = SIGKILL},
                              code = {.kind = DEATH_ENDED, .rank = 2, .how = EXIT(1)},
                              other = {.kind = DEATH_ENDED, .rank = 3, .how = EXIT(3)},
                              told = {.kind = DEATH_TOLD, .rank = 3, .how = EXIT(1)},
                              is_short = {.kind = DEATH_SHORT, .rank = 4, .how = EXIT(1)},
                              told_of_it = {.kind = DEATH_TOLD, .rank = 4, .how = EXIT(1)};
    (void)state;
    assert_true(death_is_nearer(&is_short, &code) && death_is_nearer(&is_short, &told));
    assert_true(death_is_nearer(&is_short, &told_of_it) && death_is_nearer(&signal, &is_short));
    assert_false(death_is_nearer(&told_of_it, &is_short) || death_is_nearer(&code, &is_short));
    assert_true(death_is_nearer(&signal, &code) && death_is_nearer(&signal, &told));
    assert_true(death_is_nearer(&told, &code) && death_is_nearer(&other, &told));
    assert_false(death_is_nearer(&told, &other) || death_is_nearer(&told, &signal) || death_is_nearer(&told, &told));
    assert_false(death_is_nearer(&code, &told) || death_is_nearer(&other, &code));
}

/* Of the program, or of what a shell ran as such, or of another process; what ended otherwise did not end by that. */
static void want_of_memory_ends_a_program_or_what_it_has_started(void **state)
{
    static const struct {
        enum death_kind kind;
        int how;
        enum death_kind want;
    } cases[] = {
        {DEATH_ENDED, SIGKILL, DEATH_MEMORY},      {DEATH_ENDED, EXIT(137), DEATH_MEMORY},
        {DEATH_ENDED, EXIT(1), DEATH_SHORT},       {DEATH_ENDED, SIGABRT | CORE, DEATH_SHORT},
        {DEATH_ENDED, SIGSEGV, DEATH_ENDED},       {DEATH_STOPPED, EXIT(138), DEATH_STOPPED},
        {DEATH_STOPPED, SIGUSR1, DEATH_STOPPED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct death d = {.kind = cases[i].kind, .how = cases[i].how};
        death_take_memory(&d);
        assert_int_equal(d.kind, cases[i].want);
    }
}

static void a_death_is_one_sentence(void **state)
{
    static const struct {
        struct death death;
        const char *says;
    } cases[] = {
        {{DEATH_ENDED, 3, EXIT(2), 12, 0, 0, "n2", "", 0, false, 0}, "rank 3 (n2) exited with code 2 after 12 s"},
        {{DEATH_ENDED, 0, SIGKILL, 0, 0, 0, "n1", "", 0, false, 0},
         "rank 0 (n1) was killed by signal 9 (Killed) after 0 s"},
        {{DEATH_ENDED, 1, SIGABRT | CORE, 7, 0, 0, "n1", "", 0, false, 0},
         "rank 1 (n1) was killed by signal 6 (Aborted) and left a core"},
        {{DEATH_MEMORY, 5, SIGKILL, 90, 0, 0, "n3", "", 0, false, 0},
         "rank 5 (n3) was killed: its control group is out of memory (ask for"},
        {{DEATH_SHORT, 5, EXIT(1), 90, 2, 3, "n3", "", 0, false, 1},
         "rank 5 (n3) exited with code 1 after 90 s: its control group is out of memory (ask for more: --mem, "
         "--mem-per-cpu), and another process of it had been killed: restart 1 of 3"},
        {{DEATH_GUARD, 5, 0, 0, 0, 0, "n3", "", 0, false, 0},
         "rank 5 (n3) was killed together with its guard (out of memory, perhaps)"},
        {{DEATH_GONE, 4, 0, 0, 0, 0, "n4", "", 0, false, 0},
         "node n4 (rank 4) has gone: a guard or slurmstepd there was killed (ou"},
        {{.kind = DEATH_ABSENT, .rank = 4, .node = "n4"},
         "node n4 (rank 4) has not come: no task could start there, or it cannot be reached (port_min to port_max)"},
        {{DEATH_BUSY, 3, 7, 12, 0, 0, "n2", "", 0, false, 0},
         "rank 3 (n2) had computed for 7 s while all others waited"},
        {{DEATH_IDLE, -1, 7, 0, 0, 0, "", "", 0, false, 0}, "all ranks had waited for 7 s"},
        {{DEATH_ENDED, 3, EXIT(2), 12, 2, 3, "n2", "", 0, false, 1},
         "rank 3 (n2) exited with code 2 after 12 s: restart 1 of 3"},
        {{DEATH_ENDED, 3, EXIT(2), 1, 0, 3, "n2", "", 0, false, 0},
         "rank 3 (n2) exited with code 2 after 1 s, soon after its start"},
        {{DEATH_STOPPED, 3, SIGUSR1, 2, 0, 0, "n2", "", 0, false, 0},
         "rank 3 (n2) was ended by SIGUSR1, the stop's signal, which it did not catch, after 2 s"},
        {{DEATH_STOPPED, 3, EXIT(138), 2, 1, 0, "n2", "", 0, false, 0},
         "rank 3 (n2) was ended by SIGUSR1, the stop's signal, which"},
        {{DEATH_TOLD, 3, EXIT(1), 9, 0, 0, "n1", "rank 3 (n2) left", 0, false, 0}, "rank 3 (n2) left"},
        {{DEATH_MISSING, 0, 2, 0, 0, 0, "n2", "", 0, false, 0},
         "2 tasks have not come, one of them on n2: they could not start, or nodes cannot reach each other (po"},
        {{DEATH_MISSING, 0, 1, 0, 0, 0, "", "", 0, false, 0},
         "1 task has not come: it could not start, or nodes cannot reach each other (port_min to port_max) or do not "
         "have the same slurm-ddp (ddp check says which)"},
        {{DEATH_STUCK, 3, 0, 0, 0, 0, "n2", "", 0, false, 0},
         "no restart: a program on n2 (rank 3, perhaps) does not end by SIGKILL"},
        {{DEATH_SILENT, 4, 3, 0, 0, 0, "n4", "", 0, false, 0},
         "node n4 (rank 4) has been silent for 3 s: it is down, or the network to it"},
        {{DEATH_SILENT, 4, 3, 0, 0, 0, "n4", "n1", 0, false, 0},
         "node n4 (rank 4) has been silent for 3 s to node n1: it is down, or the network to it"},
        {{DEATH_DEAF, 4, 3, 0, 0, 0, "n4", "", 0, false, 0},
         "node n4 (rank 4) has heard no other node for 3 s: its network is down, or one way of it"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        unsigned char bytes[DEATH_BYTES];
        struct death got;
        death_pack(&cases[i].death, bytes);
        death_unpack(bytes, &got);
        if (strncmp(death_say(&got, text, sizeof text), cases[i].says, strlen(cases[i].says)))
            fail_msg("\"%s\", not \"%s\"", text, cases[i].says);
        assert_null(strchr(text, '\n'));
    }
}

static void a_restart_that_may_not_follow_is_not_said(void **state)
{
    struct death d = {.kind = DEATH_ENDED, .rank = 3, .how = EXIT(2), .next = 1, .restart = 1, .node = "n2"};
    char text[512];
    (void)state;
    assert_string_equal(death_say(&d, text, sizeof text), "rank 3 (n2) exited with code 2 after 0 s");
    d.of = 2;
    assert_string_equal(death_say(&d, text, sizeof text), "rank 3 (n2) exited with code 2 after 0 s: restart 1 of 2");
}

static void a_name_on_the_way_is_cut_and_made_plain(void **state)
{
    struct death d = {.kind = DEATH_SILENT}, got;
    unsigned char bytes[DEATH_BYTES];
    (void)state;
    memset(d.node, 'n', HOSTLIST_NAME_MAX);
    death_pack(&d, bytes);
    death_unpack(bytes, &got);
    assert_int_equal(strlen(got.node), 63);
    memset(bytes + 32, '\x1b', DEATH_BYTES - 32);
    death_unpack(bytes, &got);
    assert_int_equal(strlen(got.text), DEATH_TEXT_MAX);
    assert_null(strchr(got.node, '\x1b'));
    assert_null(strchr(got.text, '\x1b'));
}

static void whose_node_and_how_sure_arrive_too(void **state)
{
    struct death d = {.kind = DEATH_GONE, .at = 9999, .is_certain = true}, got;
    unsigned char bytes[DEATH_BYTES];
    (void)state;
    death_pack(&d, bytes);
    death_unpack(bytes, &got);
    assert_int_equal(got.at, 9999);
    assert_true(got.is_certain && death_is_nodes(&got));
    got.kind = DEATH_ENDED;
    assert_false(death_is_nodes(&got));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_somebody_wished_for_is_no_failure),
    cmocka_unit_test(a_signals_end_is_known_from_a_shell_too),
    cmocka_unit_test(what_may_follow_from_another_death),
    cmocka_unit_test(what_says_more_of_the_first_death),
    cmocka_unit_test(want_of_memory_ends_a_program_or_what_it_has_started),
    cmocka_unit_test(a_death_is_one_sentence),
    cmocka_unit_test(whose_node_and_how_sure_arrive_too),
    cmocka_unit_test(a_restart_that_may_not_follow_is_not_said),
    cmocka_unit_test(a_name_on_the_way_is_cut_and_made_plain),
};

UNIT_MAIN(tests)
