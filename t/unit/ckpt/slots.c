/* Slots of a snapshot in memory that another process keeps: what is sealed is found again, and nothing else is. */
#include "config.h" /* memfd_create */

#include "t/unit/unit.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/ckpt/slots.h"

enum { BYTES = 10000, KEY = 77 };

static struct slots made(void)
{
    struct slots s;
    assert_int_equal(slots_make(&s, BYTES, KEY, NULL), 0);
    return s;
}

static struct slots_seal seal_of(uint64_t step)
{
    return (struct slots_seal){.generation = 2, .folder = 5, .sum = 9, .state = {.step = step, .world_size = 4}};
}

/* As the next process of the rank. */
static struct slots adopted(struct slots *s)
{
    int fd = slots_close(s);
    assert_true(fd >= 0);
    assert_true(slots_adopt(s, fd, BYTES, KEY));
    return *s;
}

static void what_is_sealed_is_found_again(void **state)
{
    (void)state;
    struct slots s = made();
    struct slots_seal a = seal_of(7), b = seal_of(8), got;
    assert_false(slots_read(&s, 0, &got) || slots_read(&s, 1, &got));
    memset(slots_data(&s, 0), 'a', BYTES);
    memset(slots_data(&s, 1), 'b', BYTES);
    slots_seal(&s, 0, &a);
    slots_seal(&s, 1, &b);
    s = adopted(&s);
    assert_true(slots_read(&s, 0, &got) && got.state.step == 7 && got.generation == 2 && got.sum == 9);
    assert_true(slots_read(&s, 1, &got) && got.state.step == 8 && got.state.world_size == 4 && got.folder == 5);
    assert_true(slots_data(&s, 0)[BYTES - 1] == 'a' && slots_data(&s, 1)[0] == 'b');
    slots_clear(&s, 0);
    s = adopted(&s);
    assert_false(slots_read(&s, 0, &got));
    assert_true(slots_read(&s, 1, &got));
    close(slots_close(&s));
}

static void a_head_that_is_not_whole_is_none(void **state)
{
    (void)state;
    struct slots s = made();
    struct slots_seal a = seal_of(7), got;
    for (size_t i = 0; i < sizeof a; i += 13) {
        slots_seal(&s, 1, &a);
        assert_true(slots_read(&s, 1, &got));
        s.map[4096 + i] ^= 1;
        assert_false(slots_read(&s, 1, &got));
    }
    close(slots_close(&s));
}

static void memory_of_another_kind_is_refused(void **state)
{
    (void)state;
    struct slots s = made(), other;
    struct slots_seal a = seal_of(7), got;
    slots_seal(&s, 0, &a);
    int fd = slots_close(&s), plain = memfd_create("plain", 0);
    assert_false(slots_adopt(&other, fd, 2 * BYTES, KEY)); /* of another size */
    assert_false(slots_adopt(&other, -1, BYTES, KEY));
    assert_int_equal(ftruncate(plain, (off_t)slots_bytes(BYTES)), 0);
    assert_false(slots_adopt(&other, plain, BYTES, KEY)); /* that could shrink */
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_true(slots_adopt(&other, fd, BYTES, KEY + 1)); /* of another meaning */
    assert_false(slots_read(&other, 0, &got));
    assert_true(slots_are_foreign(&other));
    close(slots_close(&other));
    close(plain);
}

static void what_nobody_has_sealed_is_nobodys(void **state)
{
    (void)state;
    struct slots s = made();
    struct slots_seal a = seal_of(7);
    for (uint64_t key = KEY; key <= KEY + 1; key++) {
        int fd = slots_close(&s);
        assert_true(slots_adopt(&s, fd, BYTES, key));
        assert_false(slots_are_foreign(&s));
    }
    slots_clear(&s, 0);
    slots_seal(&s, 1, &a);
    assert_false(slots_are_foreign(&s));
    close(slots_close(&s));
}

/* Of files: such a limit, where it is exceeded, ends a process by a signal. */
static void a_limit_of_size_is_an_error(void **state)
{
    struct rlimit before, now;
    struct slots s;
    ddp_error_t e;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    now = before;
    now.rlim_cur = slots_bytes(BYTES) - 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    assert_int_equal(slots_make(&s, BYTES, KEY, &e), -1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(e.code, EFBIG);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_sealed_is_found_again),
    cmocka_unit_test(a_head_that_is_not_whole_is_none),
    cmocka_unit_test(memory_of_another_kind_is_refused),
    cmocka_unit_test(what_nobody_has_sealed_is_nobodys),
    cmocka_unit_test(a_limit_of_size_is_an_error),
};

UNIT_MAIN(tests)
