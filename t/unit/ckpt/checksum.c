/* The sums against their definition, computed with xxHash's own code without vectors. */
#include "t/unit/unit.h"

#define XXH_INLINE_ALL
#define XXH_VECTOR 0 /* XXH_SCALAR */
#include <xxhash.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/checksum_widths.h"

enum { BLOCK = (int)CKPT_BLOCK_BYTES, MOST = 6 * BLOCK, MARGIN = 256 };
static unsigned char from[MOST + 2 * MARGIN], to[MOST + 2 * MARGIN];

static unsigned random_number(void)
{
    static uint32_t state = 12345;
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state;
}

static uint64_t by_definition(const unsigned char *data, size_t n, uint64_t first)
{
    uint64_t sum = 0;
    for (uint64_t k = 0; k * BLOCK < n; k++)
        sum += XXH3_64bits_withSeed(data + k * BLOCK, n - k * BLOCK < BLOCK ? n - k * BLOCK : BLOCK, first + k);
    return sum;
}

static const struct {
    const char *name;
    uint64_t (*copy)(void *to, const void *from, size_t n, uint64_t first);
    uint64_t (*blocks)(const void *data, size_t n, uint64_t first);
} width[] = {
    {"as chosen", checksum_copy, checksum_blocks},
    {"base", checksum_copy_base, checksum_blocks_base},
#ifdef __x86_64__
    {"avx2", checksum_copy_avx2, checksum_blocks_avx2},
    {"avx512f", checksum_copy_avx512, checksum_blocks_avx512},
#endif
};

static int runs_here(int i)
{
#ifdef __x86_64__
    return i < 2 || (i == 2 ? __builtin_cpu_supports("avx2") : __builtin_cpu_supports("avx512f"));
#else
    return i < 2;
#endif
}

static void the_value_is_xxh3s(void **state)
{
    (void)state;
    static const unsigned char abc[] = "abc";
    assert_true(checksum_bytes("", 0) == 0x2d06800538d394c2u); /* of the specification */
    assert_true(checksum_bytes(abc, 3) == XXH3_64bits(abc, 3));
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)random_number();
    for (size_t n = 0; n < 3000; n += 37)
        assert_true(checksum_bytes(from, n) == XXH3_64bits(from, n));
}

/* Any length and address, any width: the defined sum, the bytes copied, none beside them touched. */
static void sums_and_copies_are_as_defined(void **state)
{
    (void)state;
    static const uint64_t firsts[] = {0, 1, 0x123456789abcu};
    for (int round = 0; round < 300; round++) {
        size_t n = round < 20 ? (size_t)round : round % 3 ? random_number() % (MOST + 1) : random_number() % 7 * BLOCK;
        size_t a = random_number() % MARGIN, b = round % 2 ? 64 : random_number() % MARGIN;
        b += (64 - ((uintptr_t)to + b) % 64) % 64 * (size_t)(round % 2); /* half of them aligned, as ours are */
        uint64_t first = firsts[round % 3], want = by_definition(from + a, n, first);
        for (int w = 0; w < (int)(sizeof width / sizeof *width); w++) {
            if (!runs_here(w))
                continue;
            memset(to, 0x5a, sizeof to);
            if (width[w].copy(to + b, from + a, n, first) != want || width[w].blocks(from + a, n, first) != want)
                fail_msg("%s: another sum of %zu bytes", width[w].name, n);
            assert_memory_equal(to + b, from + a, n);
            for (size_t i = 0; i < sizeof to; i++)
                if ((i < b || i >= b + n) && to[i] != 0x5a)
                    fail_msg("%s: wrote beside %zu bytes", width[w].name, n);
        }
    }
}

static void parts_add_up_in_any_order(void **state)
{
    (void)state;
    size_t n = 5 * BLOCK + 100;
    uint64_t all = checksum_blocks(from, n, 0);
    assert_true(checksum_blocks(from + 3 * BLOCK, n - 3 * BLOCK, 3) + checksum_copy(to, from, 3 * BLOCK, 0) == all);
    memcpy(to, from, n);
    to[n - 1] ^= 1;
    assert_true(checksum_blocks(to, n, 0) != all);
    memcpy(to, from + BLOCK, BLOCK);
    memcpy(to + BLOCK, from, BLOCK); /* the same blocks, in other places */
    assert_true(checksum_blocks(to, 2 * BLOCK, 0) != checksum_blocks(from, 2 * BLOCK, 0));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_value_is_xxh3s),
    cmocka_unit_test(sums_and_copies_are_as_defined),
    cmocka_unit_test(parts_add_up_in_any_order),
};
UNIT_MAIN(tests)
