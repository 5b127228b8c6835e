/* Every byte of an arena belongs to one rank, whatever the tensors and however many ranks there are. */
#include "t/unit/unit.h"

#include "runtime/ckpt/checksum.h"
#include "runtime/save/split.h"

#define BLOCK CKPT_BLOCK_BYTES
enum { N_MAX = 12 };

static uint32_t seed = 7;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

struct arena {
    struct files files;
    struct split_arena a;
    size_t offset[N_MAX], n_bytes;
    char *owner; /* [n_bytes] times that a byte was given away */
};

/* Tensors of all kinds of lengths, at multiples of 64 bytes, the first ones of the files being others'. */
static void make(struct arena *x, size_t first, size_t n)
{
    struct st_tensor t[2 * N_MAX] = {0};
    const struct files_group group = {"model", t, first + n};
    x->n_bytes = 0;
    for (size_t i = 0; i < first + n; i++) {
        snprintf(t[i].name, sizeof t[i].name, "t%zu", i);
        t[i].dtype = ST_F32;
        t[i].ndim = 1;
        t[i].shape[0] = draw(3) ? 1 + draw(100) : draw(2) ? 4096 * (1 + draw(9)) : 1 + draw(60000);
        if (i < first)
            continue;
        x->offset[i - first] = x->n_bytes;
        x->n_bytes += (t[i].shape[0] * 4 + 63) / 64 * 64;
    }
    assert_int_equal(files_make(&x->files, &group, 1, 1 << 20, NULL), 0);
    x->owner = calloc(x->n_bytes + 1, 1);
    x->a = (struct split_arena){x->owner, first, n, x->offset};
}

static void check_piece(struct arena *x, const struct writer_piece *p)
{
    size_t i = p->tensor - x->a.first;
    uint64_t size = x->files.tensor[p->tensor].t.n_bytes;
    assert_true(p->tensor >= x->a.first && i < x->a.n && p->n > 0);
    assert_int_equal(p->at % BLOCK, 0);
    assert_true(p->n % BLOCK == 0 || p->at + p->n == size);
    assert_ptr_equal(p->from, x->owner + x->offset[i] + p->at);
    for (size_t k = 0; k < p->n; k++)
        x->owner[x->offset[i] + p->at + k]++;
}

static void check_ranks(struct arena *x, int n_ranks)
{
    size_t most = 0, least = SIZE_MAX, end = 0;
    memset(x->owner, 0, x->n_bytes);
    for (int r = 0; r < n_ranks; r++) {
        struct split s = {0};
        size_t at, n, blocks = 0, inside = 0;
        assert_int_equal(split_add_arena(&s, &x->files, &x->a, r, n_ranks, NULL), 0);
        split_span(&x->files, &x->a, r, n_ranks, &at, &n);
        for (size_t i = 0; i < s.n; i++) {
            check_piece(x, &s.piece[i]);
            blocks += (s.piece[i].n + BLOCK - 1) / BLOCK;
            size_t from = (size_t)((const char *)s.piece[i].from - x->owner);
            inside += from >= at && from + s.piece[i].n <= at + n;
        }
        assert_int_equal(inside, s.n);
        if (n) {
            assert_true(at >= end); /* spans rise */
            end = at + n;
        }
        most = blocks > most ? blocks : most;
        least = blocks < least ? blocks : least;
        split_clear(&s);
    }
    assert_true(most - least <= 1);
    for (size_t i = 0; i < x->a.n; i++)
        for (size_t k = 0; k < x->files.tensor[x->a.first + i].t.n_bytes; k++)
            if (x->owner[x->offset[i] + k] != 1)
                fail_msg("byte %zu of tensor %zu has %d owners of %d", k, i, x->owner[x->offset[i] + k], n_ranks);
}

static void test_every_byte_once(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        struct arena x;
        make(&x, draw(4), 1 + draw(N_MAX));
        for (int n_ranks = 1; n_ranks <= 9; n_ranks += 1 + (n_ranks > 4))
            check_ranks(&x, n_ranks);
        free(x.owner);
        files_clear(&x.files);
    }
}

static void test_nothing(void **state)
{
    struct arena x;
    struct split s = {0};
    size_t at, n;
    (void)state;
    make(&x, 2, 1);
    x.a.n = 0;
    assert_int_equal(split_add_arena(&s, &x.files, &x.a, 0, 2, NULL), 0);
    split_span(&x.files, &x.a, 1, 2, &at, &n);
    assert_true(s.n == 0 && n == 0);
    split_clear(&s);
    free(x.owner);
    files_clear(&x.files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_once),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
