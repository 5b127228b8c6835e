/* Nodes, strangers and srun on this machine, over real sockets. */
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "spank/gather_impl.h"

#define PATIENCE_S 20.0
#define NODES_MAX 40

/* srun, and what it has printed. */
struct srun {
    gather_t *gather;
    int out[2];
    char address[128], printed[32768];
};

/* A node: a thread that sends a text. */
struct node {
    pthread_t thread;
    const char *address, *host, *list, *text;
    char name[16];
    bool is_printed;
};

static char logged[8192]; /* of all nodes that printed themselves */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void log_line(const char *line)
{
    pthread_mutex_lock(&log_lock);
    strcat(strcat(logged, line), "\n");
    pthread_mutex_unlock(&log_lock);
}

static void srun_begin(struct srun *s, double collect_s)
{
    ddp_error_t e = {0};
    logged[0] = 0;
    *s = (struct srun){0};
    assert_int_equal(pipe(s->out), 0);
    s->gather = gather_create(&(struct gather_options){s->out[1], {0, 0}, collect_s}, &e);
    if (!s->gather || gather_start(s->gather, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(gather_start(s->gather, &e), 0);
    snprintf(s->address, sizeof s->address, "%s", gather_address(s->gather));
}

/* Everything that was printed, once srun is gone. */
static const char *srun_end(struct srun *s)
{
    size_t n = 0;
    gather_destroy(s->gather);
    close(s->out[1]);
    for (ssize_t r; (r = read(s->out[0], s->printed + n, sizeof s->printed - 1 - n)) > 0;)
        n += (size_t)r;
    close(s->out[0]);
    return s->printed;
}

static const char *node_variable(const char *name, void *arg)
{
    const struct node *n = arg;
    if (!strcmp(name, GATHER_VARIABLE))
        return n->address;
    if (!strcmp(name, "SLURM_STEP_NODELIST"))
        return n->list;
    return strcmp(name, "SLURM_SRUN_COMM_HOST") ? NULL : n->host;
}

static void *node_run(void *arg)
{
    struct node *n = arg;
    struct gather_request r = {node_variable, n, n->name, log_line, NULL};
    n->is_printed = gather_send(&r, n->text);
    return NULL;
}

/* Node `number` of the list, from address. */
static void node_begin(struct node *n, const char *address, const char *list, int number, const char *text)
{
    *n = (struct node){.address = address, .host = "127.0.0.1", .list = list, .text = text};
    snprintf(n->name, sizeof n->name, "n%d", number);
    assert_int_equal(pthread_create(&n->thread, NULL, node_run, n), 0);
}

static bool node_end(struct node *n)
{
    assert_int_equal(pthread_join(n->thread, NULL), 0);
    return n->is_printed;
}

static int knock(const char *address)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(address))};
    inet_pton(AF_INET, "127.0.0.1", &sa.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

/* Whether srun has closed the connection, without a word. */
static bool is_shut(int fd)
{
    char byte;
    ddp_error_t e;
    int rc = io_recv_all(fd, &byte, 1, deadline_in(PATIENCE_S), "srun", &e);
    close(fd);
    return rc < 0 && e.domain == DDP_E_PEER;
}

static unsigned char *put_head(unsigned char *p, const char *token, uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t len[] = {a, b, c};
    memcpy(p, token, TOKEN_LEN);
    p += TOKEN_LEN;
    for (int i = 0; i < 3; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            *p++ = (unsigned char)(len[i] >> shift);
    return p;
}

/* Sends a head and n bytes after it. */
static int say(const char *address, const char *token, const uint32_t len[3], const char *body, size_t n)
{
    unsigned char m[HEAD_LEN + 256], *p = put_head(m, token, len[0], len[1], len[2]);
    int fd = knock(address);
    memcpy(p, body, n);
    assert_int_equal(io_send_all(fd, m, HEAD_LEN + n, deadline_in(PATIENCE_S), "srun", NULL), 0);
    return fd;
}

/* What was said before this has been dealt with after it: srun takes connections in order. */
static void wait_for_srun(const char *address)
{
    char garbage[HEAD_LEN];
    memset(garbage, 0xa5, sizeof garbage);
    int fd = knock(address);
    assert_int_equal(io_send_all(fd, garbage, sizeof garbage, deadline_in(PATIENCE_S), "srun", NULL), 0);
    assert_true(is_shut(fd));
}

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
    assert_string_equal(logged, "");
}

/* A node is not let go before the table is out. */
static void nodes_wait_for_the_table(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    srun_begin(&s, PATIENCE_S);
    const uint32_t len[] = {2, 6, 1};
    int fd = say(s.address, strchr(s.address, ':') + 1, len, "n1n[1-2]a", 9);
    struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = s.out[0], .events = POLLIN}};
    wait_for_srun(s.address);
    assert_int_equal(poll(p, 2, 0), 0);
    node_begin(&n, s.address, "n[1-2]", 2, "a");
    assert_int_equal(poll(&p[0], 1, 10000), 1);
    assert_int_equal(poll(&p[1], 1, 0), 1);
    assert_true(node_end(&n));
    close(fd);
    assert_string_equal(srun_end(&s), "ddp: n[1-2]: a\n");
}

static void strangers_are_shut_out(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    srun_begin(&s, PATIENCE_S);
    char wrong[TOKEN_LEN + 1];
    const char *right = strchr(s.address, ':') + 1;
    strcpy(wrong, right);
    wrong[TOKEN_LEN - 1] = wrong[TOKEN_LEN - 1] == '0' ? '1' : '0';
    wait_for_srun(s.address); /* garbage */
    assert_true(is_shut(say(s.address, wrong, (const uint32_t[]){2, 2, 1}, "n1n1x", 5)));
    /* with the token, but: too long, empty, another node, another node's NUL, no list */
    assert_true(is_shut(say(s.address, right, (const uint32_t[]){2, 2, GATHER_TEXT_MAX + 1}, "", 0)));
    assert_true(is_shut(say(s.address, right, (const uint32_t[]){256, 2, 1}, "", 0)));
    assert_true(is_shut(say(s.address, right, (const uint32_t[]){2, UINT32_MAX, 1}, "", 0)));
    assert_true(is_shut(say(s.address, right, (const uint32_t[]){0, 2, 1}, "n1x", 3)));
    assert_true(is_shut(say(s.address, right, (const uint32_t[]){2, 2, 0}, "n1n1", 4)));
    assert_true(is_shut(say(s.address, right, (const uint32_t[]){2, 2, 1}, "n9n1x", 5)));
    assert_true(is_shut(say(s.address, right, (const uint32_t[]){2, 2, 1}, "n\0n1x", 5)));
    assert_true(is_shut(say(s.address, right, (const uint32_t[]){2, 2, 1}, "n1n[x", 5)));
    assert_true(is_shut(say(s.address, right, (const uint32_t[]){2, 14, 1}, "n1n[1-999999999]x", 17)));
    /* half a head, half a body */
    int half = knock(s.address);
    assert_int_equal(io_send_all(half, right, 5, deadline_in(PATIENCE_S), "srun", NULL), 0);
    int body = say(s.address, right, (const uint32_t[]){2, 2, 100}, "n1n1x", 5);
    assert_true(is_shut(half));
    assert_true(is_shut(body));
    node_begin(&n, s.address, "n1", 1, "well\n");
    assert_true(node_end(&n));
    assert_string_equal(srun_end(&s), "ddp: n1: well\n");
}

/* More silent strangers than srun has places for: a node gets through at once. */
static void many_strangers_keep_nobody_out(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    int fd[400];
    srun_begin(&s, PATIENCE_S);
    for (int i = 0; i < 400; i++)
        fd[i] = knock(s.address);
    node_begin(&n, s.address, "n1", 1, "well\n");
    assert_true(node_end(&n));
    for (int i = 0; i < 400; i++)
        close(fd[i]);
    assert_string_equal(srun_end(&s), "ddp: n1: well\n");
}

static void a_node_counts_once_and_lists_agree(void **state)
{
    (void)state;
    struct srun s;
    struct node other, two;
    srun_begin(&s, PATIENCE_S);
    const char *token = strchr(s.address, ':') + 1;
    const uint32_t len[] = {2, 6, 1};
    int first = say(s.address, token, len, "n1n[1-2]a", 9);
    wait_for_srun(s.address);
    assert_true(is_shut(say(s.address, token, len, "n1n[1-2]b", 9)));
    node_begin(&other, s.address, "n[1-3]", 3, "of another step\n");
    assert_false(node_end(&other));
    assert_string_equal(logged, "ddp: n3: of another step\n");
    node_begin(&two, s.address, "n[1-2]", 2, "b\n");
    assert_true(node_end(&two));
    close(first);
    assert_string_equal(srun_end(&s), "ddp: n1: a\nddp: n2: b\n");
}

static void nothing_that_a_text_holds_drives_a_terminal(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    srun_begin(&s, PATIENCE_S);
    node_begin(&n, s.address, "n1", 1, "\033[2Jgone\r\007\nddp: n2: forged\302\233\n");
    assert_true(node_end(&n));
    assert_string_equal(srun_end(&s), "ddp: n1:\n  ?[2Jgone??\n  ddp: n2: forged??\n");
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    srun_begin(&s, 0.2);
    node_begin(&n, s.address, "n[1-4]", 2, "here\n");
    assert_true(node_end(&n));
    assert_string_equal(srun_end(&s), "ddp: n2: here\nddp: n[1,3-4]: have not told where their ranks run\n");
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
    assert_string_equal(logged, "ddp: n1: GPU 0\nddp: n1: GPU 1\n");
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
    assert_string_equal(logged, "ddp: n1: here\n");
    gather_destroy(NULL);
    assert_true(clock_ns() - start < 5 * NS_PER_S);
}

/* A terminal that is stopped takes no table: neither node nor srun waits for it for ever. */
static void a_print_that_hangs_holds_nobody(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    char filling[4096] = "";
    srun_begin(&s, PATIENCE_S);
    struct pollfd p = {.fd = s.out[1], .events = POLLOUT};
    while (poll(&p, 1, 0) == 1)
        assert_true(write(s.out[1], filling, sizeof filling) > 0);
    node_begin(&n, s.address, "n1", 1, "here\n");
    assert_true(node_end(&n)); /* srun has done what it could */
    gather_destroy(s.gather);
    close(s.out[0]);
    close(s.out[1]);
}

/* srun's own children (a shepherd, a prolog) have the socket, and may end as they like. */
static void a_child_of_sruns_changes_nothing(void **state)
{
    (void)state;
    struct srun s;
    struct node n, late;
    int go[2];
    assert_int_equal(pipe(go), 0);
    srun_begin(&s, PATIENCE_S);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        gather_destroy(s.gather);
        close(go[1]);
        _exit(read(go[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(go[0]);
    node_begin(&n, s.address, "n[1-1]", 1, "here\n");
    assert_true(node_end(&n));
    node_begin(&late, s.address, "n[1-1]", 1, "late\n");
    assert_false(node_end(&late)); /* refused, though the child still has the socket */
    close(go[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_string_equal(srun_end(&s), "ddp: n1: here\n");
}

static void ports_can_be_limited(void **state)
{
    (void)state;
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

static char noted[512];
static void note_line(const char *line)
{
    snprintf(noted, sizeof noted, "%s", line);
}

static void a_node_that_finds_nobody_prints_itself(void **state)
{
    (void)state;
    char token[TOKEN_LEN + 1] = "", good[TOKEN_LEN + 16];
    memset(token, 'a', TOKEN_LEN);
    struct srun s; /* a port that nobody listens at */
    srun_begin(&s, PATIENCE_S);
    snprintf(good, sizeof good, "%d:%s", atoi(s.address), token);
    srun_end(&s);
    const struct {
        const char *address, *host, *why;
    } cases[] = {
        {NULL, "127.0.0.1", "SLURM_DDP_GATHER"}, {"", "127.0.0.1", "SLURM_DDP_GATHER"},
        {"12", "127.0.0.1", "SLURM_DDP_GATHER"}, {"80:ab", "127.0.0.1", "SLURM_DDP_GATHER"},
        {good, "srun.example", "no address"},    {good, NULL, "where srun is"},
        {good, "127.0.0.1", "cannot be reached"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node n = {.address = cases[i].address, .host = cases[i].host, .list = "n1", .text = "a\n", .name = "n1"};
        struct gather_request r = {node_variable, &n, n.name, log_line, note_line};
        logged[0] = noted[0] = 0;
        assert_false(gather_send(&r, n.text));
        assert_string_equal(logged, "ddp: n1: a\n");
        if (!strstr(noted, cases[i].why))
            fail_msg("\"%s\" lacks \"%s\"", noted, cases[i].why);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nodes_that_look_alike_are_printed_once),
    cmocka_unit_test(nodes_wait_for_the_table),
    cmocka_unit_test(strangers_are_shut_out),
    cmocka_unit_test(many_strangers_keep_nobody_out),
    cmocka_unit_test(a_node_counts_once_and_lists_agree),
    cmocka_unit_test(nothing_that_a_text_holds_drives_a_terminal),
    cmocka_unit_test(who_does_not_come_is_named),
    cmocka_unit_test(who_comes_late_prints_itself),
    cmocka_unit_test(srun_ends_when_it_likes),
    cmocka_unit_test(a_print_that_hangs_holds_nobody),
    cmocka_unit_test(a_child_of_sruns_changes_nothing),
    cmocka_unit_test(ports_can_be_limited),
    cmocka_unit_test(a_node_that_finds_nobody_prints_itself),
};
UNIT_MAIN(tests)
