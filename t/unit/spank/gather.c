/* Nodes and srun on this machine. */
#include "config.h" /* pthread_tryjoin_np */

#include "t/unit/unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "t/lib/gathering.h"
#include "t/lib/network.h"

#define NODES_MAX 40

static void nodes_that_look_alike_are_printed_once(void **state)
{
    (void)state;
    struct srun s;
    struct node n[NODES_MAX];
    srun_begin(&s, PATIENCE_S);
    for (int i = 0; i < NODES_MAX; i++)
        node_begin(&n[i], s.address, "n[1-40]", i + 1, i == 6 ? "one GPU\n" : "rank GPU\n   0   1\n");
    for (int i = 0; i < NODES_MAX; i++)
        assert_true(node_end(&n[i]));
    assert_string_equal(srun_end(&s), "ddp: n[1-6,8-40]:\n  rank GPU\n     0   1\nddp: n7: one GPU\n");
    assert_string_equal(node_log, "");
}

static void fill(int fd)
{
    char filling[4096] = "";
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    while (poll(&p, 1, 0) == 1)
        assert_true(write(fd, filling, sizeof filling) > 0);
}

/* A node is not let go while another is missing, nor before the table is out. */
static void nodes_wait_for_the_table(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    char drain[4096];
    srun_begin(&s, PATIENCE_S);
    int fd = say(s.address, strchr(s.address, ':') + 1, (const uint32_t[]){2, 6, 1}, "n1n[1-2]a", 9);
    struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = s.out[0], .events = POLLIN}};
    wait_for_srun(s.address);
    assert_int_equal(poll(p, 2, 0), 0);
    fill(s.out[1]);
    node_begin(&n, s.address, "n[1-2]", 2, "a");
    assert_int_equal(poll(&p[0], 1, 300), 0);
    for (uint64_t deadline = deadline_in(PATIENCE_S); poll(&p[0], 1, 0) == 0;) {
        assert_true(deadline_left_ns(deadline) > 0);
        if (poll(&p[1], 1, 10) == 1)
            assert_true(read(s.out[0], drain, sizeof drain) > 0);
    }
    assert_int_equal(read(fd, drain, sizeof drain), 1);
    assert_true(node_end(&n));
    close(fd);
    srun_end(&s);
}

/* srun keeps descriptors for itself: nodes beyond that are counted, but do not wait for the table. */
static void descriptors_are_left_for_srun(void **state)
{
    (void)state;
    struct srun s;
    struct node n[NODES_MAX];
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){128, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    srun_begin(&s, PATIENCE_S);
    for (int i = 0; i < NODES_MAX - 1; i++)
        node_begin(&n[i], s.address, "n[1-40]", i + 1, "same\n");
    uint64_t deadline = deadline_in(PATIENCE_S);
    for (int i = 0; i < NODES_MAX - 1 - 32; i++) { /* 128 / 4 wait */
        int k = 0;
        while (!n[k].thread || pthread_tryjoin_np(n[k].thread, NULL) != 0) {
            k = (k + 1) % (NODES_MAX - 1);
            assert_true(deadline_left_ns(deadline) > 0);
        }
        assert_true(n[k].is_printed);
        n[k].thread = 0;
    }
    node_begin(&n[NODES_MAX - 1], s.address, "n[1-40]", NODES_MAX, "same\n");
    for (int i = 0; i < NODES_MAX; i++)
        assert_true(!n[i].thread || node_end(&n[i]));
    assert_string_equal(srun_end(&s), "ddp: n[1-40]: same\n");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* It is not waited for, is not missed, and does not wait itself. */
static void a_node_may_show_nothing(void **state)
{
    (void)state;
    struct srun s;
    struct node silent, n;
    srun_begin(&s, PATIENCE_S);
    node_begin(&silent, s.address, "n[1-2]", 1, "");
    assert_true(node_end(&silent));
    node_begin(&n, s.address, "n[1-2]", 2, "here\n");
    assert_true(node_end(&n));
    assert_string_equal(srun_end(&s), "ddp: n2: here\n");
    srun_begin(&s, PATIENCE_S);
    node_begin(&silent, s.address, "n1", 1, "");
    assert_true(node_end(&silent));
    assert_string_equal(srun_end(&s), "");
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    srun_begin(&s, 0.2);
    node_begin(&n, s.address, "n[1-4]", 2, "here\n");
    assert_true(node_end(&n));
    assert_string_equal(srun_end(&s), "ddp: n2: here\n"
                        "ddp: n[1,3-4]: have not told where their ranks run (ddp check: is ddp.so there?)\n");
}

static void who_comes_late_prints_itself(void **state)
{
    (void)state;
    struct srun s;
    struct node n, late;
    srun_begin(&s, 0.2);
    node_begin(&n, s.address, "n[1-2]", 2, "here\n");
    assert_true(node_end(&n));
    node_begin(&late, s.address, "n[1-2]", 1, "GPU 0\nGPU 1");
    assert_false(node_end(&late));
    assert_string_equal(node_log, "ddp: n1: GPU 0\nddp: n1: GPU 1\n");
    srun_end(&s);
}

static void srun_ends_when_it_likes(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    uint64_t start = clock_ns();
    srun_begin(&s, PATIENCE_S); /* nobody comes */
    assert_string_equal(srun_end(&s), "");
    srun_begin(&s, PATIENCE_S); /* a node waits, and another has been half heard */
    const char *token = strchr(s.address, ':') + 1;
    int fd = say(s.address, token, (const uint32_t[]){2, 6, 1}, "n2n[1-3]", 8);
    node_begin(&n, s.address, "n[1-3]", 1, "here\n");
    wait_for_srun(s.address);
    assert_string_equal(srun_end(&s), "");
    assert_true(is_shut(fd));
    assert_false(node_end(&n));
    assert_string_equal(node_log, "ddp: n1: here\n");
    gather_destroy(NULL);
    assert_true(clock_ns() - start < 5 * NS_PER_S);
}

static bool is_listening(const char *address)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons((uint16_t)atoi(address))};
    int fd = socket(AF_INET, SOCK_STREAM, 0), rc = connect(fd, (struct sockaddr *)&sa, sizeof sa);
    close(fd);
    return rc == 0;
}

/* A terminal that is stopped takes no table: srun's end does not wait for it, and a node not for ever. */
static void a_print_that_hangs_holds_nobody(void **state)
{
    (void)state;
    static gather_t *volatile left_behind; /* with its memory, which is so no leak: a store that must stay */
    struct srun s;
    srun_begin(&s, PATIENCE_S);
    fill(s.out[1]);
    int fd = say(s.address, strchr(s.address, ':') + 1, (const uint32_t[]){2, 2, 5}, "n1n1here\n", 9);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint64_t deadline = deadline_in(PATIENCE_S);
    while (is_listening(s.address)) /* until it prints */
        assert_true(deadline_left_ns(deadline) > 0);
    left_behind = s.gather;
    gather_destroy(left_behind);
    assert_int_equal(poll(&p, 1, 0), 0); /* the thread hangs still */
    char byte = 0;
    assert_int_equal(poll(&p, 1, (int)PATIENCE_S * 1000), 1);
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(byte, ANSWER_PRINTED); /* srun has done what it could */
    close(fd);
    close(s.out[0]);
    close(s.out[1]);
}

/* srun's own children (a shepherd, a prolog) have the socket, and may end as they like. */
static void a_child_of_sruns_changes_nothing(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    char byte;
    int ready[2], go[2];
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    srun_begin(&s, PATIENCE_S);
    pid_t child = fork();
    if (child == 0) {
        gather_destroy(s.gather);
        close(go[1]);
        _exit(write(ready[1], "", 1) == 1 && read(go[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    node_begin(&n, s.address, "n[1-1]", 1, "here\n");
    assert_true(node_end(&n));
    assert_false(is_listening(s.address)); /* though the child still has the socket */
    close(go[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_string_equal(srun_end(&s), "ddp: n1: here\n");
    close(go[0]);
    close(ready[0]);
    close(ready[1]);
}

/* Slurm names srun's host by the address that it used, of either kind. */
static void srun_is_reached_by_ipv6(void **state)
{
    (void)state;
    struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0), rc = bind(fd, (struct sockaddr *)&sa, sizeof sa);
    struct srun s;
    close(fd);
    if (rc < 0)
        return; /* no IPv6 on this machine */
    srun_begin(&s, PATIENCE_S);
    struct node n = {.address = s.address, .host = "::1", .list = "n1", .text = "here\n", .name = "n1"};
    assert_true(node_send(&n));
    assert_string_equal(srun_end(&s), "ddp: n1: here\n");
}

static void ports_can_be_limited(void **state)
{
    (void)state;
    network_enter_own(); /* no other takes the port when it is free again */
    struct port_range r = {0, 0};
    struct gather_options o = {STDERR_FILENO, r, 1};
    ddp_error_t e = {0};
    gather_t *any = gather_create(&o, &e), *two, *none;
    assert_non_null(any);
    o.ports = (struct port_range){atoi(gather_address(any)), atoi(gather_address(any))};
    none = gather_create(&o, &e); /* that port is taken */
    assert_null(none);
    assert_error_has(e, "no port from");
    gather_destroy(any);
    two = gather_create(&o, &e);
    assert_non_null(two);
    assert_int_equal(atoi(gather_address(two)), o.ports.min);
    gather_destroy(two);
}

static void a_node_that_finds_nobody_prints_itself(void **state)
{
    (void)state;
    char token[TOKEN_LEN + 1] = "", good[TOKEN_LEN + 16], far[TOKEN_LEN + 16];
    memset(token, 'a', TOKEN_LEN);
    snprintf(far, sizeof far, "12345678901:%s", token);
    struct srun s; /* a port that nobody listens at */
    srun_begin(&s, PATIENCE_S);
    snprintf(good, sizeof good, "%d:%s", atoi(s.address), token);
    srun_end(&s);
    const struct {
        const char *address, *host, *why;
    } cases[] = {
        {NULL, "127.0.0.1", "SLURM_DDP_GATHER"}, {"", "127.0.0.1", "SLURM_DDP_GATHER"},
        {"12", "127.0.0.1", "SLURM_DDP_GATHER"}, {"80:ab", "127.0.0.1", "SLURM_DDP_GATHER"},
        {far, "127.0.0.1", "SLURM_DDP_GATHER"},
        {good, "srun.example", "no address"},    {good, NULL, "where srun is"},
        {good, "127.0.0.1", "cannot be reached"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node n = {.address = cases[i].address, .host = cases[i].host, .list = "n1", .text = "a\n", .name = "n1"};
        node_log[0] = node_note[0] = 0;
        assert_false(node_send(&n));
        assert_string_equal(node_log, "ddp: n1: a\n");
        if (!strstr(node_note, cases[i].why))
            fail_msg("\"%s\" lacks \"%s\"", node_note, cases[i].why);
    }
}

/* Another program at that port may answer as it likes: it is asked once, and has no table. */
static void who_answers_otherwise_is_not_srun(void **state)
{
    (void)state;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof sa;
    char address[16 + TOKEN_LEN], token[TOKEN_LEN + 1] = "";
    struct node n;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(token, 'a', TOKEN_LEN);
    node_log[0] = node_note[0] = 0;
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    snprintf(address, sizeof address, "%d:%s", ntohs(sa.sin_port), token);
    node_begin(&n, address, "n1", 1, "alone\n");
    int c = accept(fd, NULL, NULL);
    assert_int_equal(write(c, "x", 1), 1);
    assert_false(node_end(&n));
    assert_string_equal(node_log, "ddp: n1: alone\n");
    assert_non_null(strstr(node_note, "is not srun"));
    close(c);
    close(fd);
}

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* However srun's side ends: its thread before it, at its word, never begun, and without a port. */
static void srun_has_its_descriptors_back(void **state)
{
    (void)state;
    int before = count_descriptors();
    struct srun s;
    struct node n;
    srun_begin(&s, PATIENCE_S);
    node_begin(&n, s.address, "n1", 1, "here\n");
    assert_true(node_end(&n));
    srun_end(&s);
    assert_int_equal(count_descriptors(), before);
    srun_begin(&s, PATIENCE_S);
    srun_end(&s);
    assert_int_equal(count_descriptors(), before);
    gather_t *g = gather_create(&(struct gather_options){STDERR_FILENO, {0, 0}, 1}, NULL);
    assert_non_null(g);
    int port = atoi(gather_address(g));
    assert_null(gather_create(&(struct gather_options){STDERR_FILENO, {port, port}, 1}, NULL));
    gather_destroy(g);
    assert_int_equal(count_descriptors(), before);
}

/* A port that takes connections and says nothing, and one that does not even take them (a firewall that drops). */
static void no_node_waits_for_ever(void **state)
{
    (void)state;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof sa;
    struct node n[2];
    char address[2][16 + TOKEN_LEN], token[TOKEN_LEN + 1] = "";
    int fd[2], filling[4];
    memset(token, 'a', TOKEN_LEN);
    node_log[0] = 0;
    uint64_t start = clock_ns();
    for (int i = 0; i < 2; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        sa.sin_port = 0;
        assert_int_equal(bind(fd[i], (struct sockaddr *)&sa, sizeof sa), 0);
        assert_int_equal(listen(fd[i], i == 0 ? 8 : 0), 0);
        assert_int_equal(getsockname(fd[i], (struct sockaddr *)&sa, &len), 0);
        for (int k = 0; i == 1 && k < 4; k++) {
            filling[k] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
            connect(filling[k], (struct sockaddr *)&sa, sizeof sa);
        }
        snprintf(address[i], sizeof address[i], "%d:%s", ntohs(sa.sin_port), token);
        node_begin(&n[i], address[i], "n[1-2]", i + 1, "alone\n");
    }
    assert_false(node_end(&n[1]));
    assert_string_equal(node_log, "ddp: n2: alone\n");
    assert_true(node_end(&n[0])); /* what listens there has the text */
    assert_string_equal(node_log, "ddp: n2: alone\n");
    assert_true(clock_ns() - start < (PATIENCE_S + 10) * NS_PER_S);
    for (int i = 0; i < 4; i++)
        close(filling[i]);
    close(fd[0]);
    close(fd[1]);
}

/* A node that does not wait for the others as long as srun does. */
static void srun_prints_for_a_node_that_has_gone_on(void **state)
{
    (void)state;
    struct srun s;
    srun_begin(&s, PATIENCE_S);
    struct node n = {.address = s.address, .host = "127.0.0.1", .list = "n[1-2]", .text = "here\n", .name = "n1",
                     .wait_s = 0.2};
    assert_true(node_send(&n));
    assert_string_equal(node_log, "");
    assert_string_equal(srun_end(&s), "ddp: n1: here\n"
                        "ddp: n2: has not told where its ranks run (ddp check: is ddp.so there?)\n");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nodes_that_look_alike_are_printed_once),
    cmocka_unit_test(nodes_wait_for_the_table),
    cmocka_unit_test(descriptors_are_left_for_srun),
    cmocka_unit_test(a_node_may_show_nothing),
    cmocka_unit_test(who_does_not_come_is_named),
    cmocka_unit_test(who_comes_late_prints_itself),
    cmocka_unit_test(srun_ends_when_it_likes),
    cmocka_unit_test(a_print_that_hangs_holds_nobody),
    cmocka_unit_test(a_child_of_sruns_changes_nothing),
    cmocka_unit_test(srun_is_reached_by_ipv6),
    cmocka_unit_test(ports_can_be_limited),
    cmocka_unit_test(a_node_that_finds_nobody_prints_itself),
    cmocka_unit_test(who_answers_otherwise_is_not_srun),
    cmocka_unit_test(srun_has_its_descriptors_back),
    cmocka_unit_test(no_node_waits_for_ever),
    cmocka_unit_test(srun_prints_for_a_node_that_has_gone_on),
};
UNIT_MAIN(tests)
