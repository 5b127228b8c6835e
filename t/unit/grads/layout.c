/* What a parameter may be, and what is said of models that differ. */
#include "t/unit/unit.h"

#include "runtime/base/hash.h"
#include "runtime/ddp.h"
#include "runtime/grads/layout.h"

static int add(struct layout *l, const char *name, const size_t *shape, int ndim, unsigned flags, ddp_error_t *errp)
{
    return layout_add(l, name, DDP_F32, shape, ndim, flags, errp);
}

static void names_are_words(void **state)
{
    (void)state;
    struct layout l = {0};
    ddp_error_t e = {0};
    char longest[LAYOUT_NAME_MAX + 2];
    static const size_t one = 1;
    static const char *const bad[] = {"", "a b", "a\tb", "a\177", "\n", "twice"};
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(add(&l, "twice", &one, 1, 0, &e), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(add(&l, bad[i], &one, 1, 0, &e), -1);
    assert_error_has(e, "parameter twice is declared twice");
    assert_int_equal(add(&l, NULL, &one, 1, 0, &e), -1);
    assert_int_equal(add(&l, longest, &one, 1, 0, &e), -1);
    assert_error_has(e, "parameter 1: a name has 1 to 127 bytes");
    assert_int_equal(add(&l, longest + 1, &one, 1, 0, &e), 1);
    assert_int_equal(add(&l, "\xc3\xa4", &one, 1, 0, &e), 2);
    layout_clear(&l);
}

static void sizes_do_not_overflow(void **state)
{
    (void)state;
    struct layout l = {0};
    ddp_error_t e = {0};
    static const size_t ones[LAYOUT_DIMS_MAX + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, none[] = {3, 0};
    static const size_t half[] = {LAYOUT_BYTES_MAX / 8}, wrapping[] = {SIZE_MAX / 2 + 1, 2, 5}, huge[] = {SIZE_MAX / 2};
    assert_int_equal(add(&l, "p", ones, 0, 0, &e), -1);
    assert_int_equal(add(&l, "p", ones, LAYOUT_DIMS_MAX + 1, 0, &e), -1);
    assert_error_has(e, "parameter p: 9 dimensions; 1 to 8 are allowed");
    assert_int_equal(add(&l, "p", NULL, 1, 0, &e), -1);
    assert_int_equal(add(&l, "p", none, 2, 0, &e), -1);
    assert_error_has(e, "parameter p: dimension 1 is 0");
    assert_int_equal(add(&l, "p", wrapping, 3, 0, &e), -1);
    assert_error_has(e, "parameter p: its size overflows");
    assert_int_equal(add(&l, "p", huge, 1, 0, &e), -1);
    assert_error_has(e, "parameter p: its size overflows");
    assert_int_equal(l.n, 0);
    assert_int_equal(add(&l, "p", ones, LAYOUT_DIMS_MAX, 0, &e), 0);
    assert_int_equal(add(&l, "q", half, 1, 0, &e), 1);
    assert_int_equal(add(&l, "r", half, 1, 0, &e), -1); /* 64 bytes too many */
    assert_error_has(e, "parameter r: all parameters together are more than 2^48 bytes");
    layout_clear(&l);
    assert_int_equal(add(&l, "q", half, 1, 0, &e), 0);
    assert_int_equal(add(&l, "r", half, 1, 0, &e), 1);
    assert_int_equal(l.n_bytes, LAYOUT_BYTES_MAX);
    layout_clear(&l);
}

static void parameters_are_aligned(void **state)
{
    (void)state;
    struct layout l = {0};
    assert_int_equal(add(&l, "a", (size_t[]){3, 5}, 2, 0, NULL), 0);
    assert_int_equal(add(&l, "b", (size_t[]){16}, 1, 1, NULL), 1);
    assert_int_equal(add(&l, "c", (size_t[]){1}, 1, 0, NULL), 2);
    assert_int_equal(l.param[1].offset_bytes, 64);
    assert_int_equal(l.param[2].offset_bytes, 128);
    assert_int_equal(l.n_bytes, 192);
    char *text = layout_text(&l);
    assert_string_equal(text, "a f32 [3,5] flags 0\nb f32 [16] flags 1\nc f32 [1] flags 0\n");
    free(text);
    layout_clear(&l);
}

static void rows_are_padded_to_a_multiple(void **state)
{
    (void)state;
    static const struct {
        size_t rows, padded;
        unsigned flags;
    } cases[] = {
        {1, DDP_PAD_MULTIPLE, DDP_PAD_ROWS},
        {DDP_PAD_MULTIPLE, DDP_PAD_MULTIPLE, DDP_PAD_ROWS},
        {DDP_PAD_MULTIPLE + 1, 2 * DDP_PAD_MULTIPLE, DDP_PAD_ROWS},
        {DDP_PAD_MULTIPLE + 1, DDP_PAD_MULTIPLE + 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layout l = {0};
        size_t shape[] = {cases[i].rows, 48};
        assert_int_equal(add(&l, "p", shape, 2, cases[i].flags, NULL), 0);
        assert_int_equal(l.param[0].n_elems, cases[i].rows * 48);
        assert_int_equal(l.n_bytes, cases[i].padded * 48 * sizeof(float));
        layout_clear(&l);
    }
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
    layout_explain("w\nb\n", 0, "w2\nb\n", 1, &e);
    assert_error_has(e, "parameter 0 is \"w\" on rank 0 and \"w2\" on rank 1");
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
    cmocka_unit_test(names_are_words),
    cmocka_unit_test(sizes_do_not_overflow),
    cmocka_unit_test(parameters_are_aligned),
    cmocka_unit_test(rows_are_padded_to_a_multiple),
    cmocka_unit_test(differences_name_parameter_and_ranks),
};
UNIT_MAIN(tests)
