/* The lobby: whom it lets in, whom it drops, and that no crowd keeps it from ending a step. */
#include "t/unit/unit.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/lobby.h"

#define PATIENCE_S 20.0
enum { HEAD = 12, TOKEN_AT = 3, TOKEN = 8, GUESTS_MAX = 400 };

struct house {
    int fd; /* listens */
    struct sockaddr_un at;
    socklen_t at_n;
    lobby_t *lobby;
    int guest[GUESTS_MAX];
    char name[GUESTS_MAX + 1]; /* the last byte of each guest's head */
    size_t n_guests;
};

static void enter(void *arg, int fd, const unsigned char *head)
{
    struct house *h = arg;
    assert_true(h->n_guests < GUESTS_MAX);
    assert_memory_equal(head, "???abcdefgh", HEAD - 1);
    h->guest[h->n_guests] = fd;
    h->name[h->n_guests++] = (char)head[HEAD - 1];
    h->name[h->n_guests] = 0;
}

static void house_open(struct house *h, size_t n_max, double head_s)
{
    static int n_houses;
    ddp_error_t e;
    *h = (struct house){.at = {.sun_family = AF_UNIX}};
    int n = snprintf(h->at.sun_path + 1, sizeof h->at.sun_path - 1, "ddp-t-lobby-%d-%d", (int)getpid(), n_houses++);
    h->at_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    h->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(h->fd, (struct sockaddr *)&h->at, h->at_n), 0);
    assert_int_equal(listen(h->fd, SOMAXCONN), 0);
    struct lobby_options o = {.listen_fd = h->fd, .head_n = HEAD, .token_at = TOKEN_AT, .token = "abcdefgh",
                              .token_n = TOKEN, .is_same_user = true, .n_max = n_max, .head_s = head_s,
                              .enter = enter, .arg = h};
    h->lobby = lobby_create(&o, &e);
    if (!h->lobby)
        fail_msg("%s", e.text);
}

static void house_close(struct house *h)
{
    while (h->n_guests > 0)
        close(h->guest[--h->n_guests]);
    lobby_destroy(h->lobby);
    close(h->fd);
}

static int knock(const struct house *h)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&h->at, h->at_n), 0);
    return fd;
}

static int come(const struct house *h, const char *head, size_t n)
{
    int fd = knock(h);
    assert_int_equal(send(fd, head, n, MSG_NOSIGNAL), (ssize_t)n);
    return fd;
}

static bool is_shut(int fd)
{
    char c;
    return recv(fd, &c, 1, MSG_DONTWAIT) == 0;
}

/* All that there is to do now. */
static void settle(struct house *h)
{
    ddp_error_t e;
    while (poll(&(struct pollfd){.fd = lobby_fd(h->lobby), .events = POLLIN}, 1, 0) > 0)
        if (lobby_step(h->lobby, &e) < 0)
            fail_msg("%s", e.text);
}

static void the_token_opens_the_door(void **state)
{
    (void)state;
    struct house h;
    house_open(&h, 4, PATIENCE_S);
    int fd[] = {come(&h, "???abcdefghA", HEAD), come(&h, "???abcdefgX?", HEAD), come(&h, "???Xbcdefgh?", HEAD),
                come(&h, "???abcdefgh", HEAD - 1), come(&h, "", 0), come(&h, "???abcdefghCmore", HEAD + 4)};
    settle(&h);
    assert_string_equal(h.name, "AC");
    assert_false(is_shut(fd[0]));
    assert_true(is_shut(fd[1]));
    assert_true(is_shut(fd[2]));
    assert_false(is_shut(fd[3]));
    assert_false(is_shut(fd[4]));
    assert_int_equal(send(fd[3], "B", 1, MSG_NOSIGNAL), 1); /* in two parts */
    close(fd[4]);                                             /* goes by itself */
    settle(&h);
    assert_string_equal(h.name, "ACB");
    char more[8] = "";
    assert_int_equal(recv(h.guest[1], more, sizeof more, MSG_DONTWAIT), 4); /* what follows is the owner's */
    assert_string_equal(more, "more");
    house_close(&h);
    for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
        if (i != 4)
            close(fd[i]);
}

/* More than go in one step. */
static void all_who_say_nothing_are_too_late(void **state)
{
    (void)state;
    enum { SILENT = 2 * LOBBY_ACCEPTS + 1 };
    struct house h;
    int fd[SILENT];
    house_open(&h, SILENT, 0.05);
    for (int i = 0; i < SILENT; i++)
        fd[i] = knock(&h);
    for (int i = 0; i < SILENT; i++)
        while (!is_shut(fd[i])) {
            struct pollfd p = {.fd = lobby_fd(h.lobby), .events = POLLIN};
            assert_int_equal(poll(&p, 1, (int)PATIENCE_S * 1000), 1);
            assert_int_equal(lobby_step(h.lobby, NULL), 0);
        }
    for (int i = 0; i < SILENT; i++)
        close(fd[i]);
    house_close(&h);
}

static void who_says_nothing_is_too_late(void **state)
{
    (void)state;
    struct house h;
    ddp_error_t e;
    house_open(&h, 4, 0.05);
    int fd = come(&h, "???", 3);
    settle(&h);
    uint64_t deadline = deadline_in(PATIENCE_S);
    while (!is_shut(fd) && deadline_left_ns(deadline) > 0) {
        assert_true(poll(&(struct pollfd){.fd = lobby_fd(h.lobby), .events = POLLIN}, 1, (int)PATIENCE_S * 1000) > 0);
        assert_int_equal(lobby_step(h.lobby, &e), 0);
    }
    assert_true(is_shut(fd));
    assert_int_equal(poll(&(struct pollfd){.fd = lobby_fd(h.lobby), .events = POLLIN}, 1, 100), 0); /* it sleeps */
    close(fd);
    house_close(&h);
}

static void the_oldest_goes_but_is_heard_first(void **state)
{
    (void)state;
    struct house h;
    enum { PLACES = 3, MORE = 5 };
    int fd[PLACES + MORE];
    house_open(&h, PLACES, PATIENCE_S);
    for (int i = 0; i < PLACES; i++)
        fd[i] = knock(&h);
    settle(&h);
    for (int i = PLACES; i < PLACES + MORE; i++)
        fd[i] = knock(&h);
    assert_int_equal(send(fd[1], "???abcdefghB", HEAD, MSG_NOSIGNAL), HEAD);
    settle(&h);
    assert_string_equal(h.name, "B");
    for (int i = 0; i < PLACES + MORE; i++) {
        assert_int_equal(is_shut(fd[i]), i < MORE && i != 1);
        close(fd[i]);
    }
    house_close(&h);
}

static void descriptors_of_strangers_are_taken_back(void **state)
{
    (void)state;
    struct house h;
    struct rlimit before, few;
    enum { STRANGERS = 8 };
    int fd[STRANGERS], guest;
    ddp_error_t e;
    house_open(&h, 64, PATIENCE_S);
    for (int i = 0; i < STRANGERS; i++)
        fd[i] = knock(&h);
    guest = come(&h, "???abcdefghA", HEAD);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){(rlim_t)guest + 1 + STRANGERS / 2, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    settle(&h);
    assert_string_equal(h.name, "A");
    assert_true(is_shut(fd[0]));
    few.rlim_cur = (rlim_t)guest; /* nothing at all is free, and nobody waits who could give it */
    for (int i = 0; i < STRANGERS; i++)
        close(fd[i]);
    settle(&h);
    fd[0] = knock(&h);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, before.rlim_max}), 0);
    int rc = lobby_step(h.lobby, &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rc, -1);
    assert_error_has(e, "ulimit -n");
    close(fd[0]);
    close(guest);
    house_close(&h);
}

/* Until it is killed. */
static void flood(const struct house *h)
{
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        connect(fd, (const struct sockaddr *)&h->at, h->at_n);
        close(fd);
    }
}

/* Three who connect and close without end: a guest comes in all the same, and steps end. */
static void a_flood_keeps_nobody_out(void **state)
{
    (void)state;
    struct house h;
    pid_t pid[3];
    ddp_error_t e;
    house_open(&h, 8, PATIENCE_S);
    for (int i = 0; i < 3; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) {
            alarm(2 * (unsigned)PATIENCE_S);
            flood(&h);
        }
    }
    fflush(NULL);
    pid_t guest = fork();
    if (guest == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        bool is_in = io_connect(fd, (struct sockaddr *)&h.at, h.at_n, deadline_in(PATIENCE_S)) == 0 &&
                     io_send_all(fd, "???abcdefghA", HEAD, deadline_in(PATIENCE_S), "house", NULL) == 0;
        _exit(!is_in);
    }
    uint64_t deadline = deadline_in(PATIENCE_S);
    while (h.n_guests == 0 && deadline_left_ns(deadline) > 0)
        if (lobby_step(h.lobby, &e) < 0)
            fail_msg("%s", e.text);
    int status = -1;
    assert_int_equal(waitpid(guest, &status, 0), guest);
    for (int i = 0; i < 3; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    assert_string_equal(h.name, "A");
    assert_int_equal(status, 0);
    house_close(&h);
}

static void other_users_are_shut_out(void **state)
{
    (void)state;
    struct house h;
    int status, door[2];
    if (geteuid() != 0)
        return;
    house_open(&h, 4, PATIENCE_S);
    assert_int_equal(pipe(door), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        int fd = setuid(1) == 0 ? come(&h, "???abcdefghA", HEAD) : -1; /* daemon */
        _exit(fd < 0 || write(door[1], "x", 1) != 1 || recv(fd, &c, 1, 0) > 0);
    }
    char c;
    assert_int_equal(read(door[0], &c, 1), 1);
    settle(&h);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(h.name, "");
    close(door[0]);
    close(door[1]);
    house_close(&h);
}

/* The head is what was sent, each byte one more. */
static bool is_answer(void *arg, const unsigned char nonce[LOBBY_NONCE_LEN], const unsigned char *head)
{
    (void)arg;
    for (int i = 0; i < HEAD; i++)
        if (head[i] != (unsigned char)(nonce[i] + 1))
            return false;
    return true;
}

static void enter_as_asked(void *arg, int fd, const unsigned char *head)
{
    struct house *h = arg;
    (void)head;
    h->guest[h->n_guests++] = fd;
}

static void who_answers_is_let_in(void **state)
{
    (void)state;
    struct house h;
    unsigned char nonce[2][LOBBY_NONCE_LEN], head[HEAD];
    struct lobby_options o = {.head_n = HEAD, .check = is_answer, .is_same_user = true, .n_max = 4,
                              .head_s = PATIENCE_S, .enter = enter_as_asked, .arg = &h};
    house_open(&h, 4, PATIENCE_S);
    lobby_destroy(h.lobby);
    o.listen_fd = h.fd;
    h.lobby = lobby_create(&o, NULL);
    for (int i = 0; i < 2; i++) { /* the second says what the first had to */
        int fd = come(&h, "", 0);
        settle(&h);
        assert_int_equal(recv(fd, nonce[i], sizeof nonce[i], MSG_DONTWAIT), sizeof nonce[i]);
        for (int k = 0; k < HEAD; k++)
            head[k] = (unsigned char)(nonce[0][k] + 1);
        assert_int_equal(send(fd, head, sizeof head, MSG_NOSIGNAL), HEAD);
        settle(&h);
        assert_int_equal(h.n_guests, 1);
        close(fd);
    }
    assert_memory_not_equal(nonce[0], nonce[1], LOBBY_NONCE_LEN);
    house_close(&h);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    ddp_error_t e;
    struct lobby_options o = {.listen_fd = 0, .head_n = HEAD, .token_at = TOKEN_AT, .token_n = HEAD, .n_max = 1};
    assert_null(lobby_create(&o, &e));
    o.head_n = LOBBY_HEAD_MAX + 1;
    assert_null(lobby_create(&o, &e));
    lobby_destroy(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_token_opens_the_door),
    cmocka_unit_test(who_says_nothing_is_too_late),
    cmocka_unit_test(all_who_say_nothing_are_too_late),
    cmocka_unit_test(the_oldest_goes_but_is_heard_first),
    cmocka_unit_test(descriptors_of_strangers_are_taken_back),
    cmocka_unit_test(a_flood_keeps_nobody_out),
    cmocka_unit_test(other_users_are_shut_out),
    cmocka_unit_test(who_answers_is_let_in),
    cmocka_unit_test(wrong_use_is_refused),
};
UNIT_MAIN(tests)
