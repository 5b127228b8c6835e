#include "t/unit/unit.h"

#include "runtime/base/hash.h"

#include "runtime/data.h"
#include "runtime/layout.h"

/* Ranks and micro-steps together hand out every sample of an epoch, in DistributedSampler's order, and every rank's steps
 * have the same shape. */
static void an_epoch_is_handed_out_whole(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        int size, accum;
        size_t batch;
    } cases[] = {{12, 1, 1, 3}, {13, 2, 1, 3}, {100, 4, 2, 3}, {31, 3, 3, 2}, {5, 1, 1, 5}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint64_t per_rank = (cases[c].n + (uint64_t)cases[c].size - 1) / (uint64_t)cases[c].size;
        for (int rank = 0; rank < cases[c].size; rank++) {
            struct sampler_config cfg = {cases[c].n, rank, cases[c].size, 9};
            struct data d;
            ddp_error_t e;
            assert_int_equal(data_open(&d, &cfg, cases[c].batch, cases[c].accum, &e), 0);
            sampler_t *want = sampler_create(&cfg);
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                sampler_set_epoch(want, epoch);
                uint64_t i = 0;
                int micro = 0;
                while (i < per_rank) {
                    struct data_batch b = data_next(&d);
                    assert_int_equal(b.epoch, epoch);
                    assert_int_equal(b.is_first, micro == 0);
                    micro = (micro + 1) % cases[c].accum;
                    for (size_t k = 0; k < b.n; k++)
                        assert_int_equal(b.ids[k], sampler_get(want, i++));
                    assert_int_equal(b.is_last, micro == 0 || i == per_rank);
                    if (b.is_last)
                        micro = 0;
                }
                assert_int_equal(i, per_rank);
            }
            sampler_destroy(want);
            data_close(&d);
        }
    }
}

static void too_large_a_batch_is_refused(void **state)
{
    (void)state;
    struct data d;
    ddp_error_t e;
    struct sampler_config cfg = {100, 0, 4, 0};
    assert_int_equal(data_open(&d, &cfg, 13, 2, &e), -1);
    assert_error_has(e, "only 100");
    assert_error_has(e, "smaller batch");
    assert_int_equal(data_open(&d, &cfg, SIZE_MAX, 2, &e), -1);
    assert_int_equal(data_open(&d, &cfg, 0, 1, &e), -1);
    data_close(&(struct data){0});
}

static void layouts_are_aligned_and_checked(void **state)
{
    (void)state;
    struct layout l = {0};
    ddp_error_t e;
    assert_int_equal(layout_add(&l, "a", DDP_F32, (size_t[]){3, 5}, 2, 0, &e), 0);
    assert_int_equal(layout_add(&l, "b", DDP_F32, (size_t[]){16}, 1, 1, &e), 1);
    assert_int_equal(layout_add(&l, "c", DDP_F32, (size_t[]){1}, 1, 0, &e), 2);
    assert_int_equal(l.param[1].offset_bytes, 64);
    assert_int_equal(l.param[2].offset_bytes, 128);
    assert_int_equal(l.n_bytes, 192);
    assert_int_equal(layout_add(&l, "b", DDP_F32, (size_t[]){16}, 1, 0, &e), -1);
    assert_error_has(e, "b is declared twice");
    assert_int_equal(layout_add(&l, "d", DDP_F32, (size_t[]){0}, 1, 0, &e), -1);
    assert_int_equal(layout_add(&l, "d", DDP_F32, (size_t[]){SIZE_MAX, 2}, 2, 0, &e), -1);
    assert_int_equal(layout_add(&l, "d e", DDP_F32, (size_t[]){1}, 1, 0, &e), -1);
    assert_int_equal(layout_add(&l, "d", DDP_F32, (size_t[]){1}, 9, 0, &e), -1);
    assert_int_equal(l.n, 3);
    char *text = layout_text(&l);
    assert_string_equal(text, "a f32 [3,5] flags 0\nb f32 [16] flags 1\nc f32 [1] flags 0\n");
    free(text);
    layout_clear(&l);
}

static void differences_name_parameter_and_ranks(void **state)
{
    (void)state;
    ddp_error_t e;
    layout_explain("a f32 [3] flags 0\nb f32 [4] flags 0\n", 0, "a f32 [3] flags 0\nb f32 [5] flags 0\n", 2, &e);
    assert_int_equal(e.domain, DDP_E_LAYOUT);
    assert_error_has(e, "parameter 1 is \"b f32 [4] flags 0\" on rank 0 and \"b f32 [5] flags 0\" on rank 2");
    layout_explain("a f32 [3] flags 0\n", 0, "", 1, &e);
    assert_error_has(e, "\"(none)\" on rank 1");
    assert_true(hash_text("ab") != hash_text("ba"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_epoch_is_handed_out_whole),
    cmocka_unit_test(too_large_a_batch_is_refused),
    cmocka_unit_test(layouts_are_aligned_and_checked),
    cmocka_unit_test(differences_name_parameter_and_ranks),
};
UNIT_MAIN(tests)
