#include "t/unit/unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/lm.h"
#include "runtime/train/prefetch.h"
#include "runtime/train/tokens.h"
#include "t/lib/folder.h"

static const char *at(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder, name);
    return path[turn];
}

static void put(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(at(name), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void put_shard(const char *name, int magic, int version, int says, const uint16_t *token, size_t n)
{
    unsigned char bytes[SHARD_HEADER_BYTES + 64] = {0};
    int32_t header[3] = {magic, version, says};
    memcpy(bytes, header, sizeof header);
    memcpy(bytes + SHARD_HEADER_BYTES, token, n * sizeof *token);
    put(name, bytes, SHARD_HEADER_BYTES + n * sizeof *token);
}

static tokens_t *open_one(const char *path, ddp_error_t *e)
{
    *e = (ddp_error_t){0};
    return tokens_open(&path, 1, e);
}

static void assert_refused(const char *path, const char *why)
{
    ddp_error_t e;
    tokens_t *t = open_one(path, &e);
    if (t)
        fail_msg("%s was accepted", path);
    assert_error_has(e, path);
    assert_error_has(e, why);
}

static void bytes_are_joined_in_order(void **state)
{
    (void)state;
    int32_t got[6];
    ddp_error_t e;
    put("b", "\xff" "bc", 3);
    put("a", "xyz", 3);
    const char *path[] = {at("b"), at("a")};
    tokens_t *t = tokens_open(path, 2, &e);
    assert_non_null(t);
    assert_int_equal(tokens_count(t), 6);
    assert_int_equal(tokens_copy(t, 0, 6, 256, got, &e), 0);
    assert_memory_equal(got, ((int32_t[]){255, 'b', 'c', 'x', 'y', 'z'}), sizeof got);
    assert_int_equal(tokens_copy(t, 2, 2, 256, got, &e), 0);
    assert_memory_equal(got, ((int32_t[]){'c', 'x'}), 8);
    assert_int_equal(tokens_copy(t, 1, 5, 'z', got, &e), -1);
    assert_error_has(e, at("a"));
    assert_error_has(e, "token 122 at byte offset 2");
    tokens_close(t);
}

static void a_folder_is_its_regular_files_by_name(void **state)
{
    (void)state;
    int32_t got[4];
    ddp_error_t e;
    assert_int_equal(mkdir(at("d"), 0700), 0);
    assert_int_equal(mkdir(at("d/deeper"), 0700), 0);
    put("d/deeper/x", "no", 2);
    put("d/Z", "1", 1);
    put("d/b", "3", 1);
    put("d/a", "2", 1);
    put("d/empty", "", 0);
    assert_int_equal(symlink("a", at("d/c")), 0);
    tokens_t *t = open_one(at("d"), &e);
    assert_non_null(t);
    assert_int_equal(tokens_count(t), 3);
    assert_int_equal(tokens_copy(t, 0, 3, 256, got, &e), 0);
    assert_memory_equal(got, ((int32_t[]){'1', '2', '3'}), 12);
    tokens_close(t);
    assert_refused(at("d/deeper/none"), "No such file");
    assert_int_equal(mkdir(at("hollow"), 0700), 0);
    assert_refused(at("hollow"), "--data");
}

static void shards_are_read(void **state)
{
    (void)state;
    int32_t got[5];
    ddp_error_t e;
    put_shard("1.bin", SHARD_MAGIC, 1, 3, (uint16_t[]){50256, 0, 7}, 3);
    put_shard("2.bin", SHARD_MAGIC, 1, 2, (uint16_t[]){65535, 9}, 2);
    const char *path[] = {at("1.bin"), at("2.bin"), at("a")};
    tokens_t *t = tokens_open(path, 2, &e);
    assert_non_null(t);
    assert_int_equal(tokens_copy(t, 0, 5, 65536, got, &e), 0);
    assert_memory_equal(got, ((int32_t[]){50256, 0, 7, 65535, 9}), sizeof got);
    assert_int_equal(tokens_copy(t, 0, 5, 50257, got, &e), -1);
    assert_error_has(e, at("2.bin"));
    assert_error_has(e, "65535 at byte offset 1024");
    assert_error_has(e, "--vocab 65536");
    tokens_close(t);
    assert_null(tokens_open(path, 3, &e));
    assert_error_has(e, "one kind");
}

static void broken_shards_are_refused(void **state)
{
    (void)state;
    uint16_t two[2] = {1, 2};
    put("short.bin", "abc", 3);
    assert_refused(at("short.bin"), "truncated");
    put("zero.bin", "", 0);
    assert_refused(at("zero.bin"), "empty");
    put_shard("magic.bin", 123, 1, 2, two, 2);
    assert_refused(at("magic.bin"), "magic 123");
    put_shard("version.bin", SHARD_MAGIC, 7, 2, two, 2);
    assert_refused(at("version.bin"), "version 7");
    put_shard("cut.bin", SHARD_MAGIC, 1, 3, two, 2);
    assert_refused(at("cut.bin"), "truncated");
    put_shard("long.bin", SHARD_MAGIC, 1, 1, two, 2);
    assert_refused(at("long.bin"), "too long");
    FILE *odd = fopen(at("long.bin"), "r+");
    assert_non_null(odd);
    assert_int_equal(ftruncate(fileno(odd), SHARD_HEADER_BYTES + 3), 0);
    fclose(odd);
    assert_refused(at("long.bin"), "ends within a token");
    put_shard("none.bin", SHARD_MAGIC, 1, 0, two, 0);
    assert_refused(at("none.bin"), "empty");
    put_shard("minus.bin", SHARD_MAGIC, 1, -1, two, 2);
    assert_refused(at("minus.bin"), "empty");
    assert_refused(at("missing"), "No such file");
    put("nothing", "", 0);
    assert_refused(at("nothing"), "empty");
    assert_refused("/dev/null", "regular");
}

static void the_last_part_is_for_validation(void **state)
{
    (void)state;
    static char text[2000];
    struct lm_part train, val;
    ddp_error_t e;
    put("text", text, sizeof text);
    tokens_t *t = open_one(at("text"), &e);
    assert_int_equal(lm_split(t, 10, &train, &val, &e), 0);
    assert_int_equal(train.count, 1900);
    assert_int_equal(val.first, 1900);
    assert_int_equal(val.count, 100);
    assert_int_equal(lm_windows(&train, 10), 189);
    assert_int_equal(lm_windows(&val, 10), 9);
    assert_int_equal(lm_split(t, 999, &train, &val, &e), 0); /* one window each */
    assert_int_equal(val.count, 1000);
    assert_int_equal(lm_windows(&train, 999), 1);
    assert_int_equal(lm_split(t, 1000, &train, &val, &e), -1);
    assert_error_has(e, "2000 tokens");
    tokens_close(t);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

/* A file of n bytes with nothing in it but what is written to it. */
static int hollow(const char *name, uint64_t n)
{
    int fd = open(at(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    return fd;
}

static void files_may_be_larger_than_4_gib(void **state)
{
    (void)state;
    const uint64_t edge = (uint64_t)1 << 32, n = 5 * (edge >> 2) + 7;
    int32_t got[8];
    ddp_error_t e;
    int fd = hollow("large", n);
    assert_int_equal(pwrite(fd, "abcdef", 6, (off_t)edge - 3), 6);
    assert_int_equal(pwrite(fd, "z", 1, (off_t)n - 1), 1);
    close(fd);
    put("small", "xy", 2);
    const char *path[] = {at("small"), at("large"), at("small")};
    tokens_t *t = tokens_open(path, 3, &e);
    assert_non_null(t);
    assert_true(tokens_count(t) == n + 4);
    assert_int_equal(tokens_copy(t, 2 + edge - 4, 8, 256, got, &e), 0);
    assert_memory_equal(got, ((int32_t[]){0, 'a', 'b', 'c', 'd', 'e', 'f', 0}), sizeof got);
    assert_int_equal(tokens_copy(t, n, 4, 256, got, &e), 0);
    assert_memory_equal(got, ((int32_t[]){0, 'z', 'x', 'y'}), 4 * sizeof *got);
    assert_int_equal(tokens_copy(t, 2 + edge, 1, 'd', got, &e), -1);
    assert_error_has(e, "byte offset 4294967296 ");
    tokens_close(t);
    assert_int_equal(truncate(at("large"), 0), 0);
}

/* The largest shard that a header can announce has some bytes more than 4 GiB. */
static void shards_may_be_larger_than_4_gib(void **state)
{
    (void)state;
    const uint64_t n = INT32_MAX;
    int32_t header[3] = {SHARD_MAGIC, SHARD_VERSION, INT32_MAX}, got[3];
    ddp_error_t e;
    int fd = hollow("large.bin", SHARD_HEADER_BYTES + 2 * n);
    assert_int_equal(pwrite(fd, header, sizeof header, 0), sizeof header);
    assert_int_equal(pwrite(fd, "\x01\x02\x03\x04", 4, (off_t)(SHARD_HEADER_BYTES + 2 * n - 4)), 4);
    close(fd);
    tokens_t *t = open_one(at("large.bin"), &e);
    assert_non_null(t);
    assert_true(tokens_count(t) == n);
    assert_int_equal(tokens_copy(t, n - 3, 3, 65536, got, &e), 0);
    assert_memory_equal(got, ((int32_t[]){0, 0x201, 0x403}), sizeof got);
    tokens_close(t);
    assert_int_equal(truncate(at("large.bin"), 0), 0);
}

static void tokens_that_are_not_there_are_refused(void **state)
{
    (void)state;
    int32_t got[4];
    ddp_error_t e;
    put("abc", "abc", 3);
    tokens_t *t = open_one(at("abc"), &e);
    assert_int_equal(tokens_copy(t, 3, 0, 256, got, &e), 0);
    assert_int_equal(tokens_copy(t, 0, 4, 256, got, &e), -1);
    assert_error_has(e, "4 tokens from 0 on: there are 3");
    assert_int_equal(tokens_copy(t, 4, 0, 256, got, &e), -1);
    assert_int_equal(tokens_copy(t, UINT64_MAX, 2, 256, got, &e), -1);
    tokens_ahead(t, UINT64_MAX, 2);
    tokens_close(t);
}

enum { PIECES = 150, WHOLE = 4000 };

/* The same tokens as one file and as many files, of one token and more. Returns how many there are. */
static size_t put_pieces(uint16_t *all, char (*path)[64])
{
    size_t n = 0;
    for (int i = 0; i < PIECES; i++) {
        char name[32];
        uint16_t piece[32];
        size_t k = 1 + below(25);
        for (size_t j = 0; j < k; j++)
            all[n++] = piece[j] = (uint16_t)below(65536);
        snprintf(name, sizeof name, "piece-%03d.bin", i);
        put_shard(name, SHARD_MAGIC, 1, (int)k, piece, k);
        snprintf(path[i], sizeof path[i], "%s", at(name));
    }
    return n;
}

static tokens_t *open_pieces(uint16_t *all, size_t *ret_n)
{
    static char name[PIECES][64];
    const char *path[PIECES];
    ddp_error_t e;
    *ret_n = put_pieces(all, name);
    for (int i = 0; i < PIECES; i++)
        path[i] = name[i];
    tokens_t *t = tokens_open(path, PIECES, &e);
    assert_non_null(t);
    return t;
}

static void assert_window(const int32_t *got, const uint16_t *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(got[i], want[i]);
}

static void nothing_is_lost_where_shards_meet(void **state)
{
    (void)state;
    enum { CONTEXT = 16 };
    uint16_t all[WHOLE];
    int32_t got[WHOLE];
    size_t n;
    ddp_error_t e;
    tokens_t *t = open_pieces(all, &n);
    assert_int_equal(tokens_count(t), n);
    assert_int_equal(tokens_copy(t, 0, n, 65536, got, &e), 0);
    assert_window(got, all, n);
    struct lm_part part = {t, 0, n};
    assert_int_equal(lm_windows(&part, CONTEXT), (n - 1) / CONTEXT);
    for (uint64_t i = 0; i < lm_windows(&part, CONTEXT); i++) {
        assert_int_equal(tokens_copy(t, i * CONTEXT, CONTEXT + 1, 65536, got, &e), 0);
        assert_window(got, all + i * CONTEXT, CONTEXT + 1);
    }
    tokens_close(t);
}

static void more_files_than_the_soft_limit(void **state)
{
    (void)state;
    uint16_t all[WHOLE];
    size_t n;
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 40;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    tokens_close(open_pieces(all, &n));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Whatever was started, what is taken is what was asked for. */
static void what_is_prefetched_is_what_is_there(void **state)
{
    (void)state;
    enum { MOST = 8, WINDOW = 33 };
    uint16_t all[WHOLE];
    uint64_t first[MOST], next[MOST] = {0};
    size_t n, n_first, n_next = 0;
    ddp_error_t e;
    tokens_t *t = open_pieces(all, &n);
    prefetch_t *p = prefetch_create(t, MOST, WINDOW, 65536, &e);
    assert_non_null(p);
    for (int turn = 0; turn < 2000; turn++) {
        const int32_t *got;
        n_first = n_next ? n_next : 1 + below(MOST);
        for (size_t i = 0; i < n_first; i++)
            first[i] = n_next && below(20) ? next[i] : below(n - WINDOW + 1);
        assert_int_equal(prefetch_take(p, first, n_first, &got, &e), 0);
        n_next = below(5) ? 1 + below(MOST) : 0;
        for (size_t i = 0; i < n_next; i++)
            next[i] = below(n - WINDOW + 1);
        if (n_next)
            prefetch_start(p, next, n_next);
        for (size_t i = 0; i < n_first; i++) /* while the thread fills the other buffer */
            assert_window(got + i * WINDOW, all + first[i], WINDOW);
    }
    prefetch_destroy(p); /* perhaps while it reads */
    prefetch_destroy(NULL);
    tokens_close(t);
}

static void a_file_that_shrinks_is_an_error(void **state)
{
    (void)state;
    static char text[100000];
    const int32_t *got;
    ddp_error_t e = {0};
    memset(text, 'a', sizeof text);
    put("shrinks", text, sizeof text);
    tokens_t *t = open_one(at("shrinks"), &e);
    prefetch_t *p = prefetch_create(t, 2, 10, 256, &e);
    assert_int_equal(truncate(at("shrinks"), 50005), 0);
    prefetch_start(p, (uint64_t[]){3, 50000}, 2);
    assert_int_equal(prefetch_take(p, (uint64_t[]){3, 50000}, 2, &got, &e), -1); /* from the thread */
    assert_error_has(e, at("shrinks"));
    assert_error_has(e, "ends at byte offset 50005, but had 100000 bytes");
    e = (ddp_error_t){0};
    assert_int_equal(prefetch_take(p, (uint64_t[]){90000}, 1, &got, &e), -1);
    assert_error_has(e, "ends at byte offset 90000");
    prefetch_start(p, (uint64_t[]){90000}, 1); /* an error in what nobody wants is none */
    assert_int_equal(prefetch_take(p, (uint64_t[]){3}, 1, &got, &e), 0);
    assert_int_equal(got[9], 'a');
    prefetch_start(p, (uint64_t[]){5}, 1);
    assert_int_equal(prefetch_take(p, (uint64_t[]){5}, 1, &got, &e), 0);
    prefetch_destroy(p);
    tokens_close(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bytes_are_joined_in_order),       cmocka_unit_test(a_folder_is_its_regular_files_by_name),
    cmocka_unit_test(shards_are_read),                 cmocka_unit_test(broken_shards_are_refused),
    cmocka_unit_test(the_last_part_is_for_validation), cmocka_unit_test(files_may_be_larger_than_4_gib),
    cmocka_unit_test(shards_may_be_larger_than_4_gib), cmocka_unit_test(tokens_that_are_not_there_are_refused),
    cmocka_unit_test(nothing_is_lost_where_shards_meet), cmocka_unit_test(more_files_than_the_soft_limit),
    cmocka_unit_test(what_is_prefetched_is_what_is_there), cmocka_unit_test(a_file_that_shrinks_is_an_error),
};

int main(void)
{
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
