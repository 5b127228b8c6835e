#include "t/unit/unit.h"

#include "runtime/base/hash.h"

#include "runtime/data.h"
#include "runtime/layout.h"

static struct data opened(const struct data_config *cfg)
{
    struct data d;
    ddp_error_t e;
    if (data_open(&d, cfg, &e) < 0)
        fail_msg("%s", e.text);
    return d;
}

/* Ranks and micro-steps together hand out every sample of an epoch, in DistributedSampler's order, and every rank's
 * steps have the same shape. */
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
            struct data d = opened(&(struct data_config){.n_samples = cases[c].n,
                                                         .seed = 9,
                                                         .rank = rank,
                                                         .n_ranks = cases[c].size,
                                                         .batch = cases[c].batch,
                                                         .accum = cases[c].accum});
            sampler_t *want = sampler_create(&(struct sampler_config){cases[c].n, cases[c].size, 9});
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                sampler_set_epoch(want, epoch);
                uint64_t i = 0;
                int micro = 0;
                while (i < per_rank) {
                    struct data_batch b = data_next(&d);
                    assert_int_equal(b.epoch, epoch);
                    assert_int_equal(b.shard, rank);
                    assert_int_equal(b.micro, micro);
                    assert_int_equal(b.is_first, micro == 0);
                    micro = (micro + 1) % cases[c].accum;
                    for (size_t k = 0; k < b.n; k++)
                        assert_int_equal(b.ids[k], sampler_get(want, rank, i++));
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

/* With V shards, step s of an epoch takes from shard v the entries [sB, sB + B) of replica v out of V, whatever the
 * number of ranks; the last step of an epoch takes what is left, from every shard as much. */
static void shards_have_the_same_samples_on_any_number_of_ranks(void **state)
{
    (void)state;
    enum { V = 8, B = 3 };
    static const uint64_t sizes[] = {24, 100, 192, 193}; /* entries per shard: 3, 13, 24, 25 */
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++)
        for (int n_ranks = 1; n_ranks <= V; n_ranks *= 2)
            for (int rank = 0; rank < n_ranks; rank++) {
                struct data d = opened(&(struct data_config){
                    .n_samples = sizes[c], .seed = 5, .rank = rank, .n_ranks = n_ranks, .batch = B, .accum = 1,
                    .n_shards = V});
                sampler_t *want = sampler_create(&(struct sampler_config){sizes[c], V, 5});
                uint64_t per_shard = (sizes[c] + V - 1) / V;
                for (uint64_t epoch = 0; epoch < 2; epoch++) {
                    sampler_set_epoch(want, epoch);
                    for (uint64_t at = 0; at < per_shard; at += B)
                        for (int micro = 0; micro < V / n_ranks; micro++) {
                            struct data_batch b = data_next(&d);
                            assert_int_equal(b.epoch, epoch);
                            assert_int_equal(b.shard, rank * (V / n_ranks) + micro);
                            assert_int_equal(b.n, per_shard - at < B ? per_shard - at : B);
                            assert_int_equal(b.is_first, micro == 0);
                            assert_int_equal(b.is_last, micro == V / n_ranks - 1);
                            for (size_t k = 0; k < b.n; k++)
                                assert_int_equal(b.ids[k], sampler_get(want, b.shard, at + k));
                        }
                }
                sampler_destroy(want);
                data_close(&d);
            }
}

static void refuses(const struct data_config *cfg, const char *what, const char *cure)
{
    struct data d;
    ddp_error_t e;
    assert_int_equal(data_open(&d, cfg, &e), -1);
    assert_int_equal(e.domain, DDP_E_USAGE);
    assert_error_has(e, what);
    assert_error_has(e, cure);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    const struct data_config good = {.n_samples = 100, .n_ranks = 4, .batch = 12, .accum = 2};
    struct data_config c = good;
    c.batch = 13, refuses(&c, "only 100", "smaller batch");
    c.batch = SIZE_MAX, refuses(&c, "only 100", "smaller batch");
    c.batch = 0, refuses(&c, "batch of 0", "at least 1");
    c = good, c.n_samples = 0, refuses(&c, "0 samples", "1..");
    c = good, c.n_shards = -1, refuses(&c, "-1 shards", "at least");
    c = good, c.n_shards = 12, refuses(&c, "12 shards", "power of two");
    c = good, c.n_shards = 8, c.n_ranks = 3, refuses(&c, "on 3 ranks", "start 1, 2, 4");
    c = good, c.n_shards = 2, c.accum = 1, refuses(&c, "2 shards on 4 ranks", "at least 4 shards");
    c = good, c.n_shards = 8, refuses(&c, "2 micro-steps", "1 micro-step and 2 times as many shards");
    c = good, c.n_shards = 16, c.accum = 1, refuses(&c, "12 x 1 x 16", "shards");
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
    assert_error_has(e, "parameter 0 is \"a f32 [3] flags 0\" on rank 0 and \"(none)\" on rank 1");
#define LONG "module.model.decoder.layers.31.self_attention.query_key_value.weight"
    layout_explain(LONG " f32 [4096,12288] flags 0\n", 0, LONG " f32 [4096,12289] flags 0\n", 1000000, &e);
    assert_error_has(e, "ery_key_value.weight f32 [4096,12288] flags 0\" on rank 0");
    assert_error_has(e, "ery_key_value.weight f32 [4096,12289] flags 0\" on rank 1000000; start every rank");
    assert_error_has(e, "with the same options");
    layout_explain("x." LONG "\n", 0, "y." LONG "." LONG "\n", 1, &e);
    assert_error_has(e, "\"x.module.model");
    assert_error_has(e, "\"y.module.model");
    layout_explain(LONG "." LONG "\n", 0, LONG "\n", 1, &e);
    assert_error_has(e, "weight\" on rank 1");
    assert_true(hash_text("ab") != hash_text("ba"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_epoch_is_handed_out_whole),
    cmocka_unit_test(shards_have_the_same_samples_on_any_number_of_ranks),
    cmocka_unit_test(what_does_not_go_together_is_refused),
    cmocka_unit_test(layouts_are_aligned_and_checked),
    cmocka_unit_test(differences_name_parameter_and_ranks),
};
UNIT_MAIN(tests)
