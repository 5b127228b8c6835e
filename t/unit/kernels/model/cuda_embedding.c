/* kernels/model/cuda/embedding.h against double precision. */
#include "t/unit/unit.h"

#include <math.h>

#include "kernels/model/cuda/embedding.h"
#include "t/lib/tensors.h"

struct size {
    struct embedding_shape s;
    size_t vocab, offset; /* offset: elements by which every array starts off a 16-byte boundary */
    size_t drawn;         /* so many different tokens occur, the greatest among them */
};

/* A batch's tokens, here and on the device. */
struct tokens {
    int32_t *host;
    void *at;
};

static struct tokens random_tokens(const struct size *s)
{
    size_t n = s->s.batch * s->s.token_stride;
    struct tokens t = {.host = calloc(n + 1, sizeof *t.host)};
    for (size_t i = 0; i < n; i++)
        t.host[i] = (int32_t)(s->vocab - 1 - draw() % s->drawn * (s->vocab / s->drawn));
    t.at = device_bytes(t.host, n * sizeof *t.host);
    return t;
}

static void free_tokens(struct tokens *t)
{
    device_drop(t->at);
    free(t->host);
}

static size_t token_of_row(const struct tokens *t, const struct embedding_shape *s, size_t row)
{
    return (size_t)t->host[row / s->length * s->token_stride + row % s->length];
}

static void forward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t w = s->s.width, rows = s->s.batch * s->s.length;
    struct tokens tokens = random_tokens(s);
    struct tensor wte = tensor_random(DDP_F32, s->vocab * w, s->offset, 1);
    struct tensor wpe = tensor_random(DDP_F32, s->s.length * w, s->offset, 1);
    struct tensor out = tensor_poisoned(DDP_F32, rows * w, s->offset);
    device_check(cuda_embedding_forward(out.at, tokens.at, wte.at, wpe.at, &s->s, NULL), "embedding forward");
    double *te = tensor_values(&wte), *pe = tensor_values(&wpe), *want = calloc(rows * w, sizeof *want);
    for (size_t r = 0; r < rows; r++) {
        size_t t = r % s->s.length, k = token_of_row(&tokens, &s->s, r);
        for (size_t i = 0; i < w; i++)
            want[r * w + i] = te[k * w + i] + pe[t * w + i];
    }
    tensor_check("out", &out, want, 1e-7);
    tensors_end(hash, &wte, &wpe, &out);
    free_tokens(&tokens);
    free(te), free(pe), free(want);
}

/* Sorts, over poison. Checks that tokens ascend, and rows within a token. Returns what the device has. */
static void *sorted_rows(const struct tokens *t, const struct size *s, uint64_t *hash)
{
    size_t words = cuda_embedding_sorted_elems(&s->s), rows = s->s.batch * s->s.length;
    uint32_t *sorted = malloc(words * sizeof *sorted), *row = sorted + rows;
    memset(sorted, 0xff, words * sizeof *sorted);
    void *order = device_bytes(sorted, words * sizeof *sorted);
    device_check(cuda_embedding_sort(order, t->at, &s->s, s->vocab, NULL), "embedding sort");
    device_fetch(sorted, order, words * sizeof *sorted);
    for (size_t i = 0; i < rows; i++) {
        assert_true(row[i] < rows);
        assert_int_equal(sorted[i], token_of_row(t, &s->s, row[i]));
        if (i > 0)
            assert_true(sorted[i - 1] < sorted[i] || (sorted[i - 1] == sorted[i] && row[i - 1] < row[i]));
    }
    for (size_t i = 0; i < 2 * rows; i++)
        *hash = (*hash ^ sorted[i]) * 1099511628211u;
    free(sorted);
    return order;
}

/* Several tiles, and numbers of passes odd and even. */
static void sort_of_many(const void *arg, uint64_t *hash)
{
    struct tokens tokens = random_tokens(arg);
    device_drop(sorted_rows(&tokens, arg, hash));
    free_tokens(&tokens);
}

static void backward(const void *arg, uint64_t *hash)
{
    const struct size *s = arg;
    size_t w = s->s.width, rows = s->s.batch * s->s.length;
    struct tokens tokens = random_tokens(s);
    struct tensor dout = tensor_random(DDP_F32, rows * w, s->offset, 1);
    struct tensor dwte = tensor_random(DDP_F32, s->vocab * w, s->offset, 1);
    struct tensor dwpe = tensor_random(DDP_F32, s->s.length * w, s->offset, 1);
    double *dy = tensor_values(&dout), *te = tensor_values(&dwte), *pe = tensor_values(&dwpe);
    void *order = sorted_rows(&tokens, s, hash);
    device_check(cuda_embedding_backward(dwte.at, dwpe.at, dout.at, order, &s->s, NULL), "embedding backward");
    for (size_t r = 0; r < rows; r++) {
        size_t t = r % s->s.length, k = token_of_row(&tokens, &s->s, r);
        for (size_t i = 0; i < w; i++) {
            te[k * w + i] += dy[r * w + i];
            pe[t * w + i] += dy[r * w + i];
        }
    }
    tensor_check("dwte", &dwte, te, 2e-6);
    tensor_check("dwpe", &dwpe, pe, 2e-6);
    tensors_end(hash, &dwte, &dwpe, &dout);
    device_drop(order);
    free_tokens(&tokens);
    free(dy), free(te), free(pe);
}

static const struct size sizes[] = {
    {{1, 1, 1, 1}, 1, 0, 1},      {{3, 5, 131, 6}, 4, 1, 4},      {{2, 33, 8, 33}, 257, 0, 40},
    {{2, 9, 768, 10}, 17, 0, 5},  {{5, 7, 33, 8}, 300, 3, 300},   {{3, 60, 16, 61}, 50257, 0, 9},
    {{150, 2, 8, 2}, 5000, 0, 1}, {{2, 9, 72, 10}, 17, 0, 5},     {{8, 16, 9, 16}, 7, 1, 3},
};

static void forward_matches(void **state)
{
    (void)state;
    each_in_every_order(forward, sizes);
}

static void backward_matches(void **state)
{
    (void)state;
    each_in_every_order(backward, sizes);
}

static void rows_are_sorted(void **state)
{
    (void)state;
    static const struct size many[] = {
        {{1, 2049, 8, 2049}, 16, 0, 16},
        {{41, 151, 8, 160}, 66000, 0, 700},
        {{9, 455, 8, 456}, 50257, 0, 50257},
    };
    each_in_every_order(sort_of_many, many);
}

static void empty_batches_are_nothing_and_bad_shapes_are_refused(void **state)
{
    (void)state;
    struct embedding_shape none = {0, 4, 8, 4}, overlapping = {2, 4, 8, 3};
    assert_int_equal(cuda_embedding_forward(NULL, NULL, NULL, NULL, &none, NULL), 0);
    assert_int_equal(cuda_embedding_sort(NULL, NULL, &none, 10, NULL), 0);
    assert_int_equal(cuda_embedding_backward(NULL, NULL, NULL, NULL, &none, NULL), 0);
    assert_int_not_equal(cuda_embedding_forward(NULL, NULL, NULL, NULL, &overlapping, NULL), 0);
    assert_int_not_equal(cuda_embedding_sort(NULL, NULL, &overlapping, 10, NULL), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(forward_matches),
    cmocka_unit_test(backward_matches),
    cmocka_unit_test(rows_are_sorted),
    cmocka_unit_test(empty_batches_are_nothing_and_bad_shapes_are_refused),
};

TENSORS_MAIN(tests)
