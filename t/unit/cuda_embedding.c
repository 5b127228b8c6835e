/* kernels/cuda/embedding.h against double precision. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/cuda/embedding.h"
#include "t/lib/tensors.h"

struct size {
    bool bf16;
    struct embedding_shape s;
    size_t vocab, offset; /* offset: elements by which every array starts off a 16-byte boundary */
    size_t drawn;         /* so many different tokens occur, the greatest among them */
};

static int32_t *random_tokens(const struct size *s)
{
    size_t n = s->s.batch * s->s.token_stride;
    int32_t *token = calloc(n + 1, sizeof *token);
    for (size_t i = 0; i < n; i++)
        token[i] = (int32_t)(s->vocab - 1 - draw() % s->drawn * (s->vocab / s->drawn));
    return token;
}

static void forward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t w = s->s.width, rows = s->s.batch * s->s.length;
    int32_t *token = random_tokens(s);
    void *tokens = device_bytes(token, s->s.batch * s->s.token_stride * sizeof *token);
    struct tensor wte = tensor_random(false, s->vocab * w, s->offset, 1);
    struct tensor wpe = tensor_random(false, s->s.length * w, s->offset, 1);
    struct tensor out = tensor_poisoned(s->bf16, rows * w, s->offset);
    device_check(s->bf16 ? cuda_embedding_forward_bf16(out.at, tokens, wte.at, wpe.at, &s->s, NULL)
                         : cuda_embedding_forward_f32(out.at, tokens, wte.at, wpe.at, &s->s, NULL),
                 "embedding forward");
    double *te = tensor_values(&wte), *pe = tensor_values(&wpe), *want = calloc(rows * w, sizeof *want);
    for (size_t r = 0; r < rows; r++) {
        size_t b = r / s->s.length, t = r % s->s.length, k = (size_t)token[b * s->s.token_stride + t];
        for (size_t i = 0; i < w; i++)
            want[r * w + i] = te[k * w + i] + pe[t * w + i];
    }
    tensor_check("out", &out, want, 1e-7);
    tensor_hash(hash, &out);
    tensor_free(&wte), tensor_free(&wpe), tensor_free(&out);
    device_free(tokens);
    free(token), free(te), free(pe), free(want);
}

/* Tokens ascend, and rows within a token. */
static void check_sorted(const uint32_t *sorted, const int32_t *token, const struct embedding_shape *s)
{
    size_t rows = s->batch * s->length;
    const uint32_t *row = sorted + rows;
    for (size_t i = 0; i < rows; i++) {
        assert_true(row[i] < rows);
        assert_int_equal(sorted[i], token[row[i] / s->length * s->token_stride + row[i] % s->length]);
        if (i > 0)
            assert_true(sorted[i - 1] < sorted[i] || (sorted[i - 1] == sorted[i] && row[i - 1] < row[i]));
    }
}

/* Several tiles, and numbers of passes odd and even. */
static void sort_of_many(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t words = cuda_embedding_sorted_elems(&s->s);
    int32_t *token = random_tokens(s);
    uint32_t *sorted = malloc(words * sizeof *sorted);
    void *tokens = device_bytes(token, s->s.batch * s->s.token_stride * sizeof *token);
    void *order = device_bytes(NULL, words * sizeof *sorted);
    device_check(cuda_embedding_sort(order, tokens, &s->s, s->vocab, NULL), "embedding sort");
    device_fetch(sorted, order, words * sizeof *sorted);
    check_sorted(sorted, token, &s->s);
    for (size_t i = 0; i < 2 * s->s.batch * s->s.length; i++)
        *hash = (*hash ^ sorted[i]) * 1099511628211u;
    device_free(tokens), device_free(order);
    free(token), free(sorted);
}

static void backward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t w = s->s.width, rows = s->s.batch * s->s.length, words = cuda_embedding_sorted_elems(&s->s);
    int32_t *token = random_tokens(s);
    void *tokens = device_bytes(token, s->s.batch * s->s.token_stride * sizeof *token);
    uint32_t *sorted = malloc(words * sizeof *sorted);
    memset(sorted, 0xff, words * sizeof *sorted);
    void *order = device_bytes(sorted, words * sizeof *sorted);
    struct tensor dout = tensor_random(s->bf16, rows * w, s->offset, 1);
    struct tensor dwte = tensor_random(false, s->vocab * w, s->offset, 1);
    struct tensor dwpe = tensor_random(false, s->s.length * w, s->offset, 1);
    double *dy = tensor_values(&dout), *te = tensor_values(&dwte), *pe = tensor_values(&dwpe);
    device_check(cuda_embedding_sort(order, tokens, &s->s, s->vocab, NULL), "embedding sort");
    device_fetch(sorted, order, words * sizeof *sorted);
    check_sorted(sorted, token, &s->s);
    device_check(s->bf16 ? cuda_embedding_backward_bf16(dwte.at, dwpe.at, dout.at, order, &s->s, NULL)
                         : cuda_embedding_backward_f32(dwte.at, dwpe.at, dout.at, order, &s->s, NULL),
                 "embedding backward");
    for (size_t r = 0; r < rows; r++) {
        size_t b = r / s->s.length, t = r % s->s.length, k = (size_t)token[b * s->s.token_stride + t];
        for (size_t i = 0; i < w; i++) {
            te[k * w + i] += dy[r * w + i];
            pe[t * w + i] += dy[r * w + i];
        }
    }
    tensor_check("dwte", &dwte, te, 2e-6);
    tensor_check("dwpe", &dwpe, pe, 2e-6);
    tensor_hash(hash, &dwte);
    tensor_hash(hash, &dwpe);
    tensor_free(&dout), tensor_free(&dwte), tensor_free(&dwpe);
    device_free(tokens), device_free(order);
    free(token), free(sorted), free(dy), free(te), free(pe);
}

static const struct size sizes[] = {
    {false, {1, 1, 1, 1}, 1, 0, 1},        {false, {3, 5, 131, 6}, 4, 1, 4},   {false, {2, 33, 8, 33}, 257, 0, 40},
    {true, {2, 9, 768, 10}, 17, 0, 5},     {true, {5, 7, 33, 8}, 300, 3, 300}, {true, {3, 60, 16, 61}, 50257, 0, 9},
    {true, {150, 2, 8, 2}, 5000, 0, 1},
};

static void forward_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        in_every_order(forward, &sizes[i]);
}

static void backward_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        in_every_order(backward, &sizes[i]);
}

static void rows_are_sorted(void **state)
{
    (void)state;
    static const struct size many[] = {
        {true, {1, 2049, 8, 2049}, 16, 0, 16},
        {true, {41, 151, 8, 160}, 66000, 0, 700},
        {true, {9, 455, 8, 456}, 50257, 0, 50257},
    };
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        in_every_order(sort_of_many, &many[i]);
}

static void empty_batches_are_nothing_and_bad_shapes_are_refused(void **state)
{
    (void)state;
    struct embedding_shape none = {0, 4, 8, 4}, overlapping = {2, 4, 8, 3};
    assert_int_equal(cuda_embedding_forward_f32(NULL, NULL, NULL, NULL, &none, NULL), 0);
    assert_int_equal(cuda_embedding_sort(NULL, NULL, &none, 10, NULL), 0);
    assert_int_equal(cuda_embedding_backward_f32(NULL, NULL, NULL, NULL, &none, NULL), 0);
    assert_int_not_equal(cuda_embedding_forward_f32(NULL, NULL, NULL, NULL, &overlapping, NULL), 0);
    assert_int_not_equal(cuda_embedding_sort(NULL, NULL, &overlapping, 10, NULL), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(forward_matches),
    cmocka_unit_test(backward_matches),
    cmocka_unit_test(rows_are_sorted),
    cmocka_unit_test(empty_batches_are_nothing_and_bad_shapes_are_refused),
};

TENSORS_MAIN(tests)
