#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/export.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/reader.h"
#include "t/lib/ckptfolder.h"
#include "t/lib/folder.h"

static const char *at(const char *name)
{
    static char path[4][300];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder, name);
    return path[turn];
}

/* ---- pread as it may be: short, interrupted, failing ---- */

static int pread_how; /* 0: whole; 1: short and interrupted; 2: fails; 3: the file ends early */
ssize_t __real_pread(int fd, void *to, size_t n, off_t where);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t where);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t where)
{
    static unsigned turn;
    if (pread_how == 2) {
        errno = EIO;
        return -1;
    }
    if (pread_how == 3)
        return 0;
    if (pread_how == 1 && turn++ % 2) {
        errno = EINTR;
        return -1;
    }
    return __real_pread(fd, to, pread_how == 1 && n > 1 ? 1 + turn * 7919u % (n - 1) : n, where);
}

/* ---- who is there ---- */

static void put(const char *name)
{
    int fd = open(at(name), O_CREAT | O_WRONLY, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static void only_checkpoints_are_listed(void **state)
{
    (void)state;
    static const char *const with[] = {"step-00000100", "step-123456789", "step-00000007", "step-0000000100", "step-8",
                                       "step-00000009x", "step-", "other", ".saving-abc-step-00000101"};
    uint64_t *step = NULL;
    size_t n = 77;
    ddp_error_t e;
    assert_int_equal(reader_list(at("nowhere"), &step, &n, &e), 0);
    assert_int_equal(n, 0);
    assert_null(step);
    assert_int_equal(mkdir(at("list"), 0755), 0);
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        char name[100];
        snprintf(name, sizeof name, "list/%s", with[i]);
        assert_int_equal(mkdir(at(name), 0755), 0);
        snprintf(name, sizeof name, "list/%s/manifest.json", with[i]);
        put(name);
    }
    assert_int_equal(mkdir(at("list/step-00000101"), 0755), 0); /* not committed */
    assert_int_equal(mkdir(at("list/step-00000102"), 0755), 0);
    assert_int_equal(mkdir(at("list/step-00000102/manifest.json"), 0755), 0);
    put("list/step-00000103");
    assert_int_equal(reader_list(at("list"), &step, &n, &e), 0);
    assert_int_equal(n, 4);
    assert_int_equal(step[0], 7);
    assert_int_equal(step[1], 100);
    assert_int_equal(step[2], 102); /* reader_open says what is wrong with it */
    assert_int_equal(step[3], 123456789);
    struct manifest m;
    assert_int_equal(reader_open(at("list/step-00000102"), &m, &e), -1);
    assert_error_has(e, "step-00000102/manifest.json is not a regular file");
    free(step);
    assert_int_equal(reader_list(at("list/step-00000103"), &step, &n, &e), -1);
    assert_error_has(e, "list/step-00000103");
    char name[32];
    folder_name(100, name);
    assert_string_equal(name, "step-00000100");
    folder_name(UINT64_MAX, name);
    assert_string_equal(name, "step-18446744073709551615");
}

/* ---- reading ---- */

static void tensors_are_read_in_parts(void **state)
{
    (void)state;
    static char to[300 * CKPT_BLOCK_BYTES];
    const char *path = at("parts");
    struct files f;
    struct manifest m;
    ddp_error_t e;
    struct st_tensor t[] = {ckptfolder_tensor("odd", ST_U8, 1, (uint64_t[]){3}),
                            ckptfolder_tensor("large", ST_F32, 2, (uint64_t[]){250, CKPT_BLOCK_BYTES / 4 + 1}),
                            ckptfolder_tensor("empty", ST_F32, 1, (uint64_t[]){0})};
    assert_int_equal(files_make(&f, &(struct files_group){"model", t, 3}, 1, (uint64_t)4 << 30, &e), 0);
    ckptfolder_write(path, &f, &(struct manifest_state){.step = 5});
    for (pread_how = 0; pread_how < 2; pread_how++) {
        assert_int_equal(reader_open(path, &m, &e), 0);
        assert_int_equal(m.state.step, 5);
        int fd[2] = {-1, -1};
        for (size_t i = 0; i < 3; i++) {
            uint64_t sum = 0, all = m.tensor[i].at.t.n_bytes;
            void *want = ckptfolder_data(&f, i);
            for (uint64_t from = 0, n; from < all; from += n) {
                n = all - from < 7 * CKPT_BLOCK_BYTES ? all - from : 7 * CKPT_BLOCK_BYTES;
                assert_int_equal(reader_read(path, &m, i, from, n, to + from, &sum, fd, &e), 0);
            }
            assert_memory_equal(to, want, all);
            assert_true(sum == m.tensor[i].checksum);
            sum = 0; /* at once: more than is read at a time */
            assert_int_equal(reader_read(path, &m, i, 0, all, to, &sum, fd, &e), 0);
            assert_true(sum == m.tensor[i].checksum);
            free(want);
        }
        uint64_t sum = 7;
        uint64_t all = m.tensor[1].at.t.n_bytes;
        assert_int_equal(reader_read(path, &m, 1, 1, 2, to, &sum, fd, &e), -1);
        assert_int_equal(reader_read(path, &m, 1, 1, all - 1, to, &sum, fd, &e), -1);
        assert_int_equal(reader_read(path, &m, 1, 0, 100, to, &sum, fd, &e), -1);
        assert_int_equal(reader_read(path, &m, 0, 0, 4, to, &sum, fd, &e), -1);
        assert_int_equal(reader_read(path, &m, 0, CKPT_BLOCK_BYTES, 0, to, &sum, fd, &e), -1);
        assert_int_equal(reader_read(path, &m, 1, CKPT_BLOCK_BYTES, SIZE_MAX - 2, to, &sum, fd, &e), -1);
        assert_int_equal(e.domain, DDP_E_USAGE);
        assert_int_equal(sum, 7);
        reader_close_files(fd, m.n_files);
        assert_int_equal(fd[0], -1);
        assert_int_equal(ckptfolder_verify(path, &e), 0);
        int how = pread_how;
        pread_how = 2; /* behind the manifest: not damage, but a disk that cannot be read */
        assert_int_equal(reader_verify(path, &m, &e), -1);
        assert_int_equal(e.code, EIO);
        assert_error_has(e, m.file[0].name);
        pread_how = how;
        manifest_clear(&m);
    }
    pread_how = 2;
    assert_int_equal(ckptfolder_verify(path, &e), -1);
    assert_int_equal(e.code, EIO);
    assert_error_has(e, MANIFEST_NAME);
    pread_how = 3;
    assert_int_equal(ckptfolder_verify(path, &e), -1);
    assert_error_has(e, "shorter while it was read");
    pread_how = 0;
    files_clear(&f);
}

static void files_are_larger_than_4_gib(void **state)
{
    (void)state;
    enum { MARK = 12345 };
    struct st_tensor t[] = {ckptfolder_tensor("large", ST_F32, 2, (uint64_t[]){1 << 16, 1 << 15}),
                            ckptfolder_tensor("small", ST_I32, 1, (uint64_t[]){1})};
    struct files f;
    struct manifest m;
    ddp_error_t e;
    const int32_t mark = MARK;
    int32_t got = 0;
    assert_int_equal(files_make(&f, &(struct files_group){"model", t, 2}, 1, (uint64_t)1 << 40, &e), 0);
    uint64_t sums[] = {0, checksum_blocks(&mark, 4, 0)};
    assert_int_equal(manifest_make(&m, &f, sums, &(struct manifest_state){0}, &e), 0);
    int fd = open(at(f.file[0].name), O_CREAT | O_RDWR, 0644), cache[2] = {-1, -1};
    assert_int_equal(ftruncate(fd, (off_t)f.file[0].n_bytes), 0);
    assert_int_equal(pwrite(fd, &mark, 4, (off_t)f.file[0].n_bytes - 4), 4);
    close(fd);
    uint64_t sum = 0, zero = 0;
    static char block[CKPT_BLOCK_BYTES];
    assert_int_equal(reader_read(test_folder, &m, 1, 0, 4, &got, &sum, cache, &e), 0);
    assert_int_equal(got, MARK);
    assert_true(sum == m.tensor[1].checksum);
    uint64_t last = m.tensor[0].at.t.n_bytes - CKPT_BLOCK_BYTES;
    assert_int_equal(reader_read(test_folder, &m, 0, last, CKPT_BLOCK_BYTES, block, &zero, cache, &e), 0);
    memset(block, 0, sizeof block);
    assert_true(zero == checksum_blocks(block, sizeof block, last / CKPT_BLOCK_BYTES));
    reader_close_files(cache, 2);
    manifest_clear(&m);
    files_clear(&f);
}

/* What a process may have open does not limit what it can read. */
static void there_are_more_files_than_may_be_open(void **state)
{
    (void)state;
    enum { N = 40 };
    const char *path = at("many");
    struct st_tensor t[N];
    struct files f;
    struct rlimit before, few;
    ddp_error_t e = {0};
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        t[i] = ckptfolder_tensor(name, ST_F32, 1, (uint64_t[]){1000});
    }
    assert_int_equal(files_make(&f, &(struct files_group){"model", t, N}, 1, 4000, &e), 0);
    assert_int_equal(f.n_files, N);
    ckptfolder_write(path, &f, &(struct manifest_state){.step = 5});
    getrlimit(RLIMIT_NOFILE, &before);
    few = (struct rlimit){20, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int rc = ckptfolder_verify(path, &e);
    setrlimit(RLIMIT_NOFILE, &before);
    if (rc < 0)
        fail_msg("%s", e.text);
    files_clear(&f);
}

/* Not one with it whose name begins alike. */
static void a_group_is_exported_alone(void **state)
{
    (void)state;
    const char *path = at("groups");
    struct st_tensor t[] = {ckptfolder_tensor("weight", ST_F32, 1, (uint64_t[]){4}),
                            ckptfolder_tensor("other", ST_F32, 1, (uint64_t[]){4})};
    struct files f;
    struct manifest m;
    struct st_head head;
    struct export_file to;
    ddp_error_t e = {0};
    size_t n;
    assert_int_equal(files_make(&f, (struct files_group[]){{"model-ema", t + 1, 1}, {"model", t, 1}}, 2, 4000, &e), 0);
    ckptfolder_write(path, &f, &(struct manifest_state){.step = 5});
    assert_int_equal(reader_open(path, &m, &e), 0);
    snprintf(to.file, sizeof to.file, "%s", at("exported"));
    snprintf(to.temporary, sizeof to.temporary, "%s", at("temporary"));
    assert_int_equal(export_group(path, &m, "model", &to, &e), 0);
    char *text = io_read_file(to.temporary, 1 << 20, &n, &e);
    assert_non_null(text);
    assert_int_equal(st_decode(text, st_head_bytes((unsigned char *)text, n, &e), n, &head, &e), 0);
    assert_int_equal(head.n, 1);
    assert_string_equal(head.tensor[0].name, "weight");
    assert_int_equal(export_group(path, &m, "mod", &to, &e), -1);
    assert_error_has(e, "no tensors in mod-*.safetensors");
    st_clear(&head);
    free(text);
    manifest_clear(&m);
    files_clear(&f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(only_checkpoints_are_listed),
    cmocka_unit_test(tensors_are_read_in_parts),
    cmocka_unit_test(files_are_larger_than_4_gib),
    cmocka_unit_test(there_are_more_files_than_may_be_open),
    cmocka_unit_test(a_group_is_exported_alone),
};

int main(void)
{
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
