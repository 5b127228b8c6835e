/* Each file of a checkpoint truncated, made longer, with a bit flipped, removed, replaced: always detected, and the
 * error names the file. */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/reader.h"
#include "t/lib/ckptfolder.h"
#include "t/lib/folder.h"

static struct files files;
static struct manifest manifest;

static char *at(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    return path;
}

static uint64_t size_of(const char *name)
{
    struct stat st;
    assert_int_equal(stat(at(name), &st), 0);
    return (uint64_t)st.st_size;
}

#define assert_detected(name, why) detected(name, why, __LINE__)
static void detected(const char *name, const char *why, int line)
{
    ddp_error_t e = {0};
    if (ckptfolder_verify(test_folder, &e) == 0)
        fail_msg("line %d: %s: %s was not detected", line, name, why);
    if (!strstr(e.text, name) || !strstr(e.text, why))
        fail_msg("line %d: \"%s\" lacks \"%s\" or \"%s\"", line, e.text, name, why);
    if (e.domain != DDP_E_DATA)
        fail_msg("line %d: domain %d of \"%s\"", line, e.domain, e.text);
}

static void assert_good(void)
{
    ddp_error_t e = {0};
    if (ckptfolder_verify(test_folder, &e) < 0)
        fail_msg("%s", e.text);
}

static void flip(const char *name, uint64_t byte, int bit)
{
    unsigned char c = 0;
    int fd = open(at(name), O_RDWR);
    assert_true(fd >= 0 && pread(fd, &c, 1, (off_t)byte) == 1);
    c ^= (unsigned char)(1 << bit);
    assert_int_equal(pwrite(fd, &c, 1, (off_t)byte), 1);
    close(fd);
}

static void flipped_is_detected(const char *name, uint64_t byte, const char *why)
{
    flip(name, byte, (int)(byte % 8));
    assert_detected(name, why);
    flip(name, byte, (int)(byte % 8));
}

static const char *file_name(size_t i)
{
    return i == manifest.n_files ? MANIFEST_NAME : manifest.file[i].name;
}

static void sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i <= manifest.n_files; i++) {
        const char *name = file_name(i);
        uint64_t n = size_of(name), some[] = {0, 1, 7, 8, n / 2, n - 1, n + 1, n + 4096};
        char last;
        int fd = open(at(name), O_RDWR);
        char *all = malloc(n);
        assert_int_equal(pread(fd, all, n, 0), n);
        last = all[n - 1];
        for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
            assert_int_equal(ftruncate(fd, (off_t)some[k]), 0);
            assert_detected(name, i == manifest.n_files ? "checksum" : "bytes, not");
            assert_int_equal(ftruncate(fd, (off_t)n), 0);
            assert_int_equal(pwrite(fd, all, n, 0), n);
        }
        assert_int_equal(all[n - 1], last);
        free(all);
        close(fd);
    }
    assert_good();
}

static void bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < manifest.n_files; i++) {
        const struct manifest_file *f = &manifest.file[i];
        for (uint64_t byte = 0; byte < f->head_bytes; byte += byte < 32 || f->head_bytes < 2000 ? 1 : 61)
            flipped_is_detected(f->name, byte, "damaged (in its head)");
    }
    for (size_t t = 0; t < manifest.n_tensors; t++) {
        const struct files_tensor *where = &manifest.tensor[t].at;
        uint64_t some[] = {0, 1, where->t.n_bytes / 2, where->t.n_bytes - 1};
        for (int k = 0; k < 4; k++)
            flipped_is_detected(manifest.file[where->file].name, where->at_bytes + some[k], where->t.name);
    }
    for (uint64_t byte = 0; byte < size_of(MANIFEST_NAME); byte += 13)
        flipped_is_detected(MANIFEST_NAME, byte, "checksum");
    assert_good();
}

static void names(void **state)
{
    (void)state;
    char aside[310];
    for (size_t i = 0; i <= manifest.n_files; i++) {
        const char *name = file_name(i);
        snprintf(aside, sizeof aside, "%s.aside", at(name));
        assert_int_equal(rename(at(name), aside), 0);
        assert_detected(name, "is missing");
        assert_int_equal(mkdir(at(name), 0755), 0);
        assert_detected(name, "not a regular file");
        assert_int_equal(rmdir(at(name)), 0);
        assert_int_equal(mkfifo(at(name), 0644), 0); /* nobody waits for its other end */
        assert_detected(name, "not a regular file");
        assert_int_equal(unlink(at(name)), 0);
        assert_int_equal(rename(aside, at(name)), 0);
    }
}

static void swap(const char *one, const char *other)
{
    char path[3][310];
    snprintf(path[0], sizeof path[0], "%s", at(one));
    snprintf(path[1], sizeof path[1], "%s", at(other));
    snprintf(path[2], sizeof path[2], "%s.aside", at(one));
    assert_int_equal(rename(path[0], path[2]) + rename(path[1], path[0]) + rename(path[2], path[1]), 0);
}

static void files_of_one_size_in_each_others_place(void **state)
{
    (void)state;
    int n_pairs = 0;
    for (size_t i = 0; i < manifest.n_files; i++)
        for (size_t k = 0; k < i; k++) {
            if (manifest.file[i].n_bytes != manifest.file[k].n_bytes)
                continue;
            n_pairs++;
            swap(manifest.file[i].name, manifest.file[k].name);
            assert_detected(manifest.file[k].name, "damaged (in its head)");
            swap(manifest.file[i].name, manifest.file[k].name);
        }
    assert_true(n_pairs > 1);
    assert_good();
}

/* Reads the checkpoint as one whose folder has this name, with slashes behind it or without. */
static int verify_as(const char *name, ddp_error_t *errp)
{
    char link[40];
    snprintf(link, sizeof link, "%.*s", (int)strcspn(name, "/"), name);
    assert_int_equal(symlink(".", at(link)), 0);
    int rc = ckptfolder_verify(at(name), errp);
    assert_int_equal(unlink(at(link)), 0);
    return rc;
}

/* The folder's name is compared before its files, which are not to blame. */
static void a_manifest_in_another_steps_folder(void **state)
{
    (void)state;
    static const char *const others[] = {"step-00000101", "step-00000101/", "step-18446744073709551615//"},
                      *const fine[] = {"step-00000100", "step-00000100//", "newest", "suspect-step-00000101"};
    ddp_error_t e;
    flip(manifest.file[0].name, 0, 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(verify_as(others[i], &e), -1);
        assert_error_has(e, others[i]);
        assert_error_has(e, "/manifest.json is that of step 100: restore it, or remove this checkpoint");
        assert_int_equal(e.domain, DDP_E_DATA);
    }
    flip(manifest.file[0].name, 0, 0);
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (verify_as(fine[i], &e) < 0)
            fail_msg("%s: %s", fine[i], e.text);
}

static void long_paths_keep_the_cure(void **state)
{
    (void)state;
    ddp_error_t e;
    char path[3000];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = 0;
    for (size_t i = 0; i < sizeof path - 1; i += 50)
        path[i] = '/';
    assert_int_equal(reader_open(path, &manifest, &e), -1);
    assert_error_has(e, "/manifest.json is missing");
    assert_error_has(e, "then the one before it is used");
    static char longer[2 * FOLDER_PATH_MAX];
    memset(longer, 'x', sizeof longer - 1);
    assert_int_equal(reader_open(longer, &manifest, &e), -1);
    assert_error_has(e, "longer than");
}

static int make(void **state)
{
    (void)state;
    ddp_error_t e;
    ckptfolder_model(&files, 8500);
    if (folder_make(state) < 0)
        return -1;
    ckptfolder_write(test_folder, &files, &(struct manifest_state){.step = 100});
    return reader_open(test_folder, &manifest, &e);
}

static int remove_all(void **state)
{
    (void)state;
    manifest_clear(&manifest);
    files_clear(&files);
    return folder_remove(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sizes),
    cmocka_unit_test(bits),
    cmocka_unit_test(names),
    cmocka_unit_test(files_of_one_size_in_each_others_place),
    cmocka_unit_test(a_manifest_in_another_steps_folder),
    cmocka_unit_test(long_paths_keep_the_cure),
};

int main(void)
{
    return cmocka_run_group_tests(tests, make, remove_all);
}
