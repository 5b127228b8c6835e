#include "t/unit/unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/lm.h"
#include "runtime/train/tokens.h"

static char dir[] = "/tmp/ddp-tokens.XXXXXX";

static const char *at(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
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

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bytes_are_joined_in_order),       cmocka_unit_test(a_folder_is_its_regular_files_by_name),
    cmocka_unit_test(shards_are_read),                 cmocka_unit_test(broken_shards_are_refused),
    cmocka_unit_test(the_last_part_is_for_validation),
};

int main(void)
{
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
