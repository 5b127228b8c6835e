/* What every device does, over the processor and over an emulated GPU whose streams are done at once or late. */
#include "runtime/base/clock.h"
#include "runtime/device/device.h"
#include "t/lib/cudaemu/script.h"
#include "t/unit/unit.h"

#define N 1000

struct kind {
    enum device_kind kind;
    const char *streams; /* EMU_STREAMS */
};
static const struct kind kinds[] = {{DEVICE_CPU, "now"}, {DEVICE_CUDA, "now"}, {DEVICE_CUDA, "deferred"}};

static device_t *open_kind(const struct kind *k)
{
    ddp_error_t e = {0};
    setenv("EMU_STREAMS", k->streams, 1);
    cudaemu_reset();
    device_t *d = device_open(k->kind, 0, 3, &e);
    if (!d)
        fail_msg("%s", e.text);
    return d;
}

/* Nothing of the GPU is left. */
static void assert_all_given_back(void)
{
    struct cudaemu_live l = cudaemu_live();
    assert_int_equal(l.device_bytes, 0);
    assert_int_equal(l.allocations + l.host_allocations + l.streams + l.events, 0);
}

static void wait_stream(device_stream_t *s)
{
    ddp_error_t e;
    if (device_stream_wait(s, deadline_in(20), NULL, NULL, &e) < 0)
        fail_msg("%s", e.text);
}

static void data_goes_there_and_back(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        device_t *d = open_kind(&kinds[k]);
        device_stream_t *s = device_stream_create(d, DEVICE_NORMAL, NULL);
        unsigned char *to = device_host_malloc(d, N, "a test", NULL), *from = device_host_malloc(d, N, "a test", NULL);
        char *a = device_malloc(d, N, "a test", NULL), *b = device_malloc(d, N, "a test", NULL);
        assert_true((uintptr_t)a % 256 == 0 && (uintptr_t)from % 64 == 0);
        for (int i = 0; i < N; i++)
            to[i] = (unsigned char)i;
        assert_int_equal(device_fill(s, b, 7, N, NULL), 0);
        assert_int_equal(device_copy(s, a + 1, to, N - 1, DEVICE_TO, NULL), 0);
        assert_int_equal(device_copy(s, b + 2, a + 1, N - 9, DEVICE_WITHIN, NULL), 0);
        assert_int_equal(device_copy(s, from, b, N, DEVICE_FROM, NULL), 0);
        assert_int_equal(device_copy(s, from, b, 0, DEVICE_FROM, NULL), 0);
        wait_stream(s);
        for (int i = 0; i < N; i++)
            assert_int_equal(from[i], i < 2 || i >= N - 7 ? 7 : (unsigned char)(i - 2));
        device_free(d, a);
        device_free(d, b);
        device_free(d, NULL);
        device_host_free(d, to);
        device_host_free(d, from);
        device_stream_destroy(s);
        device_close(d);
        assert_all_given_back();
    }
}

static void late_work_is_not_there_before_the_wait(void **state)
{
    (void)state;
    device_t *d = open_kind(&kinds[2]);
    device_stream_t *s = device_stream_create(d, DEVICE_NORMAL, NULL);
    unsigned char *host = device_host_malloc(d, 1, "a test", NULL);
    void *p = device_malloc(d, 1, "a test", NULL);
    *host = 5;
    assert_int_equal(device_fill(s, p, 9, 1, NULL), 0);
    assert_int_equal(device_copy(s, host, p, 1, DEVICE_FROM, NULL), 0);
    assert_int_equal(*host, 5);
    assert_int_equal(device_stream_query(s, NULL), 0); /* the fill */
    assert_int_equal(*host, 5);
    wait_stream(s);
    assert_int_equal(*host, 9);
    assert_int_equal(device_stream_query(s, NULL), 1);
    device_free(d, p);
    device_host_free(d, host);
    device_stream_destroy(s);
    device_close(d);
    assert_all_given_back();
}

static void streams_wait_for_events(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        device_t *d = open_kind(&kinds[k]);
        device_stream_t *compute = device_stream_create(d, DEVICE_NORMAL, NULL);
        device_stream_t *urgent = device_stream_create(d, DEVICE_URGENT, NULL);
        device_event_t *filled = device_event_create(d, false, NULL), *copied = device_event_create(d, false, NULL);
        char *host = device_host_malloc(d, N, "a test", NULL), *p = device_malloc(d, N, "a test", NULL);
        if (kinds[k].kind == DEVICE_CUDA) {
            assert_int_equal(cudaemu_priority(device_native_stream(compute)), 0);
            assert_int_equal(cudaemu_priority(device_native_stream(urgent)), -5); /* the greatest */
        }
        assert_int_equal(device_event_query(filled, NULL), 1);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(device_fill(compute, p, round, N, NULL), 0);
            assert_int_equal(device_event_record(filled, compute, NULL), 0);
            assert_int_equal(device_stream_after(urgent, filled, NULL), 0);
            assert_int_equal(device_copy(urgent, host, p, N, DEVICE_FROM, NULL), 0);
            assert_int_equal(device_event_record(copied, urgent, NULL), 0);
            assert_int_equal(device_event_wait(copied, deadline_in(20), NULL, NULL, NULL), 0);
            assert_int_equal(host[0], round);
            assert_int_equal(host[N - 1], round);
            assert_int_equal(device_event_query(filled, NULL), 1);
        }
        device_event_destroy(filled);
        device_event_destroy(copied);
        device_host_free(d, host);
        device_free(d, p);
        device_stream_destroy(compute);
        device_stream_destroy(urgent);
        device_close(d);
        assert_all_given_back();
    }
}

static void events_tell_time(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        device_t *d = open_kind(&kinds[k]);
        device_stream_t *s = device_stream_create(d, DEVICE_NORMAL, NULL);
        device_event_t *from = device_event_create(d, true, NULL), *to = device_event_create(d, true, NULL);
        double ms = -1, back = 1;
        assert_int_equal(device_event_record(from, s, NULL), 0);
        wait_stream(s);
        uint64_t began = clock_ns();
        while (clock_ns() - began < 2 * NS_PER_MS)
            ;
        assert_int_equal(device_event_record(to, s, NULL), 0);
        wait_stream(s);
        assert_int_equal(device_event_ms(from, to, &ms, NULL), 0);
        assert_int_equal(device_event_ms(to, from, &back, NULL), 0);
        assert_true(ms >= 1.9 && ms < 20000 && back <= -1.9);
        device_event_destroy(from);
        device_event_destroy(to);
        device_stream_destroy(s);
        device_close(d);
        assert_all_given_back();
    }
}

static void properties_are_told(void **state)
{
    (void)state;
    ddp_error_t e;
    size_t left = 0, less = 0;
    setenv("EMU_DEVICES", "3", 1);
    device_t *cpu = open_kind(&kinds[0]);
    assert_int_equal(device_info(cpu)->kind, DEVICE_CPU);
    assert_int_equal(device_memory_free(cpu, &left, &e), 0);
    assert_true(left > 1 << 20 && left <= device_info(cpu)->memory_total_bytes);
    assert_true(device_info(cpu)->peak_flops == 0);
    device_close(cpu);
    assert_int_equal(device_cuda_count(&e), 3);
    device_t *gpu = device_open(DEVICE_CUDA, 2, 0, &e);
    const struct device_info *i = device_info(gpu);
    assert_int_equal(i->ordinal, 2);
    assert_string_equal(i->name, "NVIDIA H200");
    assert_string_equal(i->bus_id, "0000:1A:00.0");
    assert_string_equal(i->uuid, "GPU-21222324-2526-2728-292a-2b2c2d2e2f30");
    assert_int_equal(i->major, 9);
    assert_int_equal(i->memory_total_bytes, 1 << 30);
    assert_true(i->peak_flops == 989e12);
    void *p = device_malloc(gpu, 1000, "a test", &e);
    assert_int_equal(device_memory_free(gpu, &left, &e), 0);
    assert_int_equal(left, (1 << 30) - 1000);
    device_free(gpu, p);
    assert_int_equal(device_memory_free(gpu, &less, &e), 0);
    assert_int_equal(less, 1 << 30);
    device_close(gpu);
    unsetenv("EMU_DEVICES");
    assert_all_given_back();
}

/* For builds with AddressSanitizer, which otherwise ends a program that asks for that much. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void no_memory_on_the_processor(void **state)
{
    (void)state;
    ddp_error_t e;
    device_t *d = open_kind(&kinds[0]);
    assert_null(device_malloc(d, SIZE_MAX - 1000, "the activations", &e));
    assert_error_has(e, "rank 3: the processor: aligned_alloc of 18446744073709550615 bytes for the activations: out "
                        "of memory, ");
    assert_error_has(e, " free: take a smaller --batch, --recompute or --ddp-zero=1");
    assert_false(device_is_broken(d));
    device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_goes_there_and_back),
        cmocka_unit_test(late_work_is_not_there_before_the_wait),
        cmocka_unit_test(streams_wait_for_events),
        cmocka_unit_test(events_tell_time),
        cmocka_unit_test(properties_are_told),
        cmocka_unit_test(no_memory_on_the_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
