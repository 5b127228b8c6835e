/* What goes wrong on a GPU, and what is said of it, and what only an emulated CUDA runtime shows. */
#include <errno.h>

#include "runtime/base/clock.h"
#include "runtime/device/device.h"
#include "t/lib/cudaemu/script.h"
#include "t/unit/unit.h"

#define WHO "rank 5: GPU 0 (NVIDIA H200, 0000:18:00.0): "

static void script(const char *name, const char *value)
{
    static const char *const names[] = {"EMU_DEVICES", "EMU_DRIVER", "EMU_MEMORY", "EMU_STREAMS", "EMU_FAIL"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    unsetenv("CUDA_VISIBLE_DEVICES");
    if (name)
        setenv(name, value, 1);
    cudaemu_reset();
}

static device_t *open_gpu(void)
{
    ddp_error_t e;
    device_t *d = device_open(0, 5, &e);
    if (!d)
        fail_msg("%s", e.text);
    return d;
}

static void no_gpu_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *why;
    } cases[] = {
        {"EMU_DEVICES", "0", "there is no NVIDIA driver on this machine"},
        {"EMU_DRIVER", "12020", "the NVIDIA driver is too old: it serves CUDA up to 12.2, and this build needs 13.0: "
                                "update"},
        {"EMU_FAIL", "cudaGetDeviceCount:1:100", "the driver knows no GPU that this process may use"},
        {"EMU_FAIL", "cudaGetDeviceCount:1:3", "cudaGetDeviceCount: cudaErrorInitializationError: the driver cannot "
                                               "start"},
        {"EMU_FAIL", "cudaGetDeviceCount:1:802", "start nvidia-fabricmanager on this node"},
        {"EMU_FAIL", "cudaGetDeviceCount:1:803", "libcuda and the kernel's driver differ in version"},
    };
    ddp_error_t e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        script(cases[i].name, cases[i].value);
        assert_int_equal(device_cuda_count(&e), 0);
        assert_error_has(e, cases[i].why);
    }
    script("EMU_FAIL", "cudaGetDeviceCount:1:100");
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    assert_int_equal(device_cuda_count(&e), 0);
    assert_string_equal(e.text, "CUDA_VISIBLE_DEVICES=7 shows no GPU to this process");
    script(NULL, NULL);
    assert_int_equal(device_cuda_count(&e), 1);
}

static void a_gpu_that_cannot_be_opened(void **state)
{
    (void)state;
    static const struct {
        const char *fail, *why;
    } cases[] = {
        {"cudaGetDeviceProperties:1:101", "rank 5: GPU 0: cudaGetDeviceProperties: cudaErrorInvalidDevice: there is "
                                          "no"},
        {"cudaDeviceGetPCIBusId:1:3", "rank 5: GPU 0: cudaDeviceGetPCIBusId: cudaErrorInitializationError"},
        {"cudaSetDevice:1:46", WHO "cudaSetDevice: cudaErrorDevicesUnavailable: the GPU is busy or closed to this "
                                   "process"},
        {"cudaFree:1:46", WHO "cudaFree(NULL), which opens it: cudaErrorDevicesUnavailable: the GPU is busy"},
        {"cudaFree:1:2", WHO "cudaFree(NULL), which opens it: cudaErrorMemoryAllocation: out of memory"},
    };
    ddp_error_t e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        script("EMU_FAIL", cases[i].fail);
        assert_null(device_open(0, 5, &e));
        assert_int_equal(e.domain, DDP_E_SYSTEM);
        assert_error_has(e, cases[i].why);
    }
    script(NULL, NULL);
    assert_null(device_open(1, 5, &e));
    assert_error_has(e, "rank 5: GPU 1: ");
    device_t *again = open_gpu();
    device_close(again);
}

static void out_of_memory_says_how_much(void **state)
{
    (void)state;
    ddp_error_t e;
    script("EMU_MEMORY", "1000000");
    device_t *d = open_gpu();
    void *p = device_malloc(d, 600000, "parameters", &e);
    assert_null(device_malloc(d, 400001, "activations", &e));
    assert_int_equal(e.code, ENOMEM);
    assert_string_equal(e.text, WHO "cudaMalloc of 400001 bytes for activations: out of memory, 400000 free: take a "
                                    "smaller --batch, --recompute or --ddp-zero=1");
    assert_false(device_is_broken(d));
    assert_int_equal(device_result(d, 0, "cuda_adamw", &e), 0);
    void *q = device_malloc(d, 400000, "activations", &e); /* what is there can still be had */
    assert_non_null(q);
    device_free(d, p);
    device_free(d, q);
    device_close(d);
    script("EMU_FAIL", "cudaHostAlloc:1:2");
    d = open_gpu();
    assert_null(device_host_malloc(d, 4096, "batches", &e));
    assert_error_has(e, WHO "cudaHostAlloc of 4096 bytes for batches: out of memory");
    assert_error_has(e, "ulimit -l");
    device_close(d);
}

/* All that a device is asked for, until something fails: where that is. */
struct things {
    device_t *d;
    device_stream_t *s;
    device_event_t *from, *to;
    void *p, *host;
};

static int use(struct things *t, ddp_error_t *errp)
{
    size_t left;
    double ms;
    bool ok = (t->d = device_open(0, 5, errp)) &&
              (t->s = device_stream_create(t->d, DEVICE_URGENT, errp)) &&
              (t->from = device_event_create(t->d, true, errp)) && (t->to = device_event_create(t->d, true, errp)) &&
              (t->p = device_malloc(t->d, 64, "a test", errp)) &&
              (t->host = device_host_malloc(t->d, 64, "a test", errp)) &&
              device_event_record(t->from, t->s, errp) == 0 && device_fill(t->s, t->p, 1, 64, errp) == 0 &&
              device_copy(t->s, t->host, t->p, 64, DEVICE_FROM, errp) == 0 &&
              device_event_record(t->to, t->s, errp) == 0 && device_stream_after(t->s, t->from, errp) == 0 &&
              device_event_wait(t->to, deadline_in(20), NULL, NULL, errp) == 0 &&
              device_stream_wait(t->s, deadline_in(20), NULL, NULL, errp) == 0 &&
              device_event_ms(t->from, t->to, &ms, errp) == 0 && device_memory_free(t->d, &left, errp) == 0;
    return ok ? 0 : -1;
}

static void leave(struct things *t)
{
    if (t->d) {
        device_host_free(t->d, t->host);
        device_free(t->d, t->p);
    }
    device_event_destroy(t->from);
    device_event_destroy(t->to);
    device_stream_destroy(t->s);
    device_close(t->d);
    *t = (struct things){0};
}

/* Every call of CUDA's that this program makes fails once, with an error that passes and with one that does not. */
static void every_call_is_checked(void **state)
{
    (void)state;
    static const char *const calls[] = {
        "cudaGetDeviceProperties", "cudaDeviceGetPCIBusId", "cudaSetDevice", "cudaFree", "cudaStreamCreateWithPriority",
        "cudaDeviceGetStreamPriorityRange", "cudaEventCreateWithFlags", "cudaMalloc", "cudaHostAlloc",
        "cudaEventRecord",
        "cudaMemsetAsync", "cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventQuery", "cudaStreamQuery",
        "cudaEventElapsedTime", "cudaMemGetInfo",
    };
    struct things t = {0};
    script(NULL, NULL);
    assert_int_equal(use(&t, NULL), 0);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (cudaemu_calls(calls[i]) == 0)
            fail_msg("%s is not called", calls[i]);
    leave(&t);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int fatal = 0; fatal < 2; fatal++) {
            char fail[64];
            ddp_error_t e = {0};
            snprintf(fail, sizeof fail, "%s:1:%d", calls[i], fatal ? 700 : 1);
            script("EMU_FAIL", fail);
            assert_int_equal(use(&t, &e), -1);
            assert_int_equal(e.domain, DDP_E_SYSTEM);
            assert_error_has(e, "rank 5: GPU 0");
            assert_error_has(e, fatal ? "cudaErrorIllegalAddress: a kernel read or wrote" : "cudaErrorInvalidValue");
            if (t.d)
                assert_int_equal(device_is_broken(t.d), fatal);
            leave(&t);
            struct cudaemu_live l = cudaemu_live();
            if (!fatal) /* else it goes with the process */
                assert_int_equal(l.allocations + l.host_allocations + l.streams + l.events, 0);
        }
}

/* Errors from which no process recovers: the first is what every later call says, and the driver is left alone. */
static void a_lost_gpu_is_broken(void **state)
{
    (void)state;
    static const struct {
        int error;
        const char *why;
    } cases[] = {
        {214, "cudaErrorECCUncorrectable: an uncorrectable memory error (ECC): see Xid in the kernel's log (dmesg), "
              "and drain"},
        {220, "cudaErrorNvlinkUncorrectable: an uncorrectable NVLink error"},
        {700, "cudaErrorIllegalAddress: a kernel read or wrote beyond its memory: this is a bug"},
        {719, "cudaErrorLaunchFailure: a kernel crashed, or the GPU fell off the bus: see Xid"},
        {999, "cudaErrorUnknown: the GPU failed or fell off the bus: see Xid in the kernel's log (dmesg), and drain"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char fail[64];
        ddp_error_t e, again;
        snprintf(fail, sizeof fail, "cudaEventQuery:1:%d", cases[i].error);
        script("EMU_FAIL", fail);
        struct things t = {0};
        assert_int_equal(use(&t, &e), -1);
        assert_error_has(e, WHO "cudaEventQuery: ");
        assert_error_has(e, cases[i].why);
        assert_true(device_is_broken(t.d));
        int n = cudaemu_calls("cudaSetDevice");
        assert_null(device_malloc(t.d, 1, "more", &again));
        assert_string_equal(again.text, e.text);
        assert_int_equal(device_fill(t.s, t.p, 0, 1, &again), -1);
        assert_string_equal(again.text, e.text);
        assert_int_equal(device_result(t.d, 0, "cuda_adamw", &again), -1);
        assert_string_equal(again.text, e.text);
        leave(&t);
        assert_int_equal(cudaemu_calls("cudaSetDevice"), n);
    }
}

static void a_kernels_error_is_told(void **state)
{
    (void)state;
    ddp_error_t e;
    script(NULL, NULL);
    device_t *d = open_gpu();
    assert_int_equal(device_result(d, 209, "cuda_adamw", &e), -1);
    assert_string_equal(e.text, WHO "cuda_adamw: cudaErrorNoKernelImageForDevice: this build has no code for this GPU: "
                                    "configure for its compute capability");
    assert_false(device_is_broken(d));
    assert_int_equal(device_result(d, 719, "cuda_adamw", &e), -1);
    assert_true(device_is_broken(d));
    device_close(d);
}

static int n_asked;
static int never(void *ctx, ddp_error_t *errp)
{
    (void)errp;
    (void)ctx;
    n_asked++;
    return 0;
}
static int third(void *ctx, ddp_error_t *errp)
{
    return ++*(int *)ctx < 3 ? 0 : error_set(errp, DDP_E_PEER, EPIPE, "rank 2 (n1) died");
}

static void no_wait_is_endless(void **state)
{
    (void)state;
    ddp_error_t e;
    script("EMU_STREAMS", "stuck");
    device_t *d = open_gpu();
    device_stream_t *s = device_stream_create(d, DEVICE_NORMAL, &e);
    void *p = device_malloc(d, 64, "a test", &e);
    assert_int_equal(device_fill(s, p, 0, 64, &e), 0);
    n_asked = 0;
    uint64_t began = clock_ns();
    assert_int_equal(device_stream_wait(s, deadline_in(0.2), never, NULL, &e), -1);
    assert_true(clock_ns() - began >= 190 * NS_PER_MS);
    assert_true(n_asked > 3 && n_asked <= 200);
    assert_int_equal(e.domain, DDP_E_TIMEOUT);
    assert_error_has(e, WHO "its work was not done within ");
    double said_s = 0; /* as long as it took, on a busy machine more than the deadline */
    assert_int_equal(sscanf(strstr(e.text, " within "), " within %lf s: a kernel hangs", &said_s), 1);
    assert_true(said_s >= 0.2 && said_s < 60);
    assert_true(device_is_broken(d));
    device_stream_destroy(s);
    device_close(d);

    script("EMU_STREAMS", "stuck");
    d = open_gpu();
    s = device_stream_create(d, DEVICE_NORMAL, &e);
    device_event_t *event = device_event_create(d, false, &e);
    int asked = 0;
    assert_int_equal(device_event_record(event, s, &e), 0);
    assert_int_equal(device_event_wait(event, deadline_in(60), third, &asked, &e), -1);
    assert_int_equal(asked, 3);
    assert_int_equal(e.domain, DDP_E_PEER);
    assert_string_equal(e.text, "rank 2 (n1) died");
    assert_true(device_is_broken(d));
    device_event_destroy(event);
    device_stream_destroy(s);
    device_close(d);
}

/* A launch asks cudaGetLastError whether it failed: what failed before must not be found there. */
static void no_error_stays_behind(void **state)
{
    (void)state;
    ddp_error_t e;
    script("EMU_STREAMS", "deferred");
    device_t *d = open_gpu();
    device_stream_t *s = device_stream_create(d, DEVICE_NORMAL, &e);
    void *p = device_malloc(d, 64, "a test", &e);
    assert_int_equal(cudaemu_last_error(), 0);
    assert_null(device_malloc(d, (size_t)1 << 40, "too much", &e));
    assert_int_equal(cudaemu_last_error(), 0);
    device_event_t *event = device_event_create(d, false, &e);
    device_fill(s, p, 0, 64, &e);
    device_event_record(event, s, &e);
    assert_int_equal(device_event_query(event, &e), 0);
    assert_int_equal(cudaemu_last_error(), 0);
    device_event_destroy(event);
    device_free(d, p);
    device_stream_destroy(s);
    device_close(d);
}

/* Deferred, so that a missing wait shows. */
static void late_work_is_not_there_before_the_wait(void **state)
{
    (void)state;
    script("EMU_STREAMS", "deferred");
    device_t *d = open_gpu();
    device_stream_t *s = device_stream_create(d, DEVICE_NORMAL, NULL);
    unsigned char *host = device_host_malloc(d, 1, "a test", NULL);
    void *p = device_malloc(d, 1, "a test", NULL);
    device_event_t *event = device_event_create(d, false, NULL);
    *host = 5;
    assert_int_equal(device_fill(s, p, 9, 1, NULL), 0);
    assert_int_equal(device_copy(s, host, p, 1, DEVICE_FROM, NULL), 0);
    assert_int_equal(device_event_record(event, s, NULL), 0);
    assert_int_equal(*host, 5);
    assert_int_equal(device_event_query(event, NULL), 0); /* the fill */
    assert_int_equal(*host, 5);
    assert_int_equal(device_stream_wait(s, deadline_in(20), NULL, NULL, NULL), 0);
    assert_int_equal(*host, 9);
    assert_int_equal(device_event_query(event, NULL), 1);
    device_event_destroy(event);
    device_free(d, p);
    device_host_free(d, host);
    device_stream_destroy(s);
    device_close(d);
}

static void each_gpu_is_its_own(void **state)
{
    (void)state;
    ddp_error_t e;
    size_t left = 0;
    script("EMU_DEVICES", "3");
    assert_int_equal(device_cuda_count(&e), 3);
    device_t *d = device_open(2, 0, &e);
    const struct device_info *i = device_info(d);
    assert_int_equal(i->ordinal, 2);
    assert_string_equal(i->name, "NVIDIA H200");
    assert_string_equal(i->bus_id, "0000:1A:00.0");
    assert_string_equal(i->uuid, "GPU-21222324-2526-2728-292a-2b2c2d2e2f30");
    assert_true(i->peak_flops == 989e12);
    void *p = device_malloc(d, 1000, "a test", &e);
    assert_int_equal(device_memory_free(d, &left, &e), 0);
    assert_int_equal(left, (1 << 30) - 1000);
    device_free(d, p);
    device_stream_t *s = device_stream_create(d, DEVICE_NORMAL, &e), *u = device_stream_create(d, DEVICE_URGENT, &e);
    assert_int_equal(cudaemu_priority(device_native_stream(s)), 0);
    assert_int_equal(cudaemu_priority(device_native_stream(u)), -5); /* the greatest */
    device_stream_destroy(s);
    device_stream_destroy(u);
    device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_work_is_not_there_before_the_wait),
        cmocka_unit_test(each_gpu_is_its_own),
        cmocka_unit_test(no_gpu_says_why),
        cmocka_unit_test(a_gpu_that_cannot_be_opened),
        cmocka_unit_test(out_of_memory_says_how_much),
        cmocka_unit_test(every_call_is_checked),
        cmocka_unit_test(a_lost_gpu_is_broken),
        cmocka_unit_test(a_kernels_error_is_told),
        cmocka_unit_test(no_wait_is_endless),
        cmocka_unit_test(no_error_stays_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
