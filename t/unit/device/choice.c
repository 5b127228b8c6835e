/* Which device a rank gets, and who may have the same: pure. */
#include <stdio.h>

#include "runtime/device/choice.h"
#include "t/unit/unit.h"

static void wishes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum device_wish wish;
        int ordinal;
    } good[] = {
        {"auto", DEVICE_WISH_AUTO, -1}, {"cpu", DEVICE_WISH_CPU, -1}, {"cuda", DEVICE_WISH_CUDA, -1},
        {"0", DEVICE_WISH_AUTO, 0},     {"7", DEVICE_WISH_AUTO, 7},
    };
    static const char *const bad[] = {"", "gpu", "cuda:1", "-1", "1024", "1x", "CPU"};
    enum device_wish wish;
    int ordinal;
    ddp_error_t e;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(device_wish_parse(good[i].text, "DDP_DEVICE", &wish, &ordinal, &e), 0);
        assert_int_equal(wish, good[i].wish);
        assert_int_equal(ordinal, good[i].ordinal);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char said[64];
        snprintf(said, sizeof said, "DDP_DEVICE=%s is not allowed", bad[i]);
        assert_int_equal(device_wish_parse(bad[i], "DDP_DEVICE", &wish, &ordinal, &e), -1);
        assert_int_equal(e.domain, DDP_E_USAGE);
        assert_error_has(e, said);
    }
}

static void gpus_are_dealt_out(void **state)
{
    (void)state;
    static const struct {
        struct device_facts f;
        enum device_kind kind;
        int ordinal;
    } cases[] = {
        {{DEVICE_WISH_AUTO, -1, 4, NULL, NULL, 0}, DEVICE_CUDA, 0},
        {{DEVICE_WISH_AUTO, -1, 4, NULL, NULL, 3}, DEVICE_CUDA, 3},
        {{DEVICE_WISH_CUDA, -1, 4, NULL, NULL, 2}, DEVICE_CUDA, 2},
        {{DEVICE_WISH_AUTO, 1, 4, NULL, NULL, 3}, DEVICE_CUDA, 1},  /* the plugin's word counts */
        {{DEVICE_WISH_CUDA, 1, 4, NULL, NULL, 3}, DEVICE_CUDA, 1},
        {{DEVICE_WISH_AUTO, -1, 1, NULL, "5", 3}, DEVICE_CUDA, 0},  /* each rank sees its own alone */
        {{DEVICE_WISH_AUTO, -1, 2, NULL, NULL, 3}, DEVICE_CUDA, 1},
        {{DEVICE_WISH_CPU, -1, 4, NULL, NULL, 3}, DEVICE_CPU, 0},
        {{DEVICE_WISH_CPU, 3, 0, "none", NULL, 3}, DEVICE_CPU, 0},
    };
    struct device_choice c;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(device_choose(&cases[i].f, &c, NULL), 0);
        assert_int_equal(c.kind, cases[i].kind);
        assert_int_equal(c.ordinal, cases[i].ordinal);
        assert_string_equal(c.note, "");
        assert_int_equal(c.is_demanded, cases[i].f.wish == DEVICE_WISH_CUDA);
    }
}

static void without_a_gpu_auto_falls_back(void **state)
{
    (void)state;
    struct device_choice c;
    ddp_error_t e;
    struct device_facts f = {.wish = DEVICE_WISH_AUTO, .named = 2, .why_none = "the driver is too old"};
    assert_int_equal(device_choose(&f, &c, &e), 0);
    assert_int_equal(c.kind, DEVICE_CPU);
    assert_string_equal(c.note, "no GPU, training on the processor: the driver is too old");
    f.wish = DEVICE_WISH_CUDA;
    c.ordinal = 77;
    assert_int_equal(device_choose(&f, &c, &e), -1);
    assert_int_equal(c.ordinal, 77);
    assert_int_equal(e.domain, DDP_E_USAGE);
    assert_string_equal(e.text, "a GPU is asked for (device cuda), but the driver is too old");
}

static void a_gpu_that_is_not_there_is_refused(void **state)
{
    (void)state;
    struct device_choice c;
    ddp_error_t e;
    struct device_facts f = {.wish = DEVICE_WISH_AUTO, .named = 2, .n_gpus = 2, .visible = "4,5"};
    assert_int_equal(device_choose(&f, &c, &e), -1);
    assert_int_equal(e.domain, DDP_E_USAGE);
    assert_error_has(e, "DDP_DEVICE names GPU 2, but this process sees 2 (CUDA_VISIBLE_DEVICES=4,5)");
}

static struct device_id gpu(int rank, int node, const char *uuid, const char *bus_id)
{
    struct device_info i = {.kind = DEVICE_CUDA};
    snprintf(i.uuid, sizeof i.uuid, "%s", uuid);
    snprintf(i.bus_id, sizeof i.bus_id, "%s", bus_id);
    return device_id_of(&i, rank, node);
}

static void two_ranks_on_one_gpu_are_found(void **state)
{
    (void)state;
    ddp_error_t e;
    struct device_id same[] = {gpu(0, 0, "GPU-a", "0000:18:00.0"), gpu(1, 0, "GPU-b", "0000:2A:00.0"),
                               gpu(2, 1, "GPU-c", "0000:18:00.0"), gpu(3, 1, "GPU-c", "0000:18:00.0")};
    assert_int_equal(device_compare(same, 4, false, &e), -1);
    assert_int_equal(e.domain, DDP_E_USAGE);
    assert_error_has(e, "ranks 2 and 3 of node 1 both have the GPU 0000:18:00.0");
    assert_error_has(e, "--ddp-share-device=on");
    assert_int_equal(device_compare(same, 4, true, &e), 1);
    assert_int_equal(device_compare(same, 3, false, &e), 0);
    assert_int_equal(device_compare(same, 3, true, &e), 0);
    struct device_id slices[] = {gpu(0, 0, "GPU-m1", "0000:18:00.0"), gpu(1, 0, "GPU-m2", "0000:18:00.0")};
    assert_int_equal(device_compare(slices, 2, false, &e), 0);
    struct device_id nameless[] = {gpu(0, 0, "", "0000:18:00.0"), gpu(1, 1, "", "0000:18:00.0"),
                                   gpu(2, 1, "", "0000:18:00.0")};
    assert_int_equal(device_compare(nameless, 2, false, &e), 0);
    assert_int_equal(device_compare(nameless, 3, false, &e), -1);
    assert_error_has(e, "ranks 1 and 2 of node 1");
}

static void gpus_and_processors_do_not_mix(void **state)
{
    (void)state;
    ddp_error_t e;
    struct device_info cpu = {.kind = DEVICE_CPU};
    struct device_id all[] = {device_id_of(&cpu, 0, 0), device_id_of(&cpu, 1, 0), device_id_of(&cpu, 2, 1)};
    assert_int_equal(device_compare(all, 3, false, &e), 0);
    all[1] = gpu(1, 0, "GPU-a", "0000:18:00.0");
    for (int share = 0; share < 2; share++) {
        assert_int_equal(device_compare(all, 3, share, &e), -1);
        assert_error_has(e, "rank 1 computes on a GPU (0000:18:00.0) and rank 0 on its processor");
    }
    all[0] = gpu(0, 0, "GPU-b", "0000:2A:00.0");
    assert_int_equal(device_compare(all, 3, false, &e), -1);
    assert_error_has(e, "rank 0 computes on a GPU (0000:2A:00.0) and rank 2 on its processor");
}

static void peaks_go_by_whole_names(void **state)
{
    (void)state;
    assert_true(device_peak("NVIDIA H200") == 989e12);
    assert_true(device_peak("NVIDIA H100 80GB HBM3") == 989e12);
    assert_true(device_peak("NVIDIA H100 PCIe") == 756e12);
    assert_true(device_peak("NVIDIA A100-SXM4-80GB") == 312e12);
    static const char *const unknown[] = {"", "NVIDIA", "NVIDIA H100", "NVIDIA H200 MIG 1g.18gb", "NVIDIA H200 NVL"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_true(device_peak(unknown[i]) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wishes_are_read),
        cmocka_unit_test(gpus_are_dealt_out),
        cmocka_unit_test(without_a_gpu_auto_falls_back),
        cmocka_unit_test(a_gpu_that_is_not_there_is_refused),
        cmocka_unit_test(two_ranks_on_one_gpu_are_found),
        cmocka_unit_test(gpus_and_processors_do_not_mix),
        cmocka_unit_test(peaks_go_by_whole_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
