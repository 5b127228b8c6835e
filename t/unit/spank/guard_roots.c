/* Tasks of several nodes with their guards, of which the root's is lost: what the user, the record and the programs are
 * told by the next one. */
#include "config.h"
#include "t/unit/spank/guard_task.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"

enum { NODES = 4 }; /* of one task each; the last is a spare */

static char record[] = "/tmp/ddp-roots-XXXXXX", variable[sizeof record + 16], *environment[] = {variable, NULL};

static struct guards_facts of_node(int node)
{
    struct guards_facts f = task_on_node(node, NODES);
    f.is_whole = true;
    f.spares = 1;
    f.min_nodes = NODES - 1;
    f.restarts = 1;
    f.env = environment;
    snprintf(f.name, sizeof f.name, "n%d", node + 1);
    return f;
}

/* Rank 1's, when it is asked, so that the others have some seconds before they are killed: they do not mind SIGTERM. */
static int dies_or_waits(int out, void *arg)
{
    int *go = arg;
    char c = (char)('0' + task_restart);
    task_blocks_term();
    (void)!write(out, &c, 1);
    if (task_generation > 0)
        return 0;
    if (task_facts->rank == 1 && read(go[0], &c, 1) == 1)
        raise(SIGKILL);
    for (;;)
        pause();
}

/* Adds to text until it has the word. */
static void read_until(int fd, char *text, size_t size, const char *word)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t n = strlen(text);
    while (!strstr(text, word)) {
        ssize_t got = poll(&p, 1, 20000) == 1 ? read(fd, text + n, size - n - 1) : 0;
        if (got <= 0)
            fail_msg("no \"%s\" in \"%s\"", word, text);
        n += (size_t)got;
        text[n] = 0;
    }
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
        n++;
    return n;
}

static int count_in_record(const char *word)
{
    static char text[1 << 16];
    FILE *f = fopen(record, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return count(text, word);
}

/* A child of the guard's writes it. */
static void wait_for_failure(void)
{
    uint64_t until = deadline_in(20);
    while (count_in_record("\"event\": \"failure\"") == 0) {
        assert_true(deadline_left_ns(until) > 0);
        poll(NULL, 0, 10);
    }
}

/* Rank 1 dies, and, before the next generation has begun, the root's node. */
static void what_the_last_root_has_told_is_not_told_again(void **state)
{
    struct task t[NODES];
    int err[NODES], go[2];
    char c, said[NODES][2000] = {"", "", "", ""};
    (void)state;
    assert_true(task_draw_ports(NODES));
    assert_int_equal(pipe(go), 0);
    close(mkstemp(record));
    snprintf(variable, sizeof variable, "DDP_RECORD=%s", record);
    for (int i = 0; i < NODES; i++) {
        struct guards_facts f = of_node(i);
        task_facts = &f;
        t[i] = task_start_heard(dies_or_waits, go, &err[i]);
    }
    task_facts = &task_alone;
    for (int i = 0; i < NODES - 1; i++) {
        task_read(t[i], &c, 1);
        assert_int_equal(c, '0');
    }
    assert_int_equal(write(go[1], "g", 1), 1);
    read_until(err[0], said[0], sizeof *said, "rank 1 (n2) was killed by signal 9 (Killed) after 0 s: restart 1 of 1");
    wait_for_failure();
    kill(t[0].pid, SIGKILL);
    for (int i = 1; i < NODES; i++) {
        task_read(t[i], &c, 1); /* restarts so far, though the generation is the second that was to follow */
        assert_int_equal(c, '1');
    }
    read_until(err[1], said[1], sizeof *said, "restart 1 of 1: 127.0.0.1 takes the place of 127.0.0.1");
    for (int i = 0; i < NODES; i++)
        task_end(t[i]);
    assert_int_equal(count(said[1], "rank 1 "), 0);
    assert_int_equal(count_in_record("\"event\": \"failure\""), 1);
    assert_int_equal(count_in_record("\"event\": \"start\""), 2);
    assert_int_equal(count_in_record("\"restart\": 2"), 0);
    unlink(record);
    for (int i = 0; i < NODES; i++)
        close(err[i]);
    close(go[0]);
    close(go[1]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_the_last_root_has_told_is_not_told_again),
};

UNIT_MAIN(tests)
