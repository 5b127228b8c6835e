/* What others, or broken nodes, may say to a verbose srun. */
#include "t/unit/unit.h"

#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "t/lib/gathering.h"

#define ATTEMPTS 5
#define AT_ONCE_NS (3 * NS_PER_S / 2) /* before a connection's time is over; this machine may be slow now and then */

/* srun closes the connection because of what was said, not because nothing more comes. */
static void refused(const char *address, const char *token, const uint32_t len[PART_COUNT], const char *body, size_t n)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t start = clock_ns();
        assert_true(is_shut(say(address, token, len, body, n)));
        if (clock_ns() - start < AT_ONCE_NS)
            return;
    }
    fail_msg("srun waits for more");
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
    refused(s.address, wrong, (const uint32_t[]){2, 2, 1}, "n1n1x", 5);
    /* with the token, but: too long, empty, a node that is not in the list, a NUL, a list that is none */
    refused(s.address, right, (const uint32_t[]){2, 2, GATHER_TEXT_MAX + 1}, "", 0);
    refused(s.address, right, (const uint32_t[]){256, 2, 1}, "", 0);
    refused(s.address, right, (const uint32_t[]){2, UINT32_MAX, 1}, "", 0);
    refused(s.address, right, (const uint32_t[]){0, 2, 1}, "n1x", 3);
    refused(s.address, right, (const uint32_t[]){2, 0, 1}, "n1x", 3);
    refused(s.address, right, (const uint32_t[]){2, 6, 1}, "n9n[1-2]x", 9);
    refused(s.address, right, (const uint32_t[]){3, 2, 1}, "n1\0n1x", 6);
    refused(s.address, right, (const uint32_t[]){2, 3, 1}, "n1n1\0x", 6);
    refused(s.address, right, (const uint32_t[]){2, 2, 1}, "n1n[x", 5);
    refused(s.address, right, (const uint32_t[]){2, 14, 1}, "n1n[1-999999999]x", 17);
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

#define STRANGERS 400

static struct rlimit limit_descriptors(rlim_t n)
{
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){n, before.rlim_max}), 0);
    return before;
}

#define NODES 500

/* As many nodes of a large step at once, before the first of them gets a word through. False: this machine was too slow
 * for srun to have had to wait for all of them. */
static bool come_before_words(int *ret_answered)
{
    struct srun s;
    int fd[NODES];
    srun_begin(&s, 1);
    uint64_t start = clock_ns();
    for (int i = 0; i < NODES; i++)
        fd[i] = knock(s.address);
    for (int i = 0; i < NODES; i++) {
        char body[64];
        int n = snprintf(body, sizeof body, "m%dm[0-499]x\n", i);
        tell(fd[i], strchr(s.address, ':') + 1, (const uint32_t[]){(uint32_t)n - 10, 8, 2}, body, (size_t)n);
    }
    bool is_prompt = clock_ns() - start < AT_ONCE_NS;
    *ret_answered = 0;
    for (int i = 0; i < NODES; i++) {
        char answer = 0;
        *ret_answered += io_recv_all(fd[i], &answer, 1, deadline_in(PATIENCE_S), "srun", NULL) == 0;
        close(fd[i]);
    }
    if (*ret_answered == NODES)
        assert_string_equal(srun_end(&s), "ddp: m[0-499]: x\n");
    else
        srun_end(&s);
    return is_prompt;
}

static void nodes_may_come_before_their_words(void **state)
{
    (void)state;
    struct rlimit before;
    int n_answered = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    if (before.rlim_max < 4 * NODES)
        return; /* nor would srun take so many */
    limit_descriptors(4 * NODES);
    for (int i = 0; i < ATTEMPTS && n_answered < NODES; i++)
        if (come_before_words(&n_answered))
            break;
    assert_int_equal(n_answered, NODES);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* More silent strangers than srun has places for: the oldest makes room at once. */
static void many_strangers_keep_nobody_out(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    bool is_prompt = false;
    struct rlimit before = limit_descriptors(1024);
    srun_begin(&s, PATIENCE_S);
    for (int i = 0; i < ATTEMPTS && !is_prompt; i++) {
        int fd[STRANGERS];
        uint64_t start = clock_ns();
        for (int k = 0; k < STRANGERS; k++)
            fd[k] = knock(s.address);
        assert_true(is_shut(fd[0]));
        is_prompt = clock_ns() - start < AT_ONCE_NS;
        for (int k = 1; k < STRANGERS; k++)
            close(fd[k]);
    }
    assert_true(is_prompt);
    node_begin(&n, s.address, "n1", 1, "well\n");
    assert_true(node_end(&n));
    assert_string_equal(srun_end(&s), "ddp: n1: well\n");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* The token alone makes nothing that follows it true. */
static void random_messages_do_no_harm(void **state)
{
    (void)state;
    struct srun s;
    struct node n;
    srun_begin(&s, PATIENCE_S);
    const char *token = strchr(s.address, ':') + 1;
    srand(7);
    for (int i = 0; i < 500; i++) {
        uint32_t len[] = {(uint32_t)rand() % 4, (uint32_t)rand() % 40, (uint32_t)rand() % 200};
        char body[256];
        size_t sent = (size_t)rand() % sizeof body;
        for (size_t k = 0; k < sizeof body; k++)
            body[k] = "n[]-,01 \n\0\x1b"[rand() % 11];
        body[0] = '?'; /* no name that a list could have */
        int fd = say(s.address, token, len, body, sent);
        close(fd);
    }
    node_begin(&n, s.address, "n1", 1, "well\n");
    assert_true(node_end(&n));
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
    node_begin(&other, s.address, "n[1-3]", 2, "of another step\n");
    assert_false(node_end(&other));
    assert_string_equal(node_log, "ddp: n2: of another step\n");
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
    assert_string_equal(srun_end(&s), "ddp: n1:\n  ?[2Jgone ?\n  ddp: n2: forged?\n");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(strangers_are_shut_out),
    cmocka_unit_test(many_strangers_keep_nobody_out),
    cmocka_unit_test(nodes_may_come_before_their_words),
    cmocka_unit_test(random_messages_do_no_harm),
    cmocka_unit_test(a_node_counts_once_and_lists_agree),
    cmocka_unit_test(nothing_that_a_text_holds_drives_a_terminal),
};
UNIT_MAIN(tests)
