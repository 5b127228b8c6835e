#include "t/unit/unit.h"

#include "kernels/copy.h"

enum { ROOM = 5000, AROUND = 64 };

static void copies_all_and_no_more(void **state)
{
    (void)state;
    static unsigned char from[ROOM], want[AROUND + ROOM + AROUND];
    _Alignas(64) static unsigned char to[AROUND + ROOM + AROUND];
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 31 + i / 251);
    for (size_t n = 0; n <= ROOM - 63; n += n < 300 ? 1 : 127)
        for (size_t skip = 0; skip < 64; skip += 13) {
            size_t at = AROUND + skip / 16 * 16;
            memset(to, 0x55, sizeof to);
            memset(want, 0x55, sizeof want);
            memcpy(want + at, from + skip, n);
            kernel_copy_past(to + at, from + skip, n);
            assert_memory_equal(to, want, sizeof to);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_all_and_no_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
