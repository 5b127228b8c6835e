/* The `local` boot against whom it does not know: impostors, strangers, a wrong environment. */
#include "t/lib/bootranks.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmix/boot_wire.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"

static void impostors_are_refused(void **state)
{
    (void)state;
    static const struct {
        int rank, size;
        const char *text;
    } cases[] = {{7, 8, "8 ranks, but there are 3"}, {1, 3, "rank 1 is connected already"}};
    boot_server_t *s = bootranks_serve_unix(3);
    /* A rank 1 that stays: connected by hand, welcomed, silent. */
    char text[256];
    int fd = bootranks_call(s, 1, 3);
    assert_int_equal(bootranks_hear(s, fd, text), WIRE_WELCOME);
    for (size_t i = 0; i < 2; i++) {
        pid_t pid = bootranks_start(s, cases[i].rank, cases[i].size, &bootranks_report[0], bootranks_only_opens);
        bootranks_drive(s, &pid, 1);
        assert_int_equal(bootranks_report[0].rc, -1);
        assert_int_equal(bootranks_report[0].e.domain, DDP_E_BOOT);
        assert_error_has(bootranks_report[0].e, cases[i].text);
    }
    /* With the token, but against the rules: it is dropped, and missed. */
    unsigned char huge[WIRE_HEAD] = {0xff, 0xff, 0xff, 0xff, WIRE_PUT};
    assert_int_equal(io_send_all(fd, huge, sizeof huge, deadline_in(5), "server", NULL), 0);
    pid_t pid = bootranks_start(s, 0, 3, &bootranks_report[0], bootranks_waits);
    bootranks_drive(s, &pid, 1);
    assert_error_has(bootranks_report[0].e, "rank 1 died");
    io_close(fd);
    boot_server_destroy(s);
}

/* Connects, sends what a stranger might, and expects the connection to be closed without a word. */
static int stranger(const char *addr, int kind)
{
    unsigned char data[4096], answer;
    struct wire_addr a;
    ddp_error_t e = {0};
    size_t n = sizeof data;
    if (wire_addr_parse(addr, 0, &a, NULL) < 0 || io_random(data, sizeof data, NULL) < 0)
        return -1;
    if (kind == 1 || kind == 2) { /* a hello with a proof off by its last digit; another message in its place */
        wire_head(data, kind == 1 ? WIRE_HELLO : WIRE_FENCE, WIRE_HELLO_BODY);
        memcpy(data + WIRE_HEAD, WIRE_MAGIC, WIRE_MAGIC_LEN);
        wire_prove(bootranks_token, WIRE_HELLO, (char *)data + WIRE_HEAD + WIRE_MAGIC_LEN);
        data[WIRE_HEAD + WIRE_MAGIC_LEN + WIRE_TOKEN_LEN - 1] ^= kind == 1;
        n = WIRE_HEAD + WIRE_HELLO_BODY;
    }
    if (kind == 3 || kind == 4) { /* the proof, but lengths: more than a hello, none at all */
        wire_prove(bootranks_token, WIRE_HELLO, (char *)data + WIRE_HEAD + WIRE_MAGIC_LEN);
        bytes_put32(data, kind == 3 ? WIRE_HELLO_BODY + 2 : 0);
        n = WIRE_HEAD + WIRE_HELLO_BODY;
    }
    int fd = wire_socket(&a, NULL);
    if (connect(fd, (struct sockaddr *)&a.sa, a.len) < 0)
        return -1;
    io_send_all(fd, data, n, deadline_in(5), "server", NULL);
    int rc = kind == 5 ? 0 : io_recv_all(fd, &answer, 1, deadline_in(PATIENCE_S), "server", &e);
    io_close(fd);
    return kind == 5 || (rc < 0 && e.domain == DDP_E_PEER) ? 0 : -1;
}

static void knocks(int rank, int size, struct report *r)
{
    (void)size;
    r->rc = 0;
    for (int i = 0; i < 40 && r->rc == 0; i++)
        r->rc = stranger(getenv("DDP_BOOT_ADDR"), (i + rank) % 6);
}

/* Is closed without a word at every try, until its deadline. */
static void has_the_wrong_token(struct report *r)
{
    setenv("DDP_BOOT_TOKEN", "0000000000000000000000000000000000000000000000000000000000000000", 1);
    boot_t *b = boot_open(deadline_in(0.5), &r->e);
    r->rc = b ? 0 : -1;
    boot_leave(b, NULL);
}

/* Ranks 0 and 1 exchange, 2 and 3 are strangers meanwhile, 4 has the wrong token. */
static void some_are_strangers(int rank, int size, struct report *r)
{
    (void)size;
    if (rank == 2 || rank == 3)
        knocks(rank, size, r);
    else if (rank == 4)
        has_the_wrong_token(r);
    else {
        setenv("DDP_SIZE", "2", 1);
        bootranks_exchange(rank, 2, r);
    }
}

static void strangers_harm_only_themselves(void **state)
{
    (void)state;
    boot_server_t *s = bootranks_serve_unix(2);
    bootranks_run(s, 5, some_are_strangers);
    assert_int_equal(bootranks_report[4].rc, -1);
    assert_error_has(bootranks_report[4].e, "DDP_BOOT_TOKEN");
    bootranks_assert_well(4);
    boot_server_destroy(s);
}

/* ---- a server by hand ---- */

static int accept_next(int fd)
{
    int caller;
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, (int)PATIENCE_S * 1000), 1);
    assert_true((caller = accept(fd, NULL, NULL)) >= 0);
    return caller;
}

/* Its hello tells the token to nobody. */
static void hear_hello(int caller)
{
    unsigned char hello[WIRE_HEAD + WIRE_HELLO_BODY];
    assert_int_equal(io_recv_all(caller, hello, sizeof hello, deadline_in(PATIENCE_S), "rank 0", NULL), 0);
    assert_memory_not_equal(hello + WIRE_HEAD + WIRE_MAGIC_LEN, bootranks_token, WIRE_TOKEN_LEN);
}

static void prove(int caller, enum wire_type as)
{
    char proof[WIRE_TOKEN_LEN + 1];
    wire_prove(bootranks_token, as, proof);
    bootranks_say(caller, WIRE_PROOF, proof, WIRE_TOKEN_LEN);
}

static void hear_close(int caller)
{
    unsigned char byte;
    ddp_error_t e;
    assert_int_equal(io_recv_all(caller, &byte, 1, deadline_in(PATIENCE_S), "rank 0", &e), -1);
    assert_int_equal(e.domain, DDP_E_PEER);
}

/* Rank 0 of one, which joins whoever listens at *ret_fd. */
static pid_t start_joiner(int *ret_fd)
{
    char name[64] = "unix:@ddp-t-";
    struct wire_addr busy;
    assert_int_equal(io_random_hex(name + strlen(name), 16, NULL), 0);
    assert_int_equal(wire_addr_parse(name, 0, &busy, NULL), 0);
    *ret_fd = wire_socket(&busy, NULL);
    assert_int_equal(bind(*ret_fd, (struct sockaddr *)&busy.sa, busy.len), 0);
    assert_int_equal(listen(*ret_fd, 1), 0);
    memset(bootranks_token, 'a', sizeof bootranks_token - 1);
    bootranks_report[0].rc = -99;
    pid_t pid = fork();
    if (pid == 0) {
        bootranks_set_env(name, 0, 1);
        bootranks_only_opens(0, 1, &bootranks_report[0]);
        _exit(0);
    }
    return pid;
}

static void let_join(int fd, pid_t pid)
{
    unsigned char head[WIRE_HEAD];
    int caller = accept_next(fd);
    hear_hello(caller);
    prove(caller, WIRE_PROOF);
    bootranks_say(caller, WIRE_WELCOME, NULL, 0);
    assert_int_equal(io_recv_all(caller, head, sizeof head, deadline_in(PATIENCE_S), "rank 0", NULL), 0);
    assert_int_equal(head[4], WIRE_BYE);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    bootranks_assert_well(1);
    close(caller);
    close(fd);
}

/* Where a server is busy with strangers: three connections are closed unread, the fourth is welcomed. */
static void who_is_closed_comes_again(void **state)
{
    (void)state;
    int fd;
    pid_t pid = start_joiner(&fd);
    for (int i = 0; i < 3; i++)
        close(accept_next(fd));
    let_join(fd, pid);
}

/* Who has taken the port of a server that has ended: he welcomes, blames, says any proof, or the client's. */
static void a_server_without_the_token_is_not_believed(void **state)
{
    (void)state;
    static const char blame[8 + 80] = "\4\0\0\0\1\0\0\0rank 0 died";
    char wrong[WIRE_TOKEN_LEN + 1];
    int fd;
    pid_t pid = start_joiner(&fd);
    memset(wrong, '0', sizeof wrong);
    for (int i = 0; i < 4; i++) {
        int caller = accept_next(fd);
        hear_hello(caller);
        if (i == 0)
            bootranks_say(caller, WIRE_WELCOME, wrong, WIRE_TOKEN_LEN);
        else if (i == 1)
            bootranks_say(caller, WIRE_ERROR, blame, sizeof blame);
        else if (i == 2)
            bootranks_say(caller, WIRE_PROOF, wrong, WIRE_TOKEN_LEN);
        else
            prove(caller, WIRE_HELLO);
        hear_close(caller);
        close(caller);
    }
    let_join(fd, pid);
}

static void a_caller_of_another_user_is_closed_unheard(void **state)
{
    (void)state;
    char text[256];
    int fd;
    unit_needs(geteuid() == 0, "root's rights");
    boot_server_t *s = bootranks_serve_unix(1);
    unit_as_another_user(fd = bootranks_call(s, 0, 1));
    assert_int_equal(bootranks_hear(s, fd, text), 0);
    close(fd);
    boot_server_destroy(s);
}

static void a_server_of_another_user_is_refused(void **state)
{
    (void)state;
    boot_server_t *s = NULL;
    unit_needs(geteuid() == 0, "root's rights");
    unit_as_another_user(s = bootranks_serve_unix(1));
    bootranks_run(s, 1, bootranks_only_opens);
    assert_int_equal(bootranks_report[0].rc, -1);
    assert_int_equal(bootranks_report[0].e.code, EPERM);
    assert_error_has(bootranks_report[0].e, "belongs to another user");
    boot_server_destroy(s);
}

static void environment_is_strict(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *text;
    } cases[] = {
        {"DDP_RANK", "1x", "DDP_RANK=1x"},   {"DDP_RANK", "2", "DDP_RANK=2"},  {"DDP_RANK", "-1", "DDP_RANK"},
        {"DDP_RANK", "", "DDP_RANK"},        {"DDP_SIZE", "0", "DDP_SIZE=0"},  {"DDP_SIZE", " 2", "DDP_SIZE"},
        {"DDP_SIZE", NULL, "DDP_SIZE"},      {"DDP_RANK", NULL, "DDP_RANK"},   {"DDP_BOOT_ADDR", "x", "x"},
        {"DDP_BOOT_ADDR", "", "ddp run"},    {"DDP_BOOT_TOKEN", "ab", "DDP_BOOT_TOKEN"},
        {"DDP_BOOT_TOKEN", NULL, "DDP_BOOT_TOKEN"},
        {"DDP_BOOT_ADDR", "unix:@ddp-t-nobody", "cannot be reached"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ddp_error_t e;
        memset(bootranks_token, 'a', sizeof bootranks_token - 1);
        bootranks_set_env("unix:@ddp-t", 0, 2);
        if (cases[i].value)
            setenv(cases[i].name, cases[i].value, 1);
        else
            unsetenv(cases[i].name);
        assert_null(boot_open(deadline_in(5), &e));
        assert_error_has(e, cases[i].text);
    }
    ddp_error_t e; /* a TCP server may come later: waits for it until the deadline */
    bootranks_set_env("tcp:127.0.0.1:1", 0, 2);
    assert_null(boot_open(deadline_in(0.1), &e));
    assert_error_has(e, "tcp:127.0.0.1:1 cannot be reached");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(impostors_are_refused),
    cmocka_unit_test(strangers_harm_only_themselves),
    cmocka_unit_test(who_is_closed_comes_again),
    cmocka_unit_test(a_server_without_the_token_is_not_believed),
    cmocka_unit_test(a_caller_of_another_user_is_closed_unheard),
    cmocka_unit_test(a_server_of_another_user_is_refused),
    cmocka_unit_test(environment_is_strict),
};

int main(void)
{
    return cmocka_run_group_tests(tests, bootranks_open, NULL);
}
