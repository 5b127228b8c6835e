/* What every GPU does, over an emulated one whose streams are done at once or late, and over a real one (make
 * gpu-tests). */
#include <errno.h>
#include <pthread.h>

#include "runtime/base/clock.h"
#include "runtime/device/device.h"
#include "t/lib/devicerig.h"
#include "t/unit/unit.h"

#define N RIG_BYTES

static void wait_stream(device_stream_t *s)
{
    ddp_error_t e;
    if (device_stream_wait(s, deadline_in(20), NULL, NULL, &e) < 0)
        fail_msg("%s", e.text);
}

static void data_goes_there_and_back(void **state)
{
    (void)state;
    for (int k = 0; k < RIG_COUNT; k++) {
        device_t *d = rig_open(k);
        device_stream_t *s = device_stream_create(d, DEVICE_NORMAL, NULL);
        unsigned char *to = device_host_malloc(d, N, "a test", NULL), *from = device_host_malloc(d, N, "a test", NULL);
        char *a = device_malloc(d, N, "a test", NULL), *b = device_malloc(d, N, "a test", NULL);
        assert_true((uintptr_t)a % 256 == 0 && (uintptr_t)from % 64 == 0);
        for (size_t i = 0; i < N; i++)
            to[i] = (unsigned char)i;
        assert_int_equal(device_fill(s, b, 7, N, NULL), 0);
        assert_int_equal(device_copy(s, a + 1, to, N - 1, DEVICE_TO, NULL), 0);
        assert_int_equal(device_copy(s, b + 2, a + 1, N - 9, DEVICE_WITHIN, NULL), 0);
        assert_int_equal(device_copy(s, from, b, N, DEVICE_FROM, NULL), 0);
        assert_int_equal(device_copy(s, from, b, 0, DEVICE_FROM, NULL), 0);
        wait_stream(s);
        for (size_t i = 0; i < N; i++)
            if (from[i] != (i < 2 || i >= N - 7 ? 7 : (unsigned char)(i - 2)))
                fail_msg("byte %zu is %d", i, from[i]);
        device_free(d, a);
        device_free(d, b);
        device_free(d, NULL);
        device_host_free(d, to);
        device_host_free(d, from);
        device_stream_destroy(s);
        rig_close(d);
    }
}

static void streams_wait_for_events(void **state)
{
    (void)state;
    for (int k = 0; k < RIG_COUNT; k++) {
        device_t *d = rig_open(k);
        device_stream_t *compute = device_stream_create(d, DEVICE_NORMAL, NULL);
        device_stream_t *urgent = device_stream_create(d, DEVICE_URGENT, NULL);
        device_event_t *filled = device_event_create(d, false, NULL), *copied = device_event_create(d, false, NULL);
        char *host = device_host_malloc(d, N, "a test", NULL), *p = device_malloc(d, N, "a test", NULL);
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
        rig_close(d);
    }
}

static void events_tell_time(void **state)
{
    (void)state;
    for (int k = 0; k < RIG_COUNT; k++) {
        device_t *d = rig_open(k);
        device_stream_t *s = device_stream_create(d, DEVICE_NORMAL, NULL);
        device_event_t *from = device_event_create(d, true, NULL), *to = device_event_create(d, true, NULL);
        double ms = -1;
        assert_int_equal(device_event_record(from, s, NULL), 0);
        wait_stream(s);
        uint64_t began = clock_ns();
        while (clock_ns() - began < 2 * NS_PER_MS)
            ;
        assert_int_equal(device_event_record(to, s, NULL), 0);
        wait_stream(s);
        assert_int_equal(device_event_ms(from, to, &ms, NULL), 0);
        assert_true(ms >= 1.9 && ms < 20000);
        device_event_destroy(from);
        device_event_destroy(to);
        device_stream_destroy(s);
        rig_close(d);
    }
}

static void properties_are_told(void **state)
{
    (void)state;
    ddp_error_t e;
    for (int k = 0; k < RIG_COUNT; k++) {
        device_t *d = rig_open(k);
        const struct device_info *i = device_info(d);
        size_t before, after;
        assert_int_equal(i->kind, DEVICE_CUDA);
        assert_int_equal(i->ordinal, 0);
        assert_true(i->name[0] && i->major > 0);
        assert_int_equal(strlen(i->bus_id), strlen("0000:18:00.0"));
        assert_int_equal(strlen(i->uuid), strlen("GPU-") + 36);
        assert_true(i->peak_flops == device_peak(i->name));
        assert_int_equal(device_memory_free(d, &before, &e), 0);
        assert_true(before > 1 << 20);
        void *p = device_malloc(d, (size_t)64 << 20, "a test", &e);
        assert_int_equal(device_memory_free(d, &after, &e), 0);
        assert_true(after <= before - ((size_t)64 << 20));
        device_free(d, p);
        rig_close(d);
    }
}

static void too_much_memory_is_refused(void **state)
{
    (void)state;
    for (int k = 0; k < RIG_COUNT; k++) {
        device_t *d = rig_open(k);
        ddp_error_t e;
        assert_null(device_malloc(d, (size_t)1 << 45, "the activations", &e)); /* of much more CUDA says otherwise */
        assert_int_equal(e.code, ENOMEM);
        assert_error_has(e, "): cudaMalloc of ");
        assert_error_has(e, " of 35184372088832 bytes for the activations: out of memory, ");
        assert_error_has(e, " free: take a smaller --batch, --recompute or --ddp-zero=1");
        assert_false(device_is_broken(d));
        void *p = device_malloc(d, 1000, "a test", &e); /* what is there can still be had */
        assert_non_null(p);
        device_free(d, p);
        rig_close(d);
    }
}

/* One thread's own streams and memory: content goes to the device and comes back, many times. */
struct copier {
    pthread_t thread;
    device_t *device;
    int byte;
    bool is_wrong;
};

static void *copy_often(void *arg)
{
    struct copier *c = arg;
    device_stream_t *s = device_stream_create(c->device, DEVICE_NORMAL, NULL);
    device_event_t *e = device_event_create(c->device, false, NULL);
    char *host = device_host_malloc(c->device, N, "a test", NULL), *p = device_malloc(c->device, N, "a test", NULL);
    for (int i = 0; i < 300; i++) {
        c->is_wrong |= device_fill(s, p, c->byte + i % 2, N, NULL) < 0 ||
                       device_copy(s, host, p, N, DEVICE_FROM, NULL) < 0 || device_event_record(e, s, NULL) < 0 ||
                       device_event_wait(e, deadline_in(20), NULL, NULL, NULL) < 0 || host[0] != c->byte + i % 2 ||
                       memcmp(host, host + 1, N - 1) != 0;
    }
    device_free(c->device, p);
    device_host_free(c->device, host);
    device_event_destroy(e);
    device_stream_destroy(s);
    return NULL;
}

static void threads_share_it(void **state)
{
    (void)state;
    for (int k = 0; k < RIG_COUNT; k++) {
        struct copier c[3];
        device_t *d = rig_open(k);
        for (int i = 0; i < 3; i++) {
            c[i] = (struct copier){.device = d, .byte = 2 * i};
            assert_int_equal(pthread_create(&c[i].thread, NULL, copy_often, &c[i]), 0);
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pthread_join(c[i].thread, NULL), 0);
            assert_false(c[i].is_wrong);
        }
        rig_close(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_goes_there_and_back),
        cmocka_unit_test(streams_wait_for_events),
        cmocka_unit_test(events_tell_time),
        cmocka_unit_test(properties_are_told),
        cmocka_unit_test(too_much_memory_is_refused),
        cmocka_unit_test(threads_share_it),
    };
    rig_need();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
