/* The guards of a step, each in a process of its own, over real sockets: who hears of whose death, and who tells the
 * user. */
#include "config.h"
#include "t/unit/spank/members.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/lobby.h"
#include "spank/guards/proof.h"

static void one_death_is_told_to_all_and_said_once(void **state)
{
    struct members m = {.n = 0};
    (void)state;
    for (int k = 0; k < 6; k++) {
        members_start_all(&m, 3, 2);
        members_tell(&m, k, DO_DIE);
        members_all_hear(&m, -1, DEATH_ENDED, k, SIGKILL, 0);
        members_end(&m);
    }
}

/* Three levels: 40 nodes, of which seven are not below the root itself. */
static void a_tree_of_three_levels(void **state)
{
    struct members m = {.n = 0};
    (void)state;
    members_start_all(&m, 40, 1);
    members_tell(&m, 39, DO_FAIL_2);
    members_all_hear(&m, -1, DEATH_ENDED, 39, EXIT(2), 0);
    members_end(&m);
}

static void a_signal_goes_before_the_exit_codes_that_follow_from_it(void **state)
{
    struct heard h;
    struct members m = {.n = 0};
    (void)state;
    for (int k = 0; k < 5; k++) {
        members_start_all(&m, 2, 2);
        members_tell(&m, 0, DO_FAIL_1);
        members_tell(&m, 3, DO_DIE);
        assert_true(members_hears(&m, 1, 20, &h));
        assert_int_equal(h.verdict.kind, DEATH_ENDED);
        members_end(&m);
    }
    members_start_all(&m, 1, 2); /* both at the root within the time: */
    members_tell(&m, 0, DO_FAIL_1);
    members_tell(&m, 1, DO_DIE);
    members_all_hear(&m, -1, DEATH_ENDED, 1, SIGKILL, 0);
    members_end(&m);
}

/* Of a tree of three levels the last, and of a node one that is not its leader. */
static void an_exit_code_waits_for_a_program_on_its_way_out(void **state)
{
    static const struct {
        int nodes, ranks, slow, other;
    } cases[] = {{40, 1, 39, 12}, {2, 2, 3, 0}, {1, 2, 1, 0}, {1, 2, 0, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct members m = {.n = 0};
        struct heard h;
        members_start_all(&m, cases[i].nodes, cases[i].ranks);
        members_tell(&m, cases[i].slow, DO_LINGER);
        assert_true(members_hears(&m, cases[i].slow, 20, &h));
        members_tell(&m, cases[i].other, DO_FAIL_1);
        assert_false(members_hears(&m, cases[i].other, 0.4, &h));
        members_tell(&m, cases[i].slow, DO_DIE);
        members_all_hear(&m, -1, DEATH_ENDED, cases[i].slow, SIGKILL, 0);
        members_end(&m);
    }
}

static void an_exit_code_does_not_wait_for_ever(void **state)
{
    struct members m = {.n = 0};
    struct heard h;
    (void)state;
    members_start_all(&m, 3, 1);
    members_tell(&m, 2, DO_LINGER);
    assert_true(members_hears(&m, 2, 20, &h));
    members_tell(&m, 1, DO_FAIL_1);
    members_all_hear(&m, -1, DEATH_ENDED, 1, EXIT(1), 0);
    members_end(&m);
}

/* What came of it is an exit code that was heard first. A signal goes before both. */
static void want_of_memory_goes_before_exit_codes(void **state)
{
    struct members m = {.n = 0};
    (void)state;
    members_start_all(&m, 1, 4); /* all at the root within the time */
    members_tell(&m, 1, DO_FAIL_1);
    members_tell(&m, 2, DO_TELL);
    members_tell(&m, 3, DO_LACK_MEMORY);
    members_all_hear(&m, -1, DEATH_SHORT, 3, EXIT(1), 0);
    members_end(&m);
    members_start_all(&m, 1, 4);
    members_tell(&m, 1, DO_DIE);
    members_tell(&m, 3, DO_LACK_MEMORY);
    members_all_hear(&m, -1, DEATH_ENDED, 1, SIGKILL, 0);
    members_end(&m);
}

static void libddps_word_goes_before_exit_codes(void **state)
{
    struct members m = {.n = 0};
    (void)state;
    members_start_all(&m, 1, 4); /* all at the root within the time */
    members_tell(&m, 1, DO_FAIL_1);
    members_tell(&m, 2, DO_TELL);
    members_all_hear(&m, -1, DEATH_TOLD, 3, EXIT(1), 0);
    members_end(&m);
    members_start_all(&m, 1, 4);
    members_tell(&m, 2, DO_TELL);
    members_tell(&m, 3, DO_FAIL_2); /* the one it is about */
    members_all_hear(&m, -1, DEATH_ENDED, 3, EXIT(2), 0);
    members_end(&m);
}

static void a_guard_that_is_killed_is_a_death(void **state)
{
    struct members m = {.n = 0};
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
        members_start_all(&m, cases[i].nodes, cases[i].ranks);
        members_kill(&m, cases[i].victim);
        members_all_hear(&m, cases[i].victim, cases[i].kind, cases[i].victim, 0, cases[i].teller);
        members_end(&m);
    }
}

/* Who would have told the user of the root's death has ended by then. */
static void another_tells_of_the_root_then(void **state)
{
    static const struct {
        int nodes, ranks, first, second;
    } cases[] = {{3, 1, 1, 2}, {1, 3, 1, 2}, {2, 2, 2, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct members m = {.n = 0};
        struct heard h;
        int first = cases[i].first, second = cases[i].second;
        members_start_all(&m, cases[i].nodes, cases[i].ranks);
        if (m.per_node == 2) { /* the leader stays while there is one below */
            members_tell(&m, second, DO_FINISH);
            members_wait_end(&m, second);
            second = 1;
        }
        members_tell(&m, first, DO_FINISH);
        members_wait_end(&m, first);
        for (int k = 0; k < 2; k++) { /* between two answers it has looked at what others have told it */
            members_tell(&m, 0, DO_HALT);
            assert_true(members_hears(&m, 0, 20, &h));
        }
        members_kill(&m, 0);
        assert_true(members_hears(&m, second, 20, &h));
        assert_int_equal(h.verdict.rank, 0);
        assert_true(h.is_ours);
        members_end(&m);
    }
}

/* The root tells of another node's leader, and nobody below that does. */
static void a_leaders_death_is_told_once(void **state)
{
    struct members m = {.n = 0};
    struct heard h;
    (void)state;
    members_start_all(&m, 2, 2);
    members_kill(&m, 2);
    for (int r = 0; r < 4; r++) {
        if (r == 2)
            continue;
        assert_true(members_hears(&m, r, 20, &h));
        assert_int_equal(h.verdict.rank, 2);
        assert_int_equal(h.is_ours, r == 0);
    }
    members_end(&m);
}

/* Who has finished goes; a leader stays for those below. */
/* No generations: still the root finds out that some never come, says it, and goes on. */
static void who_never_joins_is_missed(void **state)
{
    struct members m = {.join_s = 3};
    struct heard h;
    (void)state;
    members_set_up(&m, 3, 2);
    for (int r = 3; r >= 0; r--)
        members_start(&m, r);
    for (int r = 0; r < 4; r++)
        members_wait_joined(&m, r);
    assert_true(members_hears(&m, 0, 20, &h));
    assert_int_equal(h.n_missing, 2);
    members_tell(&m, 1, DO_DIE); /* the others hear of deaths as ever */
    for (int r = 0; r < 4; r++)
        assert_true(members_hears(&m, r, 20, &h) && h.verdict.kind == DEATH_ENDED && h.verdict.rank == 1);
    members_end(&m);
}

/* One that has joined, and left before the last comes, was there. */
static void who_has_left_is_not_missed(void **state)
{
    struct members m = {.join_s = 3};
    struct heard h;
    (void)state;
    members_set_up(&m, 3, 1);
    for (int r = 0; r < 2; r++)
        members_start(&m, r);
    for (int r = 0; r < 2; r++)
        members_wait_joined(&m, r);
    members_tell(&m, 1, DO_FINISH);
    members_wait_end(&m, 1);
    members_start(&m, 2);
    members_wait_joined(&m, 2);
    assert_false(members_hears(&m, 0, 4, &h)); /* this much time must pass: it is what is tested */
    members_end(&m);
}

static void a_leader_stays_until_those_below_have_finished(void **state)
{
    struct members m = {.n = 0};
    (void)state;
    members_start_all(&m, 2, 2);
    for (int r = 0; r < 3; r++)
        members_tell(&m, r, DO_FINISH);
    members_wait_end(&m, 1);
    assert_int_equal(waitpid(m.of[0].pid, NULL, WNOHANG), 0);
    assert_int_equal(waitpid(m.of[2].pid, NULL, WNOHANG), 0);
    members_tell(&m, 3, DO_FINISH);
    for (int r = 0; r < 4; r++)
        if (r != 1)
            members_wait_end(&m, r); /* nobody has heard of a death: the end */
}

/* A death that comes before the guard above is there. */
static void who_comes_late_is_told(void **state)
{
    struct heard h;
    struct members m = {.n = 0};
    (void)state;
    members_set_up(&m, 2, 1);
    members_start(&m, 1);
    members_tell(&m, 1, DO_DIE);
    members_start(&m, 0);
    members_wait_joined(&m, 0);
    assert_true(members_hears(&m, 0, 20, &h));
    assert_int_equal(h.verdict.rank, 1);
    members_end(&m);
}

/* Nobody is above, and nobody comes: the death is told within the time for a report. */
static void without_a_guard_above_it_decides_itself(void **state)
{
    struct heard h;
    struct members m = {.n = 0};
    (void)state;
    members_set_up(&m, 2, 1);
    members_start(&m, 1);
    members_tell(&m, 1, DO_DIE);
    assert_true(members_hears(&m, 1, 20, &h));
    assert_true(h.is_ours);
    assert_int_equal(h.verdict.rank, 1);
    members_end(&m);
}

static int call(const struct members *m, int i)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    a.sin_port = htons((uint16_t)(members_port(m, 0) + i));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* As a guard of node 1 whose patience ends before the one above has looked. */
static void ask_and_give_up(const struct members *m)
{
    struct proof_asker who = {.rank = 1, .node = 1, .port = members_port(m, 0)};
    unsigned char nonce[PROOF_NONCE_LEN], head[PROOF_HEAD_LEN];
    int fd = call(m, 0);
    assert_int_equal(recv(fd, nonce, sizeof nonce, MSG_WAITALL), sizeof nonce);
    assert_int_equal(proof_ask(m->token, nonce, &who, head), 0);
    assert_int_equal(send(fd, head, sizeof head, MSG_NOSIGNAL), sizeof head);
    close(fd);
}

/* Two nodes; at a port of the guard above somebody else listens. */
static int squat(struct members *m)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    members_set_up(m, 2, 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin_port = htons((uint16_t)members_port(m, 0));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

/* Who listens where the guard above should, and knows no token, is not believed. */
static void a_stranger_above_is_not_believed(void **state)
{
    unsigned char head[PROOF_HEAD_LEN];
    struct heard h;
    unsigned char said[DEATH_BYTES];
    struct members m = {.n = 0};
    (void)state;
    int fd = squat(&m);
    members_start(&m, 1);
    int c = accept(fd, NULL, NULL);
    assert_int_equal(send(c, head, PROOF_NONCE_LEN, MSG_NOSIGNAL), PROOF_NONCE_LEN);
    assert_int_equal(recv(c, head, sizeof head, MSG_WAITALL), sizeof head);
    for (int i = 0; i + 4 <= GUARDS_TOKEN_LEN; i++) /* nor told any of it */
        assert_null(memmem(head, sizeof head, m.token + i, 4));
    death_pack(&(struct death){.kind = DEATH_ENDED, .rank = 0, .how = SIGKILL}, said);
    for (int what = 0; what < 16; what++)
        frame_send(c, what, said, sizeof said);
    assert_false(members_hears(&m, 1, 0.5, &h));
    close(c);
    close(fd);
    members_end(&m);
}

/* Nor does it help to pass on what both say: the guard, at another port, is not asked at that one, and only once. */
static void a_stranger_between_is_not_let_in(void **state)
{
    unsigned char nonce[PROOF_NONCE_LEN], head[PROOF_HEAD_LEN], answer[8];
    struct members m = {.n = 0};
    (void)state;
    int fd = squat(&m);
    members_start(&m, 0);
    members_tell(&m, 0, DO_GO_ON); /* which it answers; then it listens, at the next port */
    members_wait_joined(&m, 0);
    members_start(&m, 1);
    int below = accept(fd, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        int above = call(&m, 1);
        assert_int_equal(recv(above, nonce, sizeof nonce, MSG_WAITALL), sizeof nonce);
        if (i == 0) {
            assert_int_equal(send(below, nonce, sizeof nonce, MSG_NOSIGNAL), sizeof nonce);
            assert_int_equal(recv(below, head, sizeof head, MSG_WAITALL), sizeof head);
        }
        assert_int_equal(send(above, head, sizeof head, MSG_NOSIGNAL), sizeof head);
        assert_int_equal(recv(above, answer, sizeof answer, 0), 0);
        close(above);
    }
    close(below);
    close(fd);
    members_wait_joined(&m, 1); /* at the right one */
    members_end(&m);
}

/* Without the token nobody gets in, and nobody who is in is harmed. */
static void strangers_are_turned_away(void **state)
{
    struct heard h;
    struct members m = {.n = 0};
    (void)state;
    members_start_all(&m, 2, 1);
    for (int k = 0; k < 300; k++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        char junk[200];
        memset(junk, 'x', sizeof junk);
        a.sin_port = htons((uint16_t)members_port(&m, 0));
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
            (void)!send(fd, junk, (size_t)(k % 200), MSG_NOSIGNAL);
        close(fd);
    }
    for (int k = 0; k < 3; k++) /* nor is one who knows the token, and gives up before it is let in, a death */
        ask_and_give_up(&m);
    assert_false(members_hears(&m, 0, 0.5, &h)); /* longer than a loss takes to become a death */
    members_tell(&m, 1, DO_FAIL_2);
    for (int r = 0; r < 2; r++) {
        assert_true(members_hears(&m, r, 20, &h));
        assert_int_equal(h.verdict.rank, 1);
        assert_int_equal(h.verdict.kind, DEATH_ENDED);
    }
    members_end(&m);
}

/* A guard without a tree ends with its program; one that could hear nobody would wait for others. */
static void without_descriptors_there_is_no_tree(void **state)
{
    const struct guards_facts f = {
        .size = 2, .local_size = 2, .n_nodes = 1, .restarts = 1, .join_s = GUARDS_JOIN_S,
        .token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
    char name[DOOR_NAME_MAX], nonce[LOBBY_NONCE_LEN];
    struct sockaddr_un a;
    struct rlimit files, few;
    static guards_t *g;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    for (few.rlim_cur = 0; !g && few.rlim_cur < files.rlim_cur; few.rlim_cur++) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        g = guards_open(&f);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    }
    assert_non_null(g);
    assert_true(few.rlim_cur > 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); /* with the fewest that do, it hears who comes */
    socklen_t n = door_address(door_name(f.token, DOOR_OF_NODE, 0, name), &a);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, n), 0);
    guards_step(g);
    assert_int_equal(recv(fd, nonce, sizeof nonce, MSG_DONTWAIT), sizeof nonce);
    close(fd);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_death_is_told_to_all_and_said_once),
    cmocka_unit_test(a_tree_of_three_levels),
    cmocka_unit_test(a_signal_goes_before_the_exit_codes_that_follow_from_it),
    cmocka_unit_test(an_exit_code_waits_for_a_program_on_its_way_out),
    cmocka_unit_test(an_exit_code_does_not_wait_for_ever),
    cmocka_unit_test(want_of_memory_goes_before_exit_codes),
    cmocka_unit_test(libddps_word_goes_before_exit_codes),
    cmocka_unit_test(a_guard_that_is_killed_is_a_death),
    cmocka_unit_test(another_tells_of_the_root_then),
    cmocka_unit_test(a_leaders_death_is_told_once),
    cmocka_unit_test(who_never_joins_is_missed),
    cmocka_unit_test(who_has_left_is_not_missed),
    cmocka_unit_test(a_leader_stays_until_those_below_have_finished),
    cmocka_unit_test(who_comes_late_is_told),
    cmocka_unit_test(without_a_guard_above_it_decides_itself),
    cmocka_unit_test(a_stranger_above_is_not_believed),
    cmocka_unit_test(a_stranger_between_is_not_let_in),
    cmocka_unit_test(strangers_are_turned_away),
    cmocka_unit_test(without_descriptors_there_is_no_tree),
};

UNIT_MAIN(tests)
