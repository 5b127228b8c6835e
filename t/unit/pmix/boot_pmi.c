/* The boot over PMI 1 against a launcher that is a thread of this test: what rank 0's card looks like on the way, and
 * what launchers say that are slow, odd, broken or gone. (t/t2007 has Slurm's.) */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pmix/boot.h"
#include "pmix/boot_host.h"
#include "runtime/base/clock.h"

enum { LINES_MAX = 16, LINE_BYTES = 1200 };

/* A launcher of one rank: it answers each request by `answers`, in order, and keeps what it was asked. */
struct launcher {
    int fd;
    const char *const *answers; /* NULL ends; "" : none, and it waits for the end */
    bool is_slow;               /* byte by byte */
    char asked[LINES_MAX][LINE_BYTES];
    int n_asked;
    char card[LINE_BYTES];      /* of put; in an answer the letter @ stands for it */
    pthread_t thread;
};

static void answer(struct launcher *l, const char *text)
{
    char line[2 * LINE_BYTES];
    const char *at = strchr(text, '@');
    int n = at ? snprintf(line, sizeof line, "%.*s%s%s\n", (int)(at - text), text, l->card, at + 1)
               : snprintf(line, sizeof line, "%s\n", text);
    for (int i = 0; l->is_slow && i < n; i++)
        send(l->fd, line + i, 1, MSG_NOSIGNAL);
    if (!l->is_slow)
        send(l->fd, line, (size_t)n, MSG_NOSIGNAL);
}

static void *launch(void *arg)
{
    struct launcher *l = arg;
    ssize_t n;
    while (l->answers[l->n_asked] && (n = recv(l->fd, l->asked[l->n_asked], LINE_BYTES - 1, 0)) > 0) {
        char *line = l->asked[l->n_asked], *value = strstr(line, " value=");
        line[strcspn(line, "\n")] = 0;
        if (value && !strncmp(line, "cmd=put ", 8))
            strcpy(l->card, value + 7);
        if (*l->answers[l->n_asked])
            answer(l, l->answers[l->n_asked]);
        l->n_asked++;
    }
    if (l->n_asked && !*l->answers[l->n_asked - 1])
        recv(l->fd, l->asked[0], 1, MSG_PEEK); /* until the rank has gone */
    close(l->fd);
    return NULL;
}

static size_t card_bytes; /* the next card's length; 0: as it is */

const char *__real_boot_host_card(const boot_host_t *h);
const char *__wrap_boot_host_card(const boot_host_t *h);

/* The last of its addresses is as long as it takes. */
const char *__wrap_boot_host_card(const boot_host_t *h)
{
    static char card[LINE_BYTES];
    size_t n = (size_t)snprintf(card, sizeof card, "%s", __real_boot_host_card(h));
    while (n + 20 < card_bytes)
        n += (size_t)snprintf(card + n, sizeof card - n, " 127.0.0.1");
    if (n < card_bytes)
        snprintf(card + n, sizeof card - n, " %0*d", (int)(card_bytes - n - 1), 1);
    return card;
}

static boot_t *open_under(struct launcher *l, const char *const *answers, bool is_slow, double timeout_s,
                          ddp_error_t *e)
{
    int pair[2];
    char fd[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    *l = (struct launcher){.fd = pair[0], .answers = answers, .is_slow = is_slow};
    assert_int_equal(pthread_create(&l->thread, NULL, launch, l), 0);
    snprintf(fd, sizeof fd, "%d", pair[1]);
    setenv("PMI_FD", fd, 1);
    boot_t *b = boot_open(deadline_in(timeout_s), e);
    close(pair[1]);
    pthread_join(l->thread, NULL);
    return b;
}

static const char *const good[] = {"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
                                   "cmd=my_kvsname rc=0 kvsname=17.0",
                                   "cmd=put_result rc=0",
                                   "cmd=barrier_out rc=0",
                                   "cmd=get_result rc=0 value=@",
                                   "cmd=finalize_ack rc=0",
                                   NULL};

static int set_up(void **state)
{
    static const char *const others[] = {"DDP_BOOT", "DDP_BOOT_ADDR", "PMIX_NAMESPACE", "PMIX_RANK", "SLURM_NTASKS"};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        unsetenv(others[i]);
    setenv("SLURM_STEP_NUM_NODES", "1", 1);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    return 0;
}

static void rank_0_publishes_its_card_and_leaves(void **state)
{
    (void)state;
    static const char *const asked[] = {"cmd=init pmi_version=1 pmi_subversion=1", "cmd=get_my_kvsname",
                                        "cmd=put kvsname=17.0 key=ddp.boot value=", "cmd=barrier_in",
                                        "cmd=get kvsname=17.0 key=ddp.boot", "cmd=finalize"};
    for (int slow = 0; slow < 2; slow++) {
        struct launcher l;
        ddp_error_t e = {0};
        void *data;
        size_t n;
        boot_t *b = open_under(&l, good, slow, 20, &e);
        if (!b)
            fail_msg("%s", e.text);
        assert_int_equal(l.n_asked, 6);
        for (int i = 0; i < 6; i++)
            assert_true(i == 2 ? !strncmp(l.asked[i], asked[i], strlen(asked[i])) : !strcmp(l.asked[i], asked[i]));
        assert_null(strchr(l.card, ' ')); /* a value holds none */
        assert_int_equal(boot_put(b, "k", "v", 1, &e) | boot_fence(b, deadline_in(20), &e), 0);
        assert_int_equal(boot_get(b, 0, "k", &data, &n, deadline_in(20), &e), 0);
        assert_true(n == 1 && *(char *)data == 'v');
        free(data);
        assert_int_equal(boot_leave(b, &e), 0);
    }
}

/* 700 bytes, and the NUL behind them, are one too many. */
static void of_a_card_that_is_too_long_the_last_address_is_left_out(void **state)
{
    (void)state;
    for (size_t n = 699; n <= 700; n++) {
        struct launcher l;
        ddp_error_t e = {0};
        card_bytes = n;
        boot_t *b = open_under(&l, good, false, 20, &e);
        card_bytes = 0;
        if (!b)
            fail_msg("%s", e.text);
        assert_true(n < 700 ? strlen(l.card) == n : strlen(l.card) < n - 1);
        const char *last = strrchr(l.card, ',');
        assert_int_equal(strcmp(last, ",127.0.0.1") == 0, n == 700);
        assert_int_equal(boot_leave(b, &e), 0);
    }
}

/* MPICH's launcher gives no code with some answers, and a message with others. */
static void other_launchers_words_are_understood(void **state)
{
    static const char *const hydra[] = {"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                                        "cmd=my_kvsname kvsname=kvs_1_0",
                                        "cmd=put_result rc=0 msg=success",
                                        "cmd=barrier_out",
                                        "cmd=get_result rc=0 msg=success value=@",
                                        "cmd=finalize_ack",
                                        NULL};
    struct launcher l;
    ddp_error_t e = {0};
    (void)state;
    boot_t *b = open_under(&l, hydra, false, 20, &e);
    if (!b)
        fail_msg("%s", e.text);
    assert_int_equal(boot_leave(b, &e), 0);
}

static void what_a_launcher_refuses_is_quoted(void **state)
{
    (void)state;
    static char endless[LINE_BYTES + 100];
    memset(endless, 'x', sizeof endless - 1);
    const struct {
        int at; /* this answer of `good` is another: */
        const char *answer, *error;
    } cases[] = {
        {0, "cmd=response_to_init rc=1 pmi_version=2", "boot: init: the launcher (PMI) says \"cmd=response"},
        {0, NULL, "PMI serves one program of libddp a task (use --ddp=on,mpi=pmix for more): boot: init: "},
        {0, "", "boot: init: the launcher (PMI): no answer before the deadline"},
        {1, "cmd=response_to_init rc=0", "boot: get_my_kvsname: the launcher (PMI) says"},
        {2, "cmd=put_result rc=1", "boot: put: the launcher (PMI) says \"cmd=put_result rc=1\""},
        {3, "", "boot: barrier_in: the launcher (PMI): no answer before the deadline"},
        {3, NULL, "boot: barrier_in: the launcher (PMI): "},
        {3, endless, "an answer of more than 1024 bytes"},
        {4, "cmd=get_result rc=1", "boot: get: the launcher (PMI) says"},
        {4, "cmd=get_result rc=0", "rank 0 names no address"},
        {4, "cmd=get_result rc=0 value=rubbish", "rank 0 names no address"},
        {4, "cmd=get_result rc=0 value=,,,,", "rank 0 names no address"},
        {4, "cmd=get_result rc=0 value=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef,,,,",
         "boot address \"tcp::\" is not"},
        {5, "cmd=finalize_ack rc=7", "boot: finalize: the launcher (PMI) says"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *answers[sizeof good / sizeof *good];
        struct launcher l;
        ddp_error_t e = {0};
        memcpy(answers, good, sizeof good);
        answers[cases[i].at] = cases[i].answer;
        if (open_under(&l, answers, false, cases[i].answer && !*cases[i].answer ? 0.2 : 20, &e))
            fail_msg("case %d: no error", (int)i);
        assert_error_has(e, cases[i].error);
    }
}

static void an_environment_that_cannot_be_is_refused(void **state)
{
    (void)state;
    const struct {
        const char *fd, *rank, *size, *error;
    } cases[] = {{"999", "0", "1", "PMI_FD=999 is no open socket: a program between srun and this one has closed it"},
                 {"three", "0", "1", "PMI_FD=three, PMI_RANK=0, PMI_SIZE=1: no descriptor, or no rank of a job"},
                 {"0", "1", "1", "PMI_FD=0, PMI_RANK=1, PMI_SIZE=1: no descriptor, or no rank of a job"},
                 {"0", "0", "-1", "no rank of a job"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ddp_error_t e = {0};
        setenv("PMI_FD", cases[i].fd, 1);
        setenv("PMI_RANK", cases[i].rank, 1);
        setenv("PMI_SIZE", cases[i].size, 1);
        assert_null(boot_open(deadline_in(5), &e));
        assert_error_has(e, cases[i].error);
    }
    ddp_error_t e = {0};
    char fd[16];
    snprintf(fd, sizeof fd, "%d", open("/dev/null", O_RDWR | O_CLOEXEC)); /* the number is another file's by now */
    setenv("PMI_FD", fd, 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    assert_null(boot_open(deadline_in(5), &e));
    assert_error_has(e, "is no open socket: a program between srun and this one has closed it");
    unsetenv("PMI_FD");
    setenv("DDP_BOOT", "pmi", 1);
    assert_null(boot_open(deadline_in(5), &e));
    assert_error_has(e, "srun --mpi=pmi2");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(rank_0_publishes_its_card_and_leaves, set_up),
    cmocka_unit_test_setup(of_a_card_that_is_too_long_the_last_address_is_left_out, set_up),
    cmocka_unit_test_setup(other_launchers_words_are_understood, set_up),
    cmocka_unit_test_setup(what_a_launcher_refuses_is_quoted, set_up),
    cmocka_unit_test_setup(an_environment_that_cannot_be_is_refused, set_up),
};

UNIT_MAIN(tests)
