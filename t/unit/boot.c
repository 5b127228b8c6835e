/* The `local` boot: real clients in processes of their own against a server that this process drives. */
#include "t/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmix/boot_server.h"
#include "pmix/boot_wire.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"

#define RANKS_MAX 16
#define PATIENCE_S 30.0 /* no test waits that long unless something is broken */

static char token[2 * BOOT_TOKEN_BYTES + 1];

/* What the ranks tell this process: shared memory. */
static struct report {
    int rc;
    double took_s;
    ddp_error_t e;
    volatile int may_go_on; /* set by this process */
} *report;

typedef void rank_f(int rank, int size, struct report *r);

static boot_server_t *serve(const char *addr, int size)
{
    ddp_error_t e;
    assert_int_equal(io_random_hex(token, BOOT_TOKEN_BYTES, &e), 0);
    boot_server_t *s = boot_server_create(addr, token, size, &e);
    if (!s)
        fail_msg("%s", e.text);
    return s;
}

static boot_server_t *serve_unix(int size)
{
    char name[64] = "unix:@ddp-t-";
    assert_int_equal(io_random_hex(name + strlen(name), 16, NULL), 0);
    return serve(name, size);
}

static void set_env(const char *addr, int rank, int size)
{
    char text[16];
    setenv("DDP_BOOT", "local", 1);
    setenv("DDP_BOOT_ADDR", addr, 1);
    setenv("DDP_BOOT_TOKEN", token, 1);
    snprintf(text, sizeof text, "%d", rank);
    setenv("DDP_RANK", text, 1);
    snprintf(text, sizeof text, "%d", size);
    setenv("DDP_SIZE", text, 1);
}

static pid_t start(const boot_server_t *s, int rank, int size, struct report *r, rank_f *f)
{
    memset(r, 0, sizeof *r);
    r->rc = -99;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        set_env(boot_server_addr(s), rank, size);
        f(rank, size, r);
        _exit(0);
    }
    return pid;
}

/* Drives the server until the n processes have ended. */
static void drive(boot_server_t *s, pid_t *pid, int n)
{
    uint64_t deadline = deadline_in(PATIENCE_S);
    ddp_error_t e;
    for (int left = n; left > 0;) {
        if (boot_server_step(s, 10, &e) < 0)
            fail_msg("%s", e.text);
        for (int i = 0; i < n; i++)
            if (pid[i] && waitpid(pid[i], NULL, WNOHANG) == pid[i]) {
                pid[i] = 0;
                left--;
            }
        if (deadline_left_ns(deadline) == 0) {
            for (int i = 0; i < n; i++)
                if (pid[i])
                    kill(pid[i], SIGKILL);
            fail_msg("%d ranks did not end", left);
        }
    }
}

static void run_ranks(boot_server_t *s, int size, rank_f *f)
{
    pid_t pid[RANKS_MAX];
    for (int r = 0; r < size; r++)
        pid[r] = start(s, r, size, &report[r], f);
    drive(s, pid, size);
}

static void assert_all_well(int size)
{
    for (int r = 0; r < size; r++)
        if (report[r].rc != 0)
            fail_msg("rank %d of %d: rc %d: %s", r, size, report[r].rc, report[r].e.text);
}

/* ---- what the ranks do ---- */

static unsigned char byte_of(int rank, size_t i)
{
    return (unsigned char)(rank * 37 + (int)(i % 251));
}

static int put(boot_t *b, const char *key, int rank, size_t n, ddp_error_t *e)
{
    static unsigned char data[BOOT_VALUE_MAX + 1];
    for (size_t i = 0; i < n; i++)
        data[i] = byte_of(rank, i);
    return boot_put(b, key, data, n, e);
}

static int check(boot_t *b, const char *key, int rank, size_t want, ddp_error_t *e)
{
    void *data;
    size_t n, bad = 0;
    if (boot_get(b, rank, key, &data, &n, deadline_in(PATIENCE_S), e) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        bad += ((unsigned char *)data)[i] != byte_of(rank, i);
    free(data);
    return n == want && !bad ? 0 : error_set(e, DDP_E_DATA, 1, "%s of %d: %zu bytes, %zu bad", key, rank, n, bad);
}

static void exchange(int rank, int size, struct report *r)
{
    static const struct {
        const char *key;
        size_t n;
    } values[] = {{"none", 0}, {"one", 1}, {"most", BOOT_VALUE_MAX}};
    boot_t *b = boot_open(deadline_in(PATIENCE_S), &r->e);
    r->rc = b && boot_rank(b) == rank && boot_size(b) == size && !strcmp(boot_name(b), "local") ? 0 : -1;
    for (int i = 0; i < 3 && r->rc == 0; i++)
        r->rc = put(b, values[i].key, rank, values[i].n, &r->e);
    for (int round = 0; round < 2 && r->rc == 0; round++)
        r->rc = boot_fence(b, deadline_in(PATIENCE_S), &r->e);
    for (int q = 0; q < size; q++)
        for (int i = 0; i < 3 && r->rc == 0; i++)
            r->rc = check(b, values[i].key, q, values[i].n, &r->e);
    boot_close(b);
}

/* Opens, waits for the others once, and then waits for them again; the second wait's result is the report. */
static boot_t *join(struct report *r)
{
    boot_t *b = boot_open(deadline_in(PATIENCE_S), &r->e);
    r->rc = b ? boot_fence(b, deadline_in(PATIENCE_S), &r->e) : -1;
    if (r->rc < 0)
        _exit(1);
    return b;
}

static void wait_again(boot_t *b, double timeout_s, struct report *r)
{
    uint64_t from = clock_ns();
    r->rc = boot_fence(b, deadline_in(timeout_s), &r->e);
    r->took_s = (double)(clock_ns() - from) / (double)NS_PER_S;
}

static void one_dies(int rank, int size, struct report *r)
{
    boot_t *b = join(r);
    if (rank == size - 1)
        raise(SIGKILL);
    wait_again(b, PATIENCE_S, r);
    boot_close(b);
}

static void one_leaves(int rank, int size, struct report *r)
{
    boot_t *b = join(r);
    if (rank != size - 1)
        wait_again(b, PATIENCE_S, r);
    boot_close(b);
}

static void one_aborts(int rank, int size, struct report *r)
{
    boot_t *b = join(r);
    if (rank == size - 1)
        boot_abort(b, 42, "out of\nluck");
    wait_again(b, PATIENCE_S, r);
    boot_close(b);
}

/* Rank 0 comes to the second fence only after all others have given up. */
static void one_is_late(int rank, int size, struct report *r)
{
    (void)size;
    boot_t *b = join(r);
    uint64_t deadline = deadline_in(PATIENCE_S);
    while (rank == 0 && !r->may_go_on && deadline_left_ns(deadline) > 0)
        poll(NULL, 0, 1);
    wait_again(b, rank == 0 ? PATIENCE_S : 0.05, r);
    if (rank == 1) { /* what was given up stays so */
        ddp_error_t e;
        bool is_timeout = r->e.domain == DDP_E_TIMEOUT; /* else rank 2 gave up first */
        if (boot_fence(b, deadline_in(1), &e) == 0 || (is_timeout && !strstr(e.text, "earlier error")))
            r->rc = -98;
    }
    boot_close(b);
}

static void waits_for_nobody(int rank, int size, struct report *r)
{
    (void)rank;
    (void)size;
    boot_t *b = boot_open(deadline_in(PATIENCE_S), &r->e);
    if (b)
        wait_again(b, 0.05, r);
    boot_close(b);
}

static void only_opens(int rank, int size, struct report *r)
{
    (void)rank;
    (void)size;
    boot_t *b = boot_open(deadline_in(PATIENCE_S), &r->e);
    r->rc = b ? 0 : -1;
    boot_close(b);
}

static void exchanges_twice(int rank, int size, struct report *r)
{
    exchange(rank, size, r);
    if (r->rc == 0)
        exchange(rank, size, r);
}

static void breaks_rules(int rank, int size, struct report *r)
{
    (void)rank;
    void *data;
    size_t n;
    char key[BOOT_KEY_MAX + 2];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    boot_t *b = join(r);
    r->rc = put(b, "big", 0, BOOT_VALUE_MAX + 1, &r->e) == 0 || !strstr(r->e.text, "65535") ? 1
          : boot_put(b, "", "x", 1, &r->e) == 0                                             ? 2
          : boot_put(b, key, "x", 1, &r->e) == 0                                            ? 3
          : boot_get(b, size, "k", &data, &n, deadline_in(5), &r->e) == 0                   ? 4
          : boot_get(b, 0, "k", &data, &n, deadline_in(5), &r->e) == 0                      ? 5
          : !strstr(r->e.text, "rank 0 has put nothing under k")                            ? 6
          : boot_fence(b, deadline_in(PATIENCE_S), &r->e) < 0                               ? 7
                                                                                            : 0;
    boot_close(b);
}

/* ---- tests ---- */

static void values_reach_every_rank(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 7, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        boot_server_t *s = serve_unix(sizes[i]);
        run_ranks(s, sizes[i], exchange);
        assert_all_well(sizes[i]);
        boot_server_destroy(s);
    }
    boot_server_t *s = serve("tcp:127.0.0.1:0", 3);
    assert_null(strstr(boot_server_addr(s), ":0\0"));
    run_ranks(s, 3, exchange);
    assert_all_well(3);
    boot_server_destroy(s);
    char path[64];
    snprintf(path, sizeof path, "unix:/tmp/ddp-t-%d.sock", (int)getpid());
    s = serve(path, 2);
    run_ranks(s, 2, exchange);
    assert_all_well(2);
    boot_server_destroy(s);
    assert_int_equal(access(path + 5, F_OK), -1);
    boot_server_destroy(NULL);
}

static void the_same_ranks_may_come_again(void **state)
{
    (void)state;
    boot_server_t *s = serve_unix(5);
    run_ranks(s, 5, exchanges_twice);
    assert_all_well(5);
    boot_server_destroy(s);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    boot_server_t *s = serve_unix(2);
    run_ranks(s, 2, breaks_rules);
    assert_all_well(2);
    boot_server_destroy(s);
    ddp_error_t e;
    static const char *const bad[] = {"", "unix:", "unix:@", "unix:x", "tcp:", "tcp:1", "tcp::1", "tcp:h:", "tcp:h:x",
                                      "tcp:h:65536", "udp:h:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(boot_server_create(bad[i], token, 1, &e));
        assert_error_has(e, "tcp:HOST:PORT");
    }
    assert_null(boot_server_create("unix:@ddp-t", "short", 1, &e));
    assert_null(boot_server_create("unix:@ddp-t", token, 0, &e));
}

static void the_dead_are_named_at_once(void **state)
{
    (void)state;
    static const struct {
        rank_f *f;
        const char *text;
    } cases[] = {{one_dies, "rank 3 died"}, {one_leaves, "rank 3 left"}, {one_aborts, "rank 3 aborted: out of luck"}};
    for (size_t i = 0; i < 3; i++) {
        boot_server_t *s = serve_unix(4);
        run_ranks(s, 4, cases[i].f);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(report[r].rc, -1);
            assert_int_equal(report[r].e.domain, DDP_E_PEER);
            assert_error_has(report[r].e, cases[i].text);
            assert_true(report[r].took_s < PATIENCE_S / 3);
        }
        int rank = -1, code = -1;
        const char *why;
        assert_int_equal(boot_server_aborted(s, &rank, &code, &why), cases[i].f == one_aborts);
        if (cases[i].f == one_aborts) {
            assert_int_equal(rank, 3);
            assert_int_equal(code, 42);
            assert_string_equal(why, "out of luck");
        }
        boot_server_destroy(s);
    }
}

static void a_rank_that_never_came_is_missed(void **state)
{
    (void)state;
    boot_server_t *s = serve_unix(2);
    boot_server_rank_gone(s, 1, "exited with code 3");
    pid_t pid = start(s, 0, 2, &report[0], waits_for_nobody);
    drive(s, &pid, 1);
    assert_error_has(report[0].e, "rank 1 exited with code 3 without");
    boot_server_destroy(s);
}

static void deadlines_name_who_is_late(void **state)
{
    (void)state;
    boot_server_t *s = serve_unix(2);
    pid_t pid = start(s, 0, 2, &report[0], waits_for_nobody);
    drive(s, &pid, 1);
    assert_int_equal(report[0].e.domain, DDP_E_TIMEOUT);
    assert_error_has(report[0].e, "rank 1 (not connected)");
    boot_server_destroy(s);
}

static void giving_up_ends_the_exchange(void **state)
{
    (void)state;
    boot_server_t *s = serve_unix(3);
    pid_t pid[3];
    for (int r = 0; r < 3; r++)
        pid[r] = start(s, r, 3, &report[r], one_is_late);
    drive(s, pid + 1, 2);
    for (int i = 0; i < 5; i++) /* what the two said last is read before rank 0 speaks again */
        assert_int_equal(boot_server_step(s, 0, NULL), 0);
    report[0].may_go_on = 1;
    drive(s, pid, 1);
    assert_error_has(report[0].e, "gave up waiting for rank 0");
    for (int r = 0; r < 3; r++)
        assert_int_equal(report[r].rc, -1);
    boot_server_destroy(s);
}

static void impostors_are_refused(void **state)
{
    (void)state;
    static const struct {
        int rank, size;
        const char *text;
    } cases[] = {{7, 8, "8 ranks, but there are 3"}, {1, 3, "rank 1 is connected already"}};
    boot_server_t *s = serve_unix(3);
    /* A rank 1 that stays: connected by hand, welcomed, silent. */
    struct wire_addr a;
    unsigned char hello[WIRE_HEAD + WIRE_HELLO_BODY], welcome[WIRE_HEAD];
    assert_int_equal(wire_addr_parse(boot_server_addr(s), 0, &a, NULL), 0);
    int fd = wire_socket(&a, NULL);
    assert_int_equal(connect(fd, (struct sockaddr *)&a.sa, a.len), 0);
    wire_head(hello, WIRE_HELLO, WIRE_HELLO_BODY);
    memcpy(hello + WIRE_HEAD, WIRE_MAGIC, WIRE_MAGIC_LEN);
    memcpy(hello + WIRE_HEAD + WIRE_MAGIC_LEN, token, WIRE_TOKEN_LEN);
    wire_put32(hello + sizeof hello - 8, 1);
    wire_put32(hello + sizeof hello - 4, 3);
    assert_int_equal(io_send_all(fd, hello, sizeof hello, deadline_in(5), "server", NULL), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(boot_server_step(s, 0, NULL), 0);
    assert_int_equal(io_recv_all(fd, welcome, sizeof welcome, deadline_in(5), "server", NULL), 0);
    assert_int_equal(welcome[4], WIRE_WELCOME);
    for (size_t i = 0; i < 2; i++) {
        pid_t pid = start(s, cases[i].rank, cases[i].size, &report[0], only_opens);
        drive(s, &pid, 1);
        assert_int_equal(report[0].rc, -1);
        assert_int_equal(report[0].e.domain, DDP_E_BOOT);
        assert_error_has(report[0].e, cases[i].text);
    }
    /* With the token, but against the rules: it is dropped, and missed. */
    unsigned char huge[WIRE_HEAD] = {0xff, 0xff, 0xff, 0xff, WIRE_PUT};
    assert_int_equal(io_send_all(fd, huge, sizeof huge, deadline_in(5), "server", NULL), 0);
    pid_t pid = start(s, 0, 3, &report[0], waits_for_nobody);
    drive(s, &pid, 1);
    assert_error_has(report[0].e, "rank 1 died");
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
    if (kind == 1 || kind == 2) { /* a hello with a token off by its last digit; another message in its place */
        wire_head(data, kind == 1 ? WIRE_HELLO : WIRE_FENCE, WIRE_HELLO_BODY);
        memcpy(data + WIRE_HEAD, WIRE_MAGIC, WIRE_MAGIC_LEN);
        memcpy(data + WIRE_HEAD + WIRE_MAGIC_LEN, token, WIRE_TOKEN_LEN);
        data[WIRE_HEAD + WIRE_MAGIC_LEN + WIRE_TOKEN_LEN - 1] ^= kind == 1;
        n = WIRE_HEAD + WIRE_HELLO_BODY;
    }
    if (kind == 3 || kind == 4) { /* lengths: more than a hello, none at all */
        wire_put32(data, kind == 3 ? WIRE_HELLO_BODY + 2 : 0);
        n = WIRE_HEAD;
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

/* Ranks 0 and 1 exchange, 2 and 3 are strangers meanwhile, 4 has the wrong token. */
static void some_are_strangers(int rank, int size, struct report *r)
{
    (void)size;
    if (rank == 4)
        setenv("DDP_BOOT_TOKEN", "0000000000000000000000000000000000000000000000000000000000000000", 1);
    if (rank == 2 || rank == 3)
        knocks(rank, size, r);
    else if (rank == 4)
        only_opens(rank, size, r);
    else {
        setenv("DDP_SIZE", "2", 1);
        exchange(rank, 2, r);
    }
}

static void strangers_harm_only_themselves(void **state)
{
    (void)state;
    boot_server_t *s = serve_unix(2);
    run_ranks(s, 5, some_are_strangers);
    assert_int_equal(report[4].rc, -1);
    assert_error_has(report[4].e, "DDP_BOOT_TOKEN");
    assert_all_well(4);
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
        memset(token, 'a', sizeof token - 1);
        set_env("unix:@ddp-t", 0, 2);
        if (cases[i].value)
            setenv(cases[i].name, cases[i].value, 1);
        else
            unsetenv(cases[i].name);
        assert_null(boot_open(deadline_in(5), &e));
        assert_error_has(e, cases[i].text);
    }
    ddp_error_t e; /* a TCP server may come later: waits for it until the deadline */
    set_env("tcp:127.0.0.1:1", 0, 2);
    assert_null(boot_open(deadline_in(0.1), &e));
    assert_error_has(e, "tcp:127.0.0.1:1 cannot be reached");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(values_reach_every_rank),    cmocka_unit_test(the_same_ranks_may_come_again),
    cmocka_unit_test(wrong_use_is_refused),       cmocka_unit_test(the_dead_are_named_at_once),
    cmocka_unit_test(impostors_are_refused),      cmocka_unit_test(a_rank_that_never_came_is_missed),
    cmocka_unit_test(deadlines_name_who_is_late), cmocka_unit_test(giving_up_ends_the_exchange),
    cmocka_unit_test(environment_is_strict),      cmocka_unit_test(strangers_harm_only_themselves),
};

int main(void)
{
    report = mmap(NULL, RANKS_MAX * sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return report == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
