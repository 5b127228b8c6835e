/* Memory that goes from program to program: what is given up is gone at once, and no descriptor is left. */
#include "config.h" /* memfd_create */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/handover.h"

#define BYTES (1 << 20)

static int pair[2]; /* the guard's end first */
static int line[2]; /* its writing end is handed over where no memory is needed */

static int set_up(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
           pipe2(line, O_CLOEXEC | O_NONBLOCK) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(pair[0]);
    close(line[0]);
    return 0;
}

/* The last of who could write has closed it. */
static bool is_closed(int fd)
{
    char c;
    return read(fd, &c, 1) == 0;
}

static struct handover of(int memory)
{
    return (struct handover){.is_there = true, .guard = pair[1], .memory = {-1, memory}};
}

/* The guard may be slow to close its own, and the memory is needed. */
static void what_is_forgotten_takes_no_memory(void **state)
{
    (void)state;
    static char data[BYTES];
    struct frame in = {.takes_fd = true};
    struct stat s;
    int kind, kept = memfd_create("t", MFD_CLOEXEC);
    size_t n;
    assert_true(kept >= 0);
    memset(data, 'x', sizeof data);
    assert_int_equal(write(kept, data, sizeof data), sizeof data);
    struct handover h = of(fcntl(kept, F_DUPFD_CLOEXEC, 0));
    handover_forget(&h, HANDOVER_GUEST);
    assert_int_equal(h.memory[HANDOVER_GUEST], -1);
    assert_int_equal(fstat(kept, &s), 0);
    assert_int_equal(s.st_size, BYTES);
    assert_int_equal(pread(kept, data, 1, 0), 1);
    assert_int_equal(data[0], 0);
    assert_int_equal(frame_next(&in, pair[0], &kind, &n), 1);
    assert_int_equal(kind, DOOR_KEEP);
    assert_int_equal(n, 4);
    assert_int_equal(bytes_get32(in.bytes + FRAME_HEAD), HANDOVER_GUEST);
    assert_int_equal(frame_take_fd(&in), -1); /* nothing is kept */
    handover_close(&h);
    close(line[1]);
    close(kept);
}

static void it_is_taken_once(void **state)
{
    (void)state;
    struct handover first = of(line[1]), none = {0};
    handover_put(&first);
    struct handover h = handover_take();
    assert_true(h.is_there && h.guard == pair[1] && h.memory[HANDOVER_GUEST] == line[1]);
    assert_false(handover_take().is_there);
    handover_put(&h); /* and goes when another one comes */
    handover_put(&none);
    assert_true(is_closed(line[0]));
    assert_true(is_closed(pair[0]));
    handover_forget(&none, HANDOVER_OWN);
    handover_keep(&none, HANDOVER_OWN, -1);
    handover_close(&none);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(what_is_forgotten_takes_no_memory, set_up, tear_down),
    cmocka_unit_test_setup_teardown(it_is_taken_once, set_up, tear_down),
};
UNIT_MAIN(tests)
