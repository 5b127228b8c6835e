/* The guards of a step, each in a process of its own as on the cluster, over real sockets: who hears of whose death,
 * and who tells the user. Nodes are those of the facts; they share this host's loopback address. */
#include "config.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/frame.h"
#include "runtime/base/io.h"
#include "spank/guards.h"
#include "spank/port.h"

enum { MEMBERS_MAX = 80 };
#define EXIT(code) ((code) << 8)

/* What the test tells a member. */
enum { DO_FAIL_1 = 1, DO_FAIL_2, DO_DIE, DO_FINISH, DO_GONE, DO_CARD, DO_EXPECT_END };

struct member {
    pid_t pid;
    int fd; /* to and from it */
};

struct heard {
    struct death verdict;
    bool is_ours;
    int generation;
    char card[16];
};

static struct member members[MEMBERS_MAX];
static int n_members, per_node, restarts;
static double join_s = GUARDS_JOIN_S, stuck_s = GUARDS_STUCK_S;
static char token[GUARDS_TOKEN_LEN + 1];
static int base_port;

static int first_port(int node)
{
    return base_port + node * 4;
}

static struct guards_facts facts_of(int rank)
{
    struct guards_facts f = {.rank = rank, .size = n_members, .restarts = restarts, .local_rank = rank % per_node,
                             .join_s = join_s, .stuck_s = stuck_s,
                             .local_size = per_node, .node = rank / per_node, .n_nodes = n_members / per_node};
    snprintf(f.name, sizeof f.name, "n%d", f.node + 1);
    strcpy(f.token, token);
    if (f.node > 0)
        strcpy(f.above, "127.0.0.1");
    for (int i = 0; i < GUARDS_PORTS; i++) { /* they overlap: nodes find others' guards there */
        f.port[i] = first_port(f.node) + i;
        f.port_above[i] = f.node > 0 ? first_port((f.node - 1) / GUARDS_FAN) + i : 0;
    }
    return f;
}

static void obey(guards_t *g, int order, int rank)
{
    struct death d = {.kind = DEATH_ENDED, .rank = rank, .how = order == DO_DIE ? SIGKILL : EXIT(order)};
    snprintf(d.node, sizeof d.node, "n%d", rank / per_node + 1);
    if (order == DO_FINISH)
        guards_finish(g);
    else if (order == DO_GONE)
        guards_gone(g);
    else if (order == DO_CARD)
        guards_tell_card(g, "card");
    else if (order == DO_EXPECT_END)
        guards_expect_end(g);
    else
        guards_report(g, &d);
}

static _Noreturn void be_member(int rank, int fd)
{
    struct guards_facts f = facts_of(rank);
    guards_t *g = guards_open(&f);
    bool is_told = false, is_joined = false, has_card = false;
    int generation = 0, next = 0;
    for (;;) {
        struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = guards_fd(g), .events = POLLIN}};
        unsigned char order;
        struct heard h = {.is_ours = false};
        poll(p, 2, guards_wait_ms(g));
        if (p[0].revents && read(fd, &order, 1) != 1)
            _exit(0);
        if (p[0].revents)
            obey(g, order, rank);
        guards_step(g);
        if (!is_joined && guards_is_joined(g)) {
            is_joined = true;
            (void)!write(fd, &h, sizeof h);
        }
        if (guards_generation(g) != generation) {
            generation = h.generation = guards_generation(g);
            is_told = has_card = false;
            (void)!write(fd, &h, sizeof h);
        }
        if (*guards_card(g) && !has_card) {
            has_card = true;
            strcpy(h.card, guards_card(g));
            (void)!write(fd, &h, sizeof h);
            h.card[0] = 0;
        }
        const struct death *d = guards_verdict(g, &h.is_ours);
        if (d && (!is_told || d->next != next)) {
            is_told = true;
            next = d->next;
            h.verdict = *d;
            (void)!write(fd, &h, sizeof h);
        }
        if (guards_is_free(g)) {
            guards_leave(g);
            _exit(7);
        }
    }
}

static void start(int rank)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    members[rank].pid = fork();
    if (members[rank].pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < n_members; i++)
            if (members[i].pid > 0)
                close(members[i].fd);
        close(pair[0]);
        be_member(rank, pair[1]);
    }
    close(pair[1]);
    members[rank].fd = pair[0];
}

static void set_up(int nodes, int ranks)
{
    ddp_error_t e;
    uint32_t draw;
    n_members = nodes * ranks;
    per_node = ranks;
    memset(members, 0, sizeof members);
    assert_int_equal(io_random_hex(token, GUARDS_TOKEN_LEN / 2, &e), 0);
    assert_int_equal(io_random(&draw, sizeof draw, &e), 0);
    base_port = 20000 + (int)(draw % 9000);
}

static void tell(int rank, int order)
{
    unsigned char c = (unsigned char)order;
    assert_int_equal(write(members[rank].fd, &c, 1), 1);
}

static bool hears(int rank, double seconds, struct heard *ret)
{
    ddp_error_t e;
    return io_recv_all(members[rank].fd, ret, sizeof *ret, deadline_in(seconds), "a member", &e) == 0;
}

static void wait_joined(int rank)
{
    struct heard h;
    if (!hears(rank, 20, &h) || h.verdict.kind != DEATH_NONE)
        fail_msg("rank %d has not joined", rank);
}

/* When it returns all have joined. */
static void start_all(int nodes, int ranks)
{
    set_up(nodes, ranks);
    for (int r = n_members - 1; r >= 0; r--) /* who is below first */
        start(r);
    for (int r = 0; r < n_members; r++)
        wait_joined(r);
}

static void end_all(void)
{
    for (int r = 0; r < n_members; r++) {
        close(members[r].fd);
        kill(members[r].pid, SIGKILL);
        waitpid(members[r].pid, NULL, 0);
    }
}

/* All but `dead` hear of the same; one of them, `teller`, tells the user. */
static void all_hear(int dead, enum death_kind kind, int rank, int how, int teller)
{
    int n_ours = 0;
    for (int r = 0; r < n_members; r++) {
        struct heard h;
        if (r == dead)
            continue;
        if (!hears(r, 20, &h))
            fail_msg("rank %d has heard nothing", r);
        if (h.verdict.kind != kind || h.verdict.rank != rank || (kind == DEATH_ENDED && h.verdict.how != how))
            fail_msg("rank %d has heard: kind %d, rank %d, %d", r, h.verdict.kind, h.verdict.rank, h.verdict.how);
        n_ours += h.is_ours;
        assert_true(!h.is_ours || r == teller);
    }
    assert_int_equal(n_ours, 1);
}

static void one_death_is_told_to_all_and_said_once(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        start_all(3, 2);
        tell(k, DO_DIE);
        all_hear(-1, DEATH_ENDED, k, SIGKILL, 0);
        end_all();
    }
}

/* Three levels: 40 nodes, of which seven are not below the root itself. */
static void a_tree_of_three_levels(void **state)
{
    (void)state;
    start_all(40, 1);
    tell(39, DO_FAIL_2);
    all_hear(-1, DEATH_ENDED, 39, EXIT(2), 0);
    end_all();
}

static void a_signal_goes_before_the_exit_codes_that_follow_from_it(void **state)
{
    struct heard h;
    (void)state;
    for (int k = 0; k < 5; k++) {
        start_all(2, 2);
        tell(0, DO_FAIL_1);
        tell(3, DO_DIE);
        assert_true(hears(1, 20, &h));
        assert_int_equal(h.verdict.kind, DEATH_ENDED);
        end_all();
    }
    start_all(1, 2); /* both at the root within the time: */
    tell(0, DO_FAIL_1);
    tell(1, DO_DIE);
    all_hear(-1, DEATH_ENDED, 1, SIGKILL, 0);
    end_all();
}

static void a_guard_that_is_killed_is_a_death(void **state)
{
    (void)state;
    const struct {
        int nodes, ranks, victim;
        enum death_kind kind;
        int teller;
    } cases[] = {
        {1, 3, 2, DEATH_GUARD, 0}, /* one of the node's */
        {1, 3, 0, DEATH_GUARD, 1}, /* the root; the first of those below says it */
        {2, 2, 1, DEATH_GUARD, 0},
        {2, 1, 1, DEATH_GONE, 0}, /* another node's leader */
        {2, 1, 0, DEATH_GONE, 1}, /* the root, seen from another node */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start_all(cases[i].nodes, cases[i].ranks);
        kill(members[cases[i].victim].pid, SIGKILL);
        all_hear(cases[i].victim, cases[i].kind, cases[i].victim, 0, cases[i].teller);
        end_all();
    }
}

/* A guard whose node is above, and does not answer. */
static void silence_is_found_and_named(void **state)
{
    (void)state;
    start_all(3, 1);
    kill(members[2].pid, SIGSTOP);
    struct heard h;
    for (int r = 0; r < 2; r++) {
        assert_true(hears(r, 20, &h));
        assert_int_equal(h.verdict.kind, DEATH_SILENT);
        assert_int_equal(h.verdict.rank, 2);
        assert_string_equal(h.verdict.node, "n3");
        assert_int_equal(h.is_ours, r == 0);
    }
    end_all();
}

/* All stop together, as when the step is suspended, longer than silence may last; then they go on, and one dies. */
static void a_step_that_was_suspended_blames_nobody(void **state)
{
    (void)state;
    start_all(3, 1);
    for (int r = 0; r < 3; r++)
        kill(members[r].pid, SIGSTOP);
    struct pollfd none = {.fd = -1};
    poll(&none, 1, (GUARDS_SILENT_S + 2) * 1000); /* this much time must pass: it is what is tested */
    for (int r = 0; r < 3; r++)
        kill(members[r].pid, SIGCONT);
    tell(2, DO_FAIL_1);
    all_hear(-1, DEATH_ENDED, 2, EXIT(1), 0);
    end_all();
}

/* Who has finished goes; a leader stays for those below. */
static void a_leader_stays_until_those_below_have_finished(void **state)
{
    int status;
    (void)state;
    start_all(2, 2);
    for (int r = 0; r < 3; r++)
        tell(r, DO_FINISH);
    assert_int_equal(waitpid(members[1].pid, &status, 0), members[1].pid);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(waitpid(members[0].pid, &status, WNOHANG), 0);
    assert_int_equal(waitpid(members[2].pid, &status, WNOHANG), 0);
    tell(3, DO_FINISH);
    for (int r = 0; r < 4; r++)
        if (r != 1) {
            struct heard h;
            assert_false(hears(r, 20, &h)); /* nobody has heard of a death: the end */
            assert_int_equal(waitpid(members[r].pid, &status, 0), members[r].pid);
            assert_int_equal(WEXITSTATUS(status), 7);
        }
    n_members = 0;
}

static void all_hear_generation(int generation)
{
    for (int r = 0; r < n_members; r++) {
        struct heard h;
        assert_true(hears(r, 20, &h));
        assert_int_equal(h.generation, generation);
        assert_int_equal(h.verdict.kind, DEATH_NONE);
    }
}

static void all_hear_next(int next, enum death_kind kind, int rank)
{
    for (int r = 0; r < n_members; r++) {
        struct heard h;
        assert_true(hears(r, 20, &h));
        assert_int_equal(h.verdict.kind, kind);
        assert_int_equal(h.verdict.rank, rank);
        assert_int_equal(h.verdict.next, next);
        assert_int_equal(h.verdict.of, 2);
        assert_int_equal(h.is_ours, r == 0);
    }
}

/* The next generation begins when nothing is left of this one on any node, and has a card of its own. */
static void a_death_begins_the_next_generation(void **state)
{
    (void)state;
    restarts = 2;
    start_all(3, 2);
    for (int generation = 1; generation <= 2; generation++) {
        struct heard h;
        tell(0, DO_CARD);
        for (int r = 0; r < n_members; r++) {
            assert_true(hears(r, 20, &h));
            assert_string_equal(h.card, "card");
        }
        tell(generation, DO_DIE);
        all_hear_next(generation, DEATH_ENDED, generation);
        for (int r = n_members - 1; r > 0; r--)
            tell(r, DO_GONE);
        assert_false(hears(n_members - 1, 0.2, &h)); /* one is still there */
        tell(0, DO_GONE);
        all_hear_generation(generation);
    }
    tell(5, DO_DIE);
    for (int r = 0; r < n_members; r++) {
        struct heard h;
        assert_true(hears(r, 20, &h));
        assert_int_equal(h.verdict.next, 0); /* as often as was allowed */
    }
    end_all();
    restarts = 0;
}

static void a_rank_that_dies_again_and_again_ends_the_step(void **state)
{
    struct heard h;
    (void)state;
    restarts = 100;
    start_all(2, 1);
    for (int generation = 1;; generation++) {
        tell(1, DO_DIE);
        for (int r = 0; r < 2; r++)
            assert_true(hears(r, 20, &h));
        if (!h.verdict.next)
            break;
        assert_true(generation < GUARDS_LOOP_N);
        tell(0, DO_GONE);
        tell(1, DO_GONE);
        all_hear_generation(generation);
    }
    assert_int_equal(h.verdict.of, GUARDS_LOOP_N);
    end_all();
    restarts = 0;
}

/* A guard or a node cannot be started again; nor is a step that was asked to end. */
static void what_no_generation_follows(void **state)
{
    struct heard h;
    (void)state;
    restarts = 2;
    start_all(2, 2);
    kill(members[3].pid, SIGKILL);
    all_hear(3, DEATH_GUARD, 3, 0, 0);
    end_all();
    start_all(2, 1);
    tell(1, DO_DIE);
    all_hear_next(1, DEATH_ENDED, 1);
    kill(members[1].pid, SIGKILL); /* while it is about to follow */
    assert_true(hears(0, 20, &h));
    assert_int_equal(h.verdict.kind, DEATH_GONE);
    assert_int_equal(h.verdict.next, 0);
    end_all();
    start_all(2, 1);
    tell(1, DO_EXPECT_END);
    tell(1, DO_FINISH);
    assert_false(hears(1, 20, &h)); /* it leaves, and waits for nobody */
    tell(0, DO_DIE);
    assert_true(hears(0, 20, &h));
    assert_int_equal(h.verdict.next, 0);
    end_all();
    restarts = 0;
}

/* Who has finished may be needed again, until all have. */
static void with_restarts_all_stay_until_all_have_finished(void **state)
{
    int status;
    struct heard h;
    (void)state;
    restarts = 2;
    start_all(2, 2);
    for (int r = 0; r < 3; r++)
        tell(r, DO_FINISH);
    for (int r = 0; r < 3; r++)
        assert_false(waitpid(members[r].pid, &status, WNOHANG));
    tell(3, DO_DIE);
    all_hear_next(1, DEATH_ENDED, 3);
    for (int r = 0; r < 4; r++)
        tell(r, DO_GONE);
    all_hear_generation(1);
    for (int r = 0; r < 4; r++)
        tell(r, DO_FINISH);
    for (int r = 0; r < 4; r++) {
        assert_false(hears(r, 20, &h));
        assert_int_equal(waitpid(members[r].pid, &status, 0), members[r].pid);
        assert_int_equal(WEXITSTATUS(status), 7);
    }
    n_members = restarts = 0;
}

/* A guard that never joins: the others do not wait for it for ever. */
static void who_never_joins_is_not_waited_for(void **state)
{
    int status;
    struct heard h;
    (void)state;
    restarts = 2;
    join_s = 0.5;
    set_up(2, 1);
    start(0);
    wait_joined(0);
    tell(0, DO_FINISH);
    assert_false(hears(0, 20, &h));
    assert_int_equal(waitpid(members[0].pid, &status, 0), members[0].pid);
    assert_int_equal(WEXITSTATUS(status), 7);
    close(members[0].fd);
    restarts = 0;
    join_s = GUARDS_JOIN_S;
}

/* Nor a program that does not go: its node is named. */
static void who_does_not_go_ends_the_step(void **state)
{
    (void)state;
    restarts = 2;
    stuck_s = 0.5;
    start_all(2, 2);
    tell(0, DO_DIE);
    all_hear_next(1, DEATH_ENDED, 0);
    for (int r = 0; r < 3; r++)
        tell(r, DO_GONE);
    for (int r = 0; r < 4; r++) {
        struct heard h;
        assert_true(hears(r, 20, &h));
        assert_int_equal(h.verdict.kind, DEATH_STUCK);
        assert_int_equal(h.verdict.next, 0);
        assert_string_equal(h.verdict.node, "n2");
        assert_int_equal(h.is_ours, r == 0);
    }
    end_all();
    restarts = 0;
    stuck_s = GUARDS_STUCK_S;
}

/* A death that comes before the guard above is there. */
static void who_comes_late_is_told(void **state)
{
    struct heard h;
    (void)state;
    set_up(2, 1);
    start(1);
    tell(1, DO_DIE);
    start(0);
    wait_joined(0);
    assert_true(hears(0, 20, &h));
    assert_int_equal(h.verdict.rank, 1);
    end_all();
}

/* Nobody is above, and nobody comes: the death is told within the time for a report. */
static void without_a_guard_above_it_decides_itself(void **state)
{
    struct heard h;
    (void)state;
    set_up(2, 1);
    start(1);
    tell(1, DO_DIE);
    assert_true(hears(1, 20, &h));
    assert_true(h.is_ours);
    assert_int_equal(h.verdict.rank, 1);
    close(members[1].fd);
    kill(members[1].pid, SIGKILL);
    waitpid(members[1].pid, NULL, 0);
}

/* As a guard of node 1 whose patience ends before the one above has looked. */
static void ask_and_give_up(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    enum { SECRET = (GUARDS_TOKEN_LEN - 16) / 2 };
    char head[SECRET + 8 + 64] = "";
    memcpy(head, token + 16, SECRET);
    head[SECRET] = head[SECRET + 4] = 1; /* rank and node */
    a.sin_port = htons((uint16_t)first_port(0));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(send(fd, head, sizeof head, MSG_NOSIGNAL), sizeof head);
    close(fd);
}

/* Who listens where the guard above should, and knows no token, is not believed. */
static void a_stranger_above_is_not_believed(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char head[200];
    struct heard h;
    unsigned char m[DEATH_BYTES];
    (void)state;
    set_up(2, 1);
    a.sin_port = htons((uint16_t)first_port(0));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    start(1);
    int c = accept(fd, NULL, NULL);
    assert_true(recv(c, head, sizeof head, 0) > 0);
    assert_null(memmem(head, sizeof head, token + 40, GUARDS_TOKEN_LEN - 40)); /* nor told all of it */
    death_pack(&(struct death){.kind = DEATH_ENDED, .rank = 0, .how = SIGKILL}, m);
    for (int what = 0; what < 10; what++)
        frame_send(c, what, m, sizeof m);
    assert_false(hears(1, 0.5, &h));
    close(c);
    close(fd);
    close(members[1].fd);
    kill(members[1].pid, SIGKILL);
    waitpid(members[1].pid, NULL, 0);
}

/* Without the token nobody gets in, and nobody who is in is harmed. */
static void strangers_are_turned_away(void **state)
{
    struct heard h;
    (void)state;
    start_all(2, 1);
    for (int k = 0; k < 300; k++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        char junk[200];
        memset(junk, 'x', sizeof junk);
        a.sin_port = htons((uint16_t)first_port(0));
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
            (void)!send(fd, junk, (size_t)(k % 200), MSG_NOSIGNAL);
        close(fd);
    }
    for (int k = 0; k < 3; k++) /* nor is one who knows the token, and gives up before it is let in, a death */
        ask_and_give_up();
    assert_false(hears(0, 0.5, &h)); /* longer than a loss takes to become a death */
    tell(1, DO_FAIL_2);
    for (int r = 0; r < 2; r++) {
        assert_true(hears(r, 20, &h));
        assert_int_equal(h.verdict.rank, 1);
        assert_int_equal(h.verdict.kind, DEATH_ENDED);
    }
    end_all();
}

/* ---- the places ---- */

static const char *users_port, *option = "on";

static const char *lookup(const char *name, void *arg)
{
    const char *const *list = arg;
    if (!strcmp(name, "SLURM_STEP_NODELIST"))
        return list[0];
    if (!strcmp(name, "MASTER_PORT"))
        return users_port;
    return strcmp(name, GUARDS_VARIABLE) ? NULL : list[1];
}

static const struct keys *small; /* a site's keys with a small range of ports; NULL: the defaults hold */

static struct guards_facts plan(int node, const char *first, int own)
{
    static const char secret[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const char *vars[] = {"n[1-70]", secret};
    struct step s = {.rank = node, .node = node, .n_nodes = 70, .local_size = 1, .job = 7};
    struct keys o;
    struct guards_facts f;
    ddp_error_t e = {0};
    strcpy(s.master, first);
    assert_int_equal(keys_resolve(option, lookup, vars, small, &o, &e), 0);
    if (guards_plan(&s, &o, own, lookup, vars, &f, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(f.token, secret);
    return f;
}

static void every_node_finds_the_one_above(void **state)
{
    (void)state;
    assert_string_equal(plan(0, "n1", 70).above, "");
    assert_string_equal(plan(1, "n1", 70).above, "n1");
    assert_string_equal(plan(32, "n1", 70).above, "n1");
    assert_string_equal(plan(33, "n1", 70).above, "n2");
    assert_string_equal(plan(69, "n1", 70).above, "n3");
    /* rank 0 on n3: nodes are n3, n1, n2, n4 ... */
    assert_string_equal(plan(1, "n3", 70).above, "n3");
    assert_string_equal(plan(33, "n3", 70).above, "n1");
    assert_string_equal(plan(69, "n3", 70).above, "n2");
    /* of several components each node is by itself */
    assert_string_equal(plan(33, "n1", 35).above, "");
    assert_int_equal(plan(33, "n1", 35).n_nodes, 1);
    for (int node = 1; node < 70; node++) {
        struct guards_facts f = plan(node, "n1", 70), above = plan((node - 1) / GUARDS_FAN, "n1", 70);
        assert_memory_equal(f.port_above, above.port, sizeof above.port);
    }
}

static bool is_among(int port, const struct guards_facts *f)
{
    bool is = false;
    for (int i = 0; i < GUARDS_PORTS; i++)
        is |= f->port[i] == port;
    return is;
}

/* Whoever chose it. */
static void master_port_is_left_to_the_program(void **state)
{
    struct guards_facts f = plan(0, "n1", 70);
    char text[16];
    int third = f.port[3];
    (void)state;
    assert_true(is_among(third, &f));
    snprintf(text, sizeof text, "%d", third);
    users_port = text;
    f = plan(0, "n1", 70);
    assert_false(is_among(third, &f));
    users_port = NULL;
    snprintf(text, sizeof text, "port=%d", third);
    option = text;
    f = plan(0, "n1", 70);
    assert_false(is_among(third, &f));
    option = "on";
    struct keys o = {.mode = DDP_MODE_UNSET};
    o.key[KEY_PORT_MIN] = (struct knob_value){.is_set = true, .i = 20000};
    o.key[KEY_PORT_MAX] = (struct knob_value){.is_set = true, .i = 20007};
    small = &o;
    f = plan(0, "n1", 70);
    small = NULL;
    for (int i = 0; i < GUARDS_PORTS; i++)
        assert_int_equal(f.port[i], 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_death_is_told_to_all_and_said_once),
    cmocka_unit_test(a_tree_of_three_levels),
    cmocka_unit_test(a_signal_goes_before_the_exit_codes_that_follow_from_it),
    cmocka_unit_test(a_guard_that_is_killed_is_a_death),
    cmocka_unit_test(silence_is_found_and_named),
    cmocka_unit_test(a_step_that_was_suspended_blames_nobody),
    cmocka_unit_test(a_leader_stays_until_those_below_have_finished),
    cmocka_unit_test(a_death_begins_the_next_generation),
    cmocka_unit_test(a_rank_that_dies_again_and_again_ends_the_step),
    cmocka_unit_test(what_no_generation_follows),
    cmocka_unit_test(with_restarts_all_stay_until_all_have_finished),
    cmocka_unit_test(who_never_joins_is_not_waited_for),
    cmocka_unit_test(who_does_not_go_ends_the_step),
    cmocka_unit_test(who_comes_late_is_told),
    cmocka_unit_test(without_a_guard_above_it_decides_itself),
    cmocka_unit_test(strangers_are_turned_away),
    cmocka_unit_test(a_stranger_above_is_not_believed),
    cmocka_unit_test(every_node_finds_the_one_above),
    cmocka_unit_test(master_port_is_left_to_the_program),
};

UNIT_MAIN(tests)
