/* A rank's part of a checkpoint, written beside the test: what lies in the files in the end, the sums, and what happens
 * where it cannot be written. */
#include <config.h> /* O_DIRECT */

#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/snapshot.h"
#include "runtime/ckpt/writer.h"
#include "t/lib/folder.h"

#define BLOCK CKPT_BLOCK_BYTES
enum { N_TENSORS = 8, MAX_PIECES = 512 };

/* Elements: scalars, tensors that end within a page, within a block, at a block's end; some chunks of a source. */
static const uint64_t n_elems[N_TENSORS] = {1, 3 * 4096, 5000, 768, 9 * 4096 + 1, 17, 40 * 4096, 300 * 4096 + 50};
static char folder[96], gone[96];
static struct files files;
static float *value[N_TENSORS];

/* The linker brings the calls of runtime/ckpt here (-Wl,--wrap). */
static size_t most = SIZE_MAX; /* bytes that a call writes */
static size_t page = 4096;
static _Atomic int n_direct, n_torn; /* writes past the page cache; those that do not write whole pages */
static int tails_fail; /* errno of writes through it that begin with a page, behind those past it; 0: they do not */
static _Atomic int n_syncs, sync_fails; /* at that call; 0: never */
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
    return name == _SC_PAGESIZE ? (long)page : -1;
}
ssize_t __real_pwrite(int fd, const void *data, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at)
{
    bool is_direct = fcntl(fd, F_GETFL) & O_DIRECT;
    n_direct += is_direct;
    n_torn += is_direct && ((size_t)at % page || n % page);
    if (tails_fail && n && at && !is_direct && (size_t)at % page == 0) {
        errno = tails_fail;
        return -1;
    }
    return __real_pwrite(fd, data, n < most ? n : most, at);
}
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    if (++n_syncs != sync_fails)
        return __real_fsync(fd);
    errno = EIO;
    return -1;
}

static void setup(void)
{
    struct st_tensor tensor[N_TENSORS] = {0};
    const struct files_group group = {"model", tensor, N_TENSORS};
    ddp_error_t e;
    for (int t = 0; t < N_TENSORS; t++) {
        snprintf(tensor[t].name, sizeof tensor[t].name, "t%d", t);
        tensor[t].dtype = ST_F32;
        tensor[t].ndim = 1;
        tensor[t].shape[0] = n_elems[t];
        value[t] = malloc(n_elems[t] * sizeof(float));
        for (uint64_t i = 0; i < n_elems[t]; i++)
            value[t][i] = (float)(t * 1000000 + (int)i);
    }
    if (files_make(&files, &group, 1, 200000, &e) < 0 || files_attach(&files, "config.json", "{}\n", &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
}

/* Every n_ranks-th block belongs to `rank`; runs of `run` blocks are dealt out at a time. */
static size_t share(struct writer_piece *piece, int rank, int n_ranks, int run)
{
    size_t n = 0;
    int next = 0;
    for (size_t t = 0; t < N_TENSORS; t++)
        for (uint64_t at = 0, size = n_elems[t] * 4, take; at < size; at += take, next++) {
            take = (uint64_t)run * BLOCK < size - at ? (uint64_t)run * BLOCK : size - at;
            if (next % n_ranks != rank)
                continue;
            assert_true(n < MAX_PIECES);
            piece[n++] = (struct writer_piece){(char *)value[t] + at, t, at, (size_t)take};
        }
    return n;
}

/* A source that brings bytes only when they are waited for, and spoils a slot when the next fetch may use it. */
static struct {
    const void *from[2];
    size_t n[2];
    bool is_busy[2];
    char *slot[2];
    int n_fetches, n_fetched, n_wrong;
    int fetch_fails, fetched_fails; /* at that call; 0: never */
} there;

static int fetch(void *ctx, int slot, const void *from, size_t n, ddp_error_t *errp)
{
    there.n_wrong += ctx != &there || slot != !!slot || there.is_busy[slot] || n == 0 || n > WRITER_CHUNK_BYTES;
    if (++there.n_fetches == there.fetch_fails)
        return error_set(errp, DDP_E_SYSTEM, EIO, "%s: fetch %d fails", folder, there.n_fetches);
    memset(there.slot[slot], 0xee, WRITER_CHUNK_BYTES);
    there.from[slot] = from;
    there.n[slot] = n;
    there.is_busy[slot] = true;
    return 0;
}

static const void *fetched(void *ctx, int slot, ddp_error_t *errp)
{
    there.n_wrong += ctx != &there || !there.is_busy[slot];
    there.is_busy[slot] = false;
    if (++there.n_fetched == there.fetched_fails) {
        error_set(errp, DDP_E_SYSTEM, EIO, "%s: fetched %d fails", folder, there.n_fetched);
        return NULL;
    }
    memcpy(there.slot[slot], there.from[slot], there.n[slot]);
    return there.slot[slot];
}

static const struct writer_source over_there = {fetch, fetched, &there};
static const struct writer_source *source; /* of the writers that are created */

static ckpt_writer_t *create(int rank, int n_ranks, int run, struct writer_piece piece[MAX_PIECES])
{
    ddp_error_t e;
    size_t n = share(piece, rank, n_ranks, run);
    for (size_t i = 0; i < n / 2; i++) { /* any order will do */
        struct writer_piece p = piece[i];
        piece[i] = piece[n - 1 - i];
        piece[n - 1 - i] = p;
    }
    ckpt_writer_t *w = writer_create(&files, piece, n, source, true, &e);
    if (!w)
        fail_msg("%s", e.text);
    return w;
}

static char *read_file(const char *name, size_t *ret_n)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("%s is not there", path);
    assert_int_equal(fstat(fileno(f), &st), 0);
    *ret_n = (size_t)st.st_size;
    char *bytes = malloc(*ret_n + 1);
    assert_int_equal(fread(bytes, 1, *ret_n, f), *ret_n);
    fclose(f);
    return bytes;
}

static void check_files(void)
{
    for (int i = 0; i < files.n_files; i++) {
        size_t n;
        char *bytes = read_file(files.file[i].name, &n);
        assert_int_equal(n, files.file[i].n_bytes);
        assert_memory_equal(bytes, files.file[i].head, files.file[i].head_bytes);
        for (size_t t = 0; t < N_TENSORS; t++)
            if (files.tensor[t].file == i)
                assert_memory_equal(bytes + files.tensor[t].at_bytes, value[t], n_elems[t] * 4);
        free(bytes);
    }
    for (int i = 0; i < files.n_small; i++) {
        size_t n;
        char *bytes = read_file(files.small[i].name, &n);
        assert_int_equal(n, files.small[i].n_bytes);
        assert_memory_equal(bytes, files.small[i].text, n);
        free(bytes);
    }
}

static void empty_folder(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s; mkdir %s", folder, folder);
    assert_int_equal(system(command), 0);
}

static bool vanishes; /* the folder, once it is open */

static int enter(void *ctx, struct savedir *ret, ddp_error_t *errp)
{
    (void)ctx;
    if (savedir_open(ret, folder, NULL, errp) < 0)
        return -1;
    return vanishes ? rename(folder, gone) | rmdir(gone) : 0;
}

static int start(ckpt_writer_t *w, bool has_heads, ddp_error_t *errp)
{
    return writer_start(w, &(struct writer_folder){.enter = enter}, has_heads, NULL, errp);
}

/* All ranks at once; state changes as soon as it was copied. */
static void save(ckpt_writer_t **w, int n_ranks, float change)
{
    uint64_t before[4];
    struct writer_times times;
    ddp_error_t e;
    uint64_t sum[N_TENSORS] = {0};
    for (int r = 0; r < n_ranks; r++) {
        before[r] = writer_progress(w[r]);
        assert_int_equal(start(w[r], r == 0, &e), 0);
    }
    for (int r = 0; r < n_ranks; r++)
        writer_wait_copied(w[r]);
    value[3][5] += change;
    for (int r = 0; r < n_ranks; r++) {
        if (writer_wait(w[r], deadline_in(60), &e) < 0 || writer_state(w[r]) != WRITER_WRITTEN)
            fail_msg("%s %s", e.text, writer_error(w[r])->text);
        writer_times(w[r], &times);
        assert_true(writer_progress(w[r]) >= before[r] + times.n_bytes);
        for (int t = 0; t < N_TENSORS; t++)
            sum[t] += writer_sums(w[r])[t];
        writer_reset(w[r]);
        assert_int_equal(writer_state(w[r]), WRITER_IDLE);
    }
    value[3][5] -= change;
    check_files();
    for (int t = 0; t < N_TENSORS; t++)
        assert_int_equal(sum[t], checksum_blocks(value[t], n_elems[t] * 4, 0));
    value[3][5] += change;
}

static void test_writes(void **state)
{
    static const int runs[] = {1, 3, 5, 1000};
    (void)state;
    assert_true(files.n_files >= 3);
    for (int n_ranks = 1; n_ranks <= 4; n_ranks++)
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            int run_blocks = runs[i];
            static struct writer_piece piece[4][MAX_PIECES];
            ckpt_writer_t *w[4];
            empty_folder();
            for (int r = 0; r < n_ranks; r++)
                w[r] = create(r, n_ranks, run_blocks, piece[r]);
            for (int again = 0; again < 3; again++) /* over what is there, too */
                save(w, n_ranks, 1);
            for (int r = 0; r < n_ranks; r++)
                writer_destroy(w[r]);
        }
}

/* Can files here be written past the page cache? */
static bool can_direct(void)
{
    char path[160];
    snprintf(path, sizeof path, "%s/direct", test_folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    void *block = aligned_alloc(4096, 4096);
    memset(block, 0, 4096);
    bool can = fd >= 0 && __real_pwrite(fd, block, 4096, 0) == 4096;
    free(block);
    close(fd);
    unlink(path);
    return can;
}

/* Only whole pages are written past the page cache, of whatever size: a page may be two ranks'. */
static void test_pages(void **state)
{
    static const size_t sizes[] = {4096, 16384, 65536};
    static struct writer_piece piece[2][MAX_PIECES];
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        page = sizes[i];
        n_direct = n_torn = 0;
        empty_folder();
        ckpt_writer_t *w[] = {create(0, 2, 5, piece[0]), create(1, 2, 5, piece[1])};
        save(w, 2, 1);
        assert_int_equal(n_torn, 0);
        assert_true(n_direct > 0 || !can_direct());
        writer_destroy(w[0]);
        writer_destroy(w[1]);
    }
    page = 4096;
}

/* Calls that write a part, also one that nothing can go on from past the page cache. */
static void test_short_writes(void **state)
{
    static const size_t parts[] = {5000, 8192};
    struct writer_piece piece[MAX_PIECES];
    ckpt_writer_t *w = create(0, 1, 3, piece);
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        empty_folder();
        most = parts[i];
        save(&w, 1, 1);
    }
    most = SIZE_MAX;
    writer_destroy(w);
}

static void test_plan_is_congruent(void **state)
{
    (void)state;
    for (int n_ranks = 1; n_ranks <= 3; n_ranks++) {
        struct writer_piece piece[MAX_PIECES];
        struct snapshot s;
        uint64_t bytes = 0;
        size_t n = share(piece, n_ranks - 1, n_ranks, 2), end = 0;
        assert_int_equal(snapshot_plan(&s, &files, piece, n, NULL), 0);
        for (size_t i = 0; i < s.n_runs; i++) {
            assert_int_equal(s.run[i].offset % SNAPSHOT_ALIGN, s.run[i].at % SNAPSHOT_ALIGN);
            assert_true(s.run[i].offset >= end);
            end = s.run[i].offset + s.run[i].n;
            bytes += s.run[i].n;
        }
        assert_true(end <= s.n_bytes && s.n_bytes <= writer_bytes(&files, piece, n));
        assert_int_equal(bytes, s.data_bytes);
        assert_true(n_ranks > 1 || s.n_runs == (size_t)files.n_files); /* what is one run in a file is one here */
        snapshot_clear(&s);
    }
}

static void check_fails(ckpt_writer_t *w, const char *why)
{
    ddp_error_t e;
    assert_int_equal(start(w, true, &e), 0);
    assert_int_equal(writer_wait(w, deadline_in(60), &e), 0);
    assert_int_equal(writer_state(w), WRITER_FAILED);
    assert_error_has(*writer_error(w), why);
    assert_error_has(*writer_error(w), folder);
    writer_reset(w);
}

/* A limit on the size of files, a folder that is gone: said, and the next one is written. */
static void test_cannot_write(void **state)
{
    struct writer_piece piece[MAX_PIECES];
    struct rlimit before, small;
    ckpt_writer_t *w = create(0, 1, 1, piece);
    (void)state;
    empty_folder();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0); /* SIGXFSZ would end the program */
    check_fails(w, "File too large");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    empty_folder();
    vanishes = true;
    check_fails(w, "No such file or directory");
    vanishes = false;
    empty_folder();
    save(&w, 1, 0);
    writer_destroy(w);
}

/* Any one file, be all others there. */
static void test_cannot_sync(void **state)
{
    struct writer_piece piece[MAX_PIECES];
    ckpt_writer_t *w = create(0, 1, 1000, piece);
    (void)state;
    empty_folder();
    n_syncs = 0;
    save(&w, 1, 0);
    int n = n_syncs;
    assert_int_equal(n, files.n_files + files.n_small);
    for (int k = 1; k <= n; k++) {
        n_syncs = 0;
        sync_fails = k;
        empty_folder();
        check_fails(w, "to disk: Input/output error");
    }
    sync_fails = 0;
    save(&w, 1, 0);
    writer_destroy(w);
}

/* A disk that is full when all but a file's last, incomplete page is there. */
static void test_cannot_write_a_tail(void **state)
{
    struct writer_piece piece[MAX_PIECES];
    ckpt_writer_t *w = create(0, 1, 1000, piece);
    (void)state;
    empty_folder();
    n_direct = 0;
    tails_fail = ENOSPC;
    check_fails(w, "No space left on device");
    assert_true(n_direct > 0 || !can_direct());
    tails_fail = 0;
    save(&w, 1, 0);
    writer_destroy(w);
}

static void test_from_a_source(void **state)
{
    static const int runs[] = {3, 1000};
    (void)state;
    source = &over_there;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct writer_piece piece[MAX_PIECES];
        ckpt_writer_t *w = create(0, 1, runs[i], piece);
        empty_folder();
        for (int again = 0; again < 2; again++)
            save(&w, 1, 1);
        writer_destroy(w);
    }
    assert_int_equal(there.n_wrong, 0);
    source = NULL;
}

/* At each of the calls: said, nothing is left on its way, training may go on, and the next save is whole. */
static void test_source_fails(void **state)
{
    struct writer_piece piece[MAX_PIECES];
    (void)state;
    source = &over_there;
    ckpt_writer_t *w = create(0, 1, 1000, piece);
    empty_folder();
    there.n_fetches = there.n_fetched = 0;
    save(&w, 1, 0);
    int n = there.n_fetches;
    assert_int_equal(n, N_TENSORS + 1);
    assert_int_equal(there.n_fetched, n);
    for (int k = 0; k < 2 * n; k++) {
        char why[64];
        there.n_fetches = there.n_fetched = 0;
        there.fetch_fails = k < n ? k + 1 : 0;
        there.fetched_fails = k < n ? 0 : k - n + 1;
        snprintf(why, sizeof why, "fetch%s %d fails", k < n ? "" : "ed", k % n + 1);
        empty_folder();
        check_fails(w, why);
        assert_false(there.is_busy[0] || there.is_busy[1]);
        writer_wait_copied(w);
    }
    there.fetch_fails = there.fetched_fails = 0;
    save(&w, 1, 0);
    assert_int_equal(there.n_wrong, 0);
    writer_destroy(w);
    source = NULL;
}

static void test_states(void **state)
{
    struct writer_piece piece[MAX_PIECES];
    struct writer_times times;
    ddp_error_t e;
    ckpt_writer_t *w = create(0, 1, 1, piece);
    (void)state;
    empty_folder();
    assert_int_equal(writer_state(w), WRITER_IDLE);
    writer_wait_copied(w);
    assert_int_equal(writer_wait(w, deadline_in(0), &e), 0);
    assert_int_equal(start(w, true, &e), 0);
    assert_int_equal(start(w, true, &e), -1);
    assert_error_has(e, "already");
    assert_int_equal(writer_wait(w, deadline_in(60), &e), 0);
    writer_times(w, &times);
    assert_true(times.copy_s > 0 && times.write_s > 0 && times.n_bytes > 200000);
    writer_reset(w);
    assert_int_equal(start(w, true, &e), 0);
    writer_destroy(w); /* whatever it is at */
    writer_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_short_writes),
        cmocka_unit_test(test_plan_is_congruent),
        cmocka_unit_test(test_cannot_write),
        cmocka_unit_test(test_cannot_sync),
        cmocka_unit_test(test_cannot_write_a_tail),
        cmocka_unit_test(test_from_a_source),
        cmocka_unit_test(test_source_fails),
        cmocka_unit_test(test_states),
    };
    if (folder_make(NULL) < 0)
        return 1;
    snprintf(folder, sizeof folder, "%s/saving", test_folder);
    snprintf(gone, sizeof gone, "%s/gone", test_folder);
    setup();
    for (int slot = 0; slot < 2; slot++)
        there.slot[slot] = malloc(WRITER_CHUNK_BYTES);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rc |= folder_remove(NULL);
    files_clear(&files);
    for (int slot = 0; slot < 2; slot++)
        free(there.slot[slot]);
    for (int t = 0; t < N_TENSORS; t++)
        free(value[t]);
    return rc;
}
