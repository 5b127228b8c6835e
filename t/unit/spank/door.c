/* The guard's door, and who comes to it: programs, and groups of another framework in them. */
#include "config.h"
#include "t/unit/unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "pmix/boot.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"
#include "spank/guard_door.h"
#include "spank/guards.h"

static const char said[] = "rank 0 (n1) aborted: no such sample";
static guard_door_t *door; /* of rank 1 of 2 */

static int set_up(void **state)
{
    char name[DOOR_NAME_MAX], mine[GUARDS_TOKEN_LEN + 1];
    struct seat seat = {.rank = 1, .size = 2, .n_nodes = 1};
    (void)state;
    snprintf(mine, sizeof mine, "%0*x%0*x", GUARDS_TOKEN_LEN / 2, (unsigned)getpid(), GUARDS_TOKEN_LEN / 2, 1u);
    door = guard_door_open(mine, 1, false, NULL);
    if (!door)
        return -1;
    guard_door_begin(door, 0, &seat);
    return setenv(DOOR_VARIABLE, door_name(mine, DOOR_OF_RANK, 1, name), 1);
}

struct guard {
    pthread_t thread;
    atomic_bool is_over;
};

static void *attend(void *arg)
{
    struct guard *g = arg;
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
    struct guard g = {.is_over = false};
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

static int come(const char *hello)
{
    struct sockaddr_un a;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = door_address(getenv(DOOR_VARIABLE), &a);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(send(fd, hello, DOOR_HELLO_LEN, 0), DOOR_HELLO_LEN);
    guard_door_step(door);
    return fd;
}

static bool has_card(int fd)
{
    struct frame in = {0};
    int kind, rc;
    size_t n;
    while ((rc = frame_next(&in, fd, &kind, &n)) > 0)
        if (kind == DOOR_CARD)
            return true;
    return false;
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

static void strangers_get_nothing(void **state)
{
    char c;
    (void)state;
    int fd = come("ddp guard dooR 1");
    assert_true(recv(fd, &c, 1, 0) <= 0);
    close(fd);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_group_of_all_ranks_tells_the_guard_who_was_it),
    cmocka_unit_test(a_group_of_others_does_not),
    cmocka_unit_test(what_no_watch_has_taken_is_closed),
    cmocka_unit_test(groups_are_not_counted_as_programs),
    cmocka_unit_test(strangers_get_nothing),
};

int main(void)
{
    return cmocka_run_group_tests(tests, set_up, NULL);
}
