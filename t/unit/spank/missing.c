/* A step of which not all tasks come: what one guard of it says, and whether the step is cancelled. */
#include "config.h"
#include "t/unit/spank/stopping.h"

#include <sys/wait.h>

static int find(const struct guards_facts *f, int node, char *ret_name, int ret_port[GUARDS_PORTS])
{
    (void)f;
    snprintf(ret_name, HOSTLIST_NAME_MAX + 1, "n%d", node + 1);
    memset(ret_port, 0, GUARDS_PORTS * sizeof *ret_port);
    return 0;
}

/* A step of which one task alone comes. */
static struct guards_facts not_whole(int nodes, int ranks)
{
    struct guards_facts f = facts_of(0);
    f.saves = false;
    f.stop = (struct stop_key){0};
    f.restarts = f.min_nodes = 1;
    f.is_elastic = f.is_whole = true;
    f.n_nodes = nodes;
    f.local_size = ranks;
    f.size = nodes * ranks;
    f.find = find;
    f.join_s = 0.1;
    return f;
}

/* srun would wait for tasks that have never been there, one of this node's among them. Slurm ends this guard, too: its
 * record is whole before. */
static void a_step_that_is_not_whole_is_cancelled(void **state)
{
    char text[512] = "", asked[256], record[160], look[256];
    char *with_record[] = {path_variable, record, NULL};
    struct guards_facts f = not_whole(2, 2);
    (void)state;
    f.env = with_record;
    snprintf(record, sizeof record, "DDP_RECORD=%s/record", test_folder);
    snprintf(look, sizeof look, "grep -o '\"event\": \"end\"' %s/record >>%s/asked\n", test_folder, test_folder);
    put_command("scancel", look, 0);
    struct task t = start(&f, sleeps);
    assert_int_equal(read_until(t, "3 tasks have not come, one of them on n2: ", text, sizeof text), 0);
    end(t);
    read_asked(asked, sizeof asked);
    assert_string_equal(asked, "12.3\n\"event\": \"end\"\n");
}

/* Nor is one by a part of few: most may go on. */
static void but_not_by_one_node_of_three(void **state)
{
    char text[512] = "", asked[256];
    struct guards_facts f = not_whole(3, 1);
    (void)state;
    put_command("scancel", "", 0);
    struct task t = start(&f, sleeps);
    assert_int_equal(read_until(t, "2 tasks have not come, one of them on n3: ", text, sizeof text), 0);
    assert_int_equal(read_until(t, ": this part of the step ends\n", text, sizeof text), 0);
    end(t);
    read_asked(asked, sizeof asked);
    assert_string_equal(asked, "");
}

/* Two causes, which look alike from here: ports, and a node with another plugin or none. */
static void who_cannot_be_reached_is_warned_of(void **state)
{
    static const char *const follows[] = {"nobody is told of a death there, unless those programs have ended already\n",
                                          "programs will not be started again\n"};
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        char text[512] = "";
        struct guards_facts f = facts_of(0);
        f.saves = f.ends_step = false;
        f.stop = (struct stop_key){0};
        f.restarts = restarts;
        f.is_whole = true;
        f.size = f.n_nodes = 2;
        f.find = find;
        f.join_s = 0.1;
        struct task t = start(&f, catches);
        assert_int_equal(read_until(t, follows[restarts], text, sizeof text), 0);
        assert_non_null(strstr(text, "1 of 2 guards cannot be reached ("));
        assert_non_null(strstr(text, "port_max, and the same slurm-ddp: ddp check says which node has another)"));
        kill(t.pid, SIGHUP);
        assert_int_equal(WEXITSTATUS(end(t)), 75);
    }
}

static const struct CMUnitTest tests[] = {
    WITH_FOLDER(a_step_that_is_not_whole_is_cancelled),
    WITH_FOLDER(but_not_by_one_node_of_three),
    cmocka_unit_test(who_cannot_be_reached_is_warned_of),
};

UNIT_MAIN(tests)
