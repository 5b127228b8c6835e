/* A checkpoint's pieces out of a device's memory, by the writer's thread: over the processor and an emulated GPU whose
 * streams are done at once or late; and a GPU that fails or hangs meanwhile. */
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/save/readback.h"
#include "t/lib/cudaemu/script.h"
#include "t/lib/devicerig.h"
#include "t/unit/unit.h"

/* Elements: less than a block, and three chunks and a half. */
enum { N_TENSORS = 2, SMALL = 1000, LARGE = 3 * 1024 * 1024 + 512 * 1024 + 3, N = SMALL + LARGE };
static char root[] = "/tmp/ddp-readback.XXXXXX";
static struct files files;

/* What a step's end leaves: state in the device's memory, as far as `stream` has come. */
struct state {
    device_t *device;
    device_stream_t *stream;
    float *host, *at;
    struct writer_piece piece[N_TENSORS];
    struct readback back;
    struct writer_source source;
    ckpt_writer_t *writer;
};

static void open_files(void)
{
    struct st_tensor t[N_TENSORS] = {{.name = "small", .dtype = ST_F32, .ndim = 1, .shape = {SMALL}},
                                     {.name = "large", .dtype = ST_F32, .ndim = 1, .shape = {LARGE}}};
    const struct files_group group = {"model", t, N_TENSORS};
    ddp_error_t e;
    if (files_make(&files, &group, 1, (uint64_t)1 << 30, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
}

static void open_state(struct state *s, device_t *d, double timeout_s)
{
    ddp_error_t e;
    *s = (struct state){.device = d};
    s->stream = device_stream_create(s->device, DEVICE_NORMAL, &e);
    s->host = device_host_malloc(s->device, N * sizeof(float), "a test", &e);
    s->at = device_malloc(s->device, N * sizeof(float), "a test", &e);
    s->piece[0] = (struct writer_piece){s->at, 0, 0, SMALL * sizeof(float)};
    s->piece[1] = (struct writer_piece){s->at + SMALL, 1, 0, LARGE * sizeof(float)};
    assert_int_equal(readback_open(&s->back, s->device, timeout_s, &e), 0);
    s->source = readback_source(&s->back);
    s->writer = writer_create(&files, s->piece, N_TENSORS, &s->source, true, &e);
    assert_non_null(s->writer);
}

static void close_state(struct state *s)
{
    writer_destroy(s->writer);
    readback_close(&s->back);
    device_free(s->device, s->at);
    device_host_free(s->device, s->host);
    device_stream_destroy(s->stream);
}

static int enter(void *ctx, struct savedir *ret, ddp_error_t *errp)
{
    (void)ctx;
    return savedir_open(ret, root, NULL, errp);
}

/* The update of a step is asked of the stream, and then a save; where it cannot be asked for: -1. */
static int begin(struct state *s, int step, ddp_error_t *errp)
{
    for (int i = 0; i < N; i++)
        s->host[i] = (float)(i + step);
    if (device_copy(s->stream, s->at, s->host, N * sizeof(float), DEVICE_TO, errp) < 0 ||
        readback_after(&s->back, s->stream, errp) < 0)
        return -1;
    return writer_start(s->writer, &(struct writer_folder){.enter = enter}, true, NULL, errp);
}

static const char *path(void)
{
    static char text[128];
    snprintf(text, sizeof text, "%s/%s", root, files.file[0].name);
    return text;
}

static void check_file(int step)
{
    static float value[N];
    FILE *f = fopen(path(), "r");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)files.file[0].head_bytes, SEEK_SET), 0);
    assert_int_equal(fread(value, sizeof *value, N, f), N);
    fclose(f);
    unlink(path());
    for (int i = 0; i < N; i++)
        if (value[i] != (float)(i + step))
            fail_msg("element %d is %g in step %d", i, (double)value[i], step);
}

static void test_saves(void **state)
{
    ddp_error_t e;
    (void)state;
    for (int k = 0; k < RIG_COUNT; k++) {
        struct state s;
        open_state(&s, rig_open(k), 20);
        for (int step = 1; step <= 3; step++) {
            if (begin(&s, step, &e) < 0)
                fail_msg("%s", e.text);
            writer_wait_copied(s.writer);
            assert_int_equal(device_fill(s.stream, s.at, 0, N * sizeof(float), &e), 0); /* training goes on */
            assert_int_equal(device_stream_wait(s.stream, deadline_in(20), NULL, NULL, &e), 0);
            if (writer_wait(s.writer, deadline_in(20), &e) < 0 || writer_state(s.writer) != WRITER_WRITTEN)
                fail_msg("%s %s", e.text, writer_error(s.writer)->text);
            check_file(step);
            writer_reset(s.writer);
        }
        close_state(&s);
        rig_close(s.device);
    }
}

static void check_failed(struct state *s, const char *why)
{
    ddp_error_t e;
    assert_int_equal(writer_wait(s->writer, deadline_in(20), &e), 0);
    assert_int_equal(writer_state(s->writer), WRITER_FAILED);
    assert_error_has(*writer_error(s->writer), why);
    writer_wait_copied(s->writer);
}

/* The GPU fails in one of the thread's calls: the save has failed, so says the device to whoever asks next, and no file
 * is there. */
static void test_gpu_fails(void **state)
{
    static const char *const call[] = {"cudaMemcpyAsync", "cudaEventRecord", "cudaEventQuery"};
    static const int first[] = {2, 2, 1}; /* of the thread's; begin() makes the others */
    (void)state;
    for (size_t c = 0; c < sizeof call / sizeof *call; c++)
        for (int n = first[c]; n < first[c] + 4; n++) {
            struct state s;
            char script[64], why[96];
            ddp_error_t e;
            snprintf(script, sizeof script, "%s:%d:700", call[c], n);
            setenv("EMU_FAIL", script, 1);
            open_state(&s, rig_open(RIG_GPU), 20);
            assert_int_equal(begin(&s, 1, &e), 0);
            snprintf(why, sizeof why, "rank 3: GPU 0 (NVIDIA H200, 0000:18:00.0): %s", call[c]);
            check_failed(&s, why);
            assert_true(device_is_broken(s.device));
            assert_int_equal(device_fill(s.stream, s.at, 0, 4, &e), -1);
            assert_error_has(e, why);
            assert_int_equal(access(path(), F_OK), -1);
            close_state(&s);
            device_close(s.device);
            unsetenv("EMU_FAIL");
            cudaemu_reset();
        }
}

/* A kernel before it hangs: the save fails at its deadline. */
static void test_gpu_hangs(void **state)
{
    struct state s;
    ddp_error_t e;
    (void)state;
    setenv("EMU_STREAMS", "stuck", 1);
    cudaemu_reset();
    open_state(&s, device_open(0, 3, &e), .2);
    assert_int_equal(begin(&s, 1, &e), 0);
    check_failed(&s, "its work was not done within 0.2 s: a kernel hangs");
    close_state(&s);
    device_close(s.device);
    cudaemu_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saves),
        cmocka_unit_test(test_gpu_fails),
        cmocka_unit_test(test_gpu_hangs),
    };
    if (!mkdtemp(root))
        return 1;
    rig_need();
    open_files();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", root);
    rc |= system(command);
    files_clear(&files);
    return rc;
}
