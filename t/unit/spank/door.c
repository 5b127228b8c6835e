/* The guard's door, and who comes to it: programs, and groups of another framework in them. */
#include "config.h"
#include "t/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmix/boot.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"
#include "spank/guard/impl.h"

static const char said[] = "rank 0 (n1) aborted: no such sample";
static guard_door_t *door; /* of rank 1 of 2, where a test opens no other */
static guard_door_t *doors[16]; /* all: none is ever closed */
static int n_doors;

static void begin(int rank, int generation)
{
    struct seat seat = {.rank = rank, .size = 2, .n_nodes = 1};
    guard_door_begin(door, generation, &seat);
}

/* Guards keep theirs until they end. */
static int open_door(int rank, bool keeps)
{
    char name[DOOR_NAME_MAX], mine[GUARDS_TOKEN_LEN + 1];
    snprintf(mine, sizeof mine, "%0*x%0*x", GUARDS_TOKEN_LEN / 2, (unsigned)getpid(), GUARDS_TOKEN_LEN / 2, 1u);
    door = doors[n_doors] = guard_door_open(mine, n_doors + 1, keeps, NULL);
    n_doors++;
    if (!door)
        return -1;
    begin(rank, 0);
    return setenv(DOOR_VARIABLE, door_name(mine, DOOR_OF_RANK, n_doors, name), 1);
}

static int set_up(void **state)
{
    (void)state;
    return open_door(1, false);
}

struct attendant {
    pthread_t thread;
    atomic_bool is_over;
};

static void *attend(void *arg)
{
    struct attendant *g = arg;
    while (!g->is_over) {
        poll(&(struct pollfd){.fd = guard_door_fd(door), .events = POLLIN}, 1, 2);
        guard_door_step(door);
    }
    return NULL;
}

static int put(void *ctx, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    (void)ctx, (void)key, (void)data, (void)n, (void)errp;
    return 0;
}

static long get(void *ctx, const char *key, void *data, size_t size, double timeout_s, ddp_error_t *errp)
{
    (void)ctx, (void)key, (void)data, (void)size, (void)timeout_s, (void)errp;
    return -1;
}

/* While the guard attends to its door. */
static boot_t *start_group(int rank, int size)
{
    struct attendant g = {.is_over = false};
    struct boot_given given = {.rank = rank, .size = size, .put = put, .get = get};
    ddp_error_t e = {0};
    assert_int_equal(pthread_create(&g.thread, NULL, attend, &g), 0);
    boot_t *b = boot_given(&given, &e);
    g.is_over = true;
    pthread_join(g.thread, NULL);
    if (!b)
        fail_msg("%s", e.text);
    return b;
}

static void a_group_of_all_ranks_tells_the_guard_who_was_it(void **state)
{
    int rank;
    (void)state;
    boot_t *b = start_group(1, 2);
    struct notice n = {.fd = notice_take()};
    assert_true(n.fd >= 0);
    boot_leave(b, NULL);
    notice_tell(&n, 0, said);
    close(n.fd);
    guard_door_step(door);
    assert_string_equal(guard_door_cause(door, &rank), said);
    assert_int_equal(rank, 0);
}

static void a_group_of_others_does_not(void **state)
{
    static const struct {
        int rank, size;
    } others[] = {{0, 2}, {1, 3}, {0, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        boot_t *b = start_group(others[i].rank, others[i].size);
        assert_int_equal(notice_fd(), -1);
        boot_leave(b, NULL);
    }
}

static void what_no_watch_has_taken_is_closed(void **state)
{
    (void)state;
    boot_t *b = start_group(1, 2);
    assert_true(notice_fd() >= 0);
    boot_leave(b, NULL);
    assert_int_equal(notice_fd(), -1);
}

static int knock(const char *hello)
{
    struct sockaddr_un a;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = door_address(getenv(DOOR_VARIABLE), &a);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(send(fd, hello, DOOR_HELLO_LEN, 0), DOOR_HELLO_LEN);
    return fd;
}

static int come(const char *hello)
{
    int fd = knock(hello);
    guard_door_step(door);
    return fd;
}

/* The next frame of that kind; false: there is none. */
static bool hear(int fd, enum door_kind wanted, struct frame *in, size_t *ret_n)
{
    int kind;
    while (frame_next(in, fd, &kind, ret_n) > 0)
        if (kind == (int)wanted)
            return true;
    return false;
}

static bool has_card(int fd)
{
    struct frame in = {0};
    size_t n;
    return hear(fd, DOOR_CARD, &in, &n);
}

/* The first program's card is for the first one, whatever groups came before. */
static void groups_are_not_counted_as_programs(void **state)
{
    (void)state;
    int group = come(DOOR_HELLO_GROUP), first = come(DOOR_HELLO), second = come(DOOR_HELLO);
    guard_door_tell(door, "1 card");
    assert_false(has_card(group));
    assert_true(has_card(first));
    assert_false(has_card(second));
    close(group);
    close(first);
    close(second);
}

static void rank_0_alone_brings_a_card(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(open_door(rank, false), 0);
        int first = come(DOOR_HELLO), second = come(DOOR_HELLO);
        frame_send(second, DOOR_CARD, "here", 4);
        const char *card = guard_door_step(door);
        assert_int_equal(card != NULL, rank == 0);
        assert_true(!card || !strcmp(card, "2 here"));
        close(first);
        close(second);
    }
}

static void the_first_cause_stays_until_the_next_generation(void **state)
{
    static const char first[] = "\1\0\0\0rank 1\ndied", second[] = "\0\0\0\0rank 0 died";
    int rank;
    (void)state;
    assert_int_equal(open_door(1, false), 0);
    int fd = come(DOOR_HELLO);
    frame_send(fd, DOOR_CARD, second, sizeof second - 1);
    frame_send(fd, DOOR_CAUSE, first, 3); /* too short: what lies behind it is of the frame before */
    guard_door_step(door);
    assert_null(guard_door_cause(door, &rank));
    frame_send(fd, DOOR_CAUSE, first, sizeof first - 1);
    frame_send(fd, DOOR_CAUSE, second, sizeof second - 1);
    guard_door_step(door);
    assert_string_equal(guard_door_cause(door, &rank), "rank 1 died");
    assert_int_equal(rank, 1);
    begin(1, 1);
    assert_null(guard_door_cause(door, &rank));
    close(fd);
}

/* A program that crashes does so by itself, whomever it has named before. */
static void a_cause_is_of_an_exit_code_alone(void **state)
{
    static const char word[] = "\0\0\0\0rank 0 left";
    (void)state;
    assert_int_equal(open_door(1, false), 0);
    int fd = come(DOOR_HELLO);
    frame_send(fd, DOOR_CAUSE, word, sizeof word - 1);
    guard_door_step(door);
    struct guard g = {.door = door, .seat.rank = 1, .status = W_EXITCODE(1, 0), .began = clock_ns(),
                      .kills = UINT64_MAX};
    struct death d = guard_make_death(&g);
    assert_int_equal(d.kind, DEATH_TOLD);
    assert_int_equal(d.rank, 0);
    assert_string_equal(d.text, "rank 0 left");
    g.status = SIGSEGV;
    d = guard_make_death(&g);
    assert_int_equal(d.kind, DEATH_ENDED);
    assert_int_equal(d.rank, 1);
    close(fd);
}

static void a_death_is_told_until_the_next_generation(void **state)
{
    char words[2 * NOTICE_TEXT_MAX];
    struct frame in[3] = {{0}};
    size_t n;
    (void)state;
    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = 0;
    assert_int_equal(open_door(1, false), 0);
    int early = come(DOOR_HELLO);
    guard_door_tell_death(door, 1, "died");
    assert_true(hear(early, DOOR_DEATH, &in[0], &n));
    assert_int_equal(n, 8);
    assert_memory_equal(in[0].bytes + FRAME_HEAD, "\1\0\0\0died", n);
    guard_door_tell_death(door, 1, words);
    int late = come(DOOR_HELLO_GROUP);
    assert_true(hear(late, DOOR_DEATH, &in[1], &n));
    assert_int_equal(n, 4 + NOTICE_TEXT_MAX);
    begin(1, 1);
    int next = come(DOOR_HELLO);
    assert_false(hear(next, DOOR_DEATH, &in[2], &n));
    close(early);
    close(late);
    close(next);
}

static int count_descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* A pipe's end, through which what is written in the other one comes: which of the memories it is. */
static void keep(int fd, uint32_t kind, char what)
{
    unsigned char body[4];
    int pipes[2];
    bytes_put32(body, kind);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(write(pipes[1], &what, 1), 1);
    frame_send_fd(fd, DOOR_KEEP, body, sizeof body, pipes[0]);
    guard_door_step(door);
    close(pipes[0]);
    close(pipes[1]);
}

/* What a program is handed over of each kind, '-' for nothing. */
static void hand_over_is(int fd, unsigned generation, const char want[DOOR_MEMORIES + 1])
{
    struct frame in = {.takes_fd = true};
    size_t n;
    for (unsigned kind = 0; kind < DOOR_MEMORIES; kind++) {
        unsigned char head[8] = {(unsigned char)generation, 0, 0, 0, (unsigned char)kind};
        char what = '-';
        assert_true(hear(fd, DOOR_KEEP, &in, &n));
        assert_int_equal(n, sizeof head);
        assert_memory_equal(in.bytes + FRAME_HEAD, head, n);
        int memory = frame_take_fd(&in);
        assert_true(memory < 0 || read(memory, &what, 1) == 1);
        io_close(memory);
        assert_int_equal(what, want[kind]);
    }
    assert_false(hear(fd, DOOR_KEEP, &in, &n));
}

static void memory_is_for_the_same_program_of_the_next_generation(void **state)
{
    (void)state;
    assert_int_equal(open_door(0, true), 0);
    int before = count_descriptors(), first = come(DOOR_HELLO), second = come(DOOR_HELLO);
    keep(second, 0, 'a');
    keep(second, 0, 'b'); /* in place of that */
    keep(first, 1, 'c');
    keep(first, DOOR_MEMORIES, 'd'); /* there is no such kind */
    keep(first, INT32_MAX, 'd');
    hand_over_is(first, 0, "--");
    close(first);
    close(second);
    guard_door_step(door);
    assert_int_equal(count_descriptors(), before + DOOR_MEMORIES);
    begin(0, 1);
    int group = come(DOOR_HELLO_GROUP);
    first = come(DOOR_HELLO), second = come(DOOR_HELLO);
    hand_over_is(first, 1, "-c");
    hand_over_is(second, 1, "b-");
    struct frame in = {0};
    size_t n;
    assert_false(hear(group, DOOR_KEEP, &in, &n));
    close(first);
    close(second);
    close(group);
}

static void a_guard_that_keeps_nothing_closes_what_it_gets(void **state)
{
    (void)state;
    assert_int_equal(open_door(0, false), 0);
    int before = count_descriptors(), fd = come(DOOR_HELLO);
    keep(fd, 0, 'a');
    close(fd);
    guard_door_step(door);
    assert_int_equal(count_descriptors(), before);
}

static void strangers_get_nothing(void **state)
{
    char c;
    (void)state;
    int fd = come("ddp guard dooR 1");
    assert_true(recv(fd, &c, 1, 0) <= 0);
    close(fd);
}

static void another_user_gets_nothing(void **state)
{
    char c;
    int fd;
    (void)state;
    unit_needs(geteuid() == 0, "root's rights");
    assert_int_equal(open_door(0, false), 0);
    unit_as_another_user(fd = knock(DOOR_HELLO));
    guard_door_step(door);
    assert_true(recv(fd, &c, 1, 0) <= 0);
    close(fd);
}

static void a_program_enters_no_door_of_another_user(void **state)
{
    ddp_error_t e = {0};
    (void)state;
    unit_needs(geteuid() == 0, "root's rights");
    unit_as_another_user(assert_int_equal(open_door(1, false), 0));
    boot_t *b = start_group(1, 2);
    assert_int_equal(notice_fd(), -1);
    boot_leave(b, NULL);
    setenv("DDP_BOOT", "guard", 1);
    b = boot_open(deadline_in(20), &e);
    unsetenv("DDP_BOOT");
    assert_null(b);
    assert_error_has(e, "the guard of this task cannot be reached at @ddp-guard-");
    assert_error_has(e, strerror(EPERM));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_group_of_all_ranks_tells_the_guard_who_was_it),
    cmocka_unit_test(a_group_of_others_does_not),
    cmocka_unit_test(what_no_watch_has_taken_is_closed),
    cmocka_unit_test(groups_are_not_counted_as_programs),
    cmocka_unit_test(rank_0_alone_brings_a_card),
    cmocka_unit_test(the_first_cause_stays_until_the_next_generation),
    cmocka_unit_test(a_cause_is_of_an_exit_code_alone),
    cmocka_unit_test(a_death_is_told_until_the_next_generation),
    cmocka_unit_test(memory_is_for_the_same_program_of_the_next_generation),
    cmocka_unit_test(a_guard_that_keeps_nothing_closes_what_it_gets),
    cmocka_unit_test(strangers_get_nothing),
    cmocka_unit_test(another_user_gets_nothing),
    cmocka_unit_test(a_program_enters_no_door_of_another_user),
};

int main(void)
{
    return cmocka_run_group_tests(tests, set_up, NULL);
}
