/* guardscale.c - the guards of a step of many nodes: whether they all come to know of a death, and start again, and how
 * long that takes. usage: guardscale NODES RANKS; a process for each guard, all on this machine's loopback. */
#include "config.h"
#include "t/unit/spank/members.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include "runtime/base/clock.h"

#define IDLE_S 5 /* that long it is measured what guards cost that have nothing to do */
#define WITHIN_S 100

static int nodes, ranks; /* on each */
static struct members m;
static bool is_dead[MEMBERS_MAX];
static struct death wanted; /* each hears of it */
static int generation;

static bool has_joined(const struct heard *h)
{
    return h->verdict.kind == DEATH_NONE;
}

static bool has_verdict(const struct heard *h)
{
    if (h->verdict.kind == DEATH_NONE)
        return false;
    if (h->verdict.kind != wanted.kind || h->verdict.rank != wanted.rank)
        fail_msg("heard: kind %d, rank %d", h->verdict.kind, h->verdict.rank);
    return true;
}

static bool has_begun(const struct heard *h)
{
    return h->generation == generation;
}

/* All who live say something that `is_it` accepts. */
static void all_say(const char *what, bool (*is_it)(const struct heard *))
{
    static struct pollfd p[MEMBERS_MAX];
    static double at[MEMBERS_MAX];
    uint64_t from = clock_ns(), until = deadline_in(WITHIN_S);
    int n = 0, left = 0;
    for (int r = 0; r < m.n; r++) {
        p[r] = (struct pollfd){.fd = is_dead[r] ? -1 : m.of[r].fd, .events = POLLIN};
        left += !is_dead[r];
    }
    while (left > 0 && poll(p, (nfds_t)m.n, deadline_left_ms(until)) > 0)
        for (int r = 0; r < m.n; r++) {
            struct heard h;
            if (p[r].fd < 0 || !p[r].revents)
                continue;
            if (!members_hears(&m, r, WITHIN_S, &h))
                fail_msg("%s: rank %d has ended", what, r);
            if (!is_it(&h))
                continue;
            at[n++] = (double)(clock_ns() - from) / 1e9;
            p[r].fd = -1;
            left--;
        }
    if (left > 0)
        fail_msg("%s: not %d of %d", what, left, n + left);
    printf("# %-30s %5d: the median after %.3f s, the last after %.3f\n", what, n, at[n / 2], at[n - 1]);
}

/* Processor time of all guards, nanoseconds. */
static double cpu_ns(void)
{
    double sum = 0;
    for (int r = 0; r < m.n; r++) {
        char path[32];
        double ns = 0;
        snprintf(path, sizeof path, "/proc/%d/schedstat", m.of[r].pid);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%lf", &ns), 1);
        fclose(file);
        sum += ns;
    }
    return sum;
}

static void idle(void)
{
    double before = cpu_ns();
    poll(NULL, 0, IDLE_S * 1000);
    printf("# %-30s %5d: %.4f of a core\n", "idle", m.n, (cpu_ns() - before) / 1e9 / IDLE_S);
}

static void next_generation(void)
{
    generation++;
    for (int r = 0; r < m.n; r++)
        if (!is_dead[r])
            members_tell(&m, r, DO_GONE);
    all_say("the next generation", has_begun);
}

static void lose_node(int node, const char *what)
{
    wanted = (struct death){.kind = DEATH_GONE, .rank = node * m.per_node};
    for (int r = node * m.per_node; r < (node + 1) * m.per_node; r++) {
        members_kill(&m, r);
        is_dead[r] = true;
    }
    all_say(what, has_verdict);
    next_generation();
}

static void every_guard_hears(void **state)
{
    (void)state;
    int victim = nodes * ranks / 2;
    m.restarts = 4;
    m.min_nodes = nodes - 2;
    members_set_up(&m, nodes, ranks);
    for (int r = 0; r < m.n; r++)
        members_start(&m, r);
    all_say("joined", has_joined);
    idle();

    wanted = (struct death){.kind = DEATH_ENDED, .rank = victim};
    members_tell(&m, victim, DO_FAIL_1);
    all_say("exit code 1", has_verdict);
    next_generation();
    lose_node(2, "a node in the midst is lost");
    lose_node(0, "rank 0's node is lost");

    /* ranks have moved up: the guards of the last node have others than at first */
    wanted = (struct death){.kind = DEATH_ENDED, .rank = m.n - 1};
    members_tell(&m, m.n - 1, DO_DIE);
    all_say("SIGKILL", has_verdict);
    members_end(&m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_guard_hears)};
    const struct rlimit files = {MEMBERS_MAX + 100, MEMBERS_MAX + 100};
    nodes = argc == 3 ? atoi(argv[1]) : 0;
    ranks = argc == 3 ? atoi(argv[2]) : 0;
    if (nodes < 4 || ranks < 1 || ranks > MEMBERS_MAX / nodes) {
        fprintf(stderr, "usage: guardscale NODES RANKS: from 4 nodes on, and up to %d ranks in all\n", MEMBERS_MAX);
        return 2;
    }
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        perror("guardscale: ulimit -n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
