/* Who owns what where NCCL moves: every element once, in shares of one size that cut no block of the norm. */
#include "t/unit/unit.h"

#include "runtime/optimizer/zero_gpu.h"

enum { PARAMS_MAX = 40, RANKS_MAX = 17, BYTES = sizeof(float) };

static uint32_t seed = 11;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static void declare(struct layout *l, int n)
{
    for (int i = 0; i < n; i++) {
        char name[16];
        unsigned flags = draw(4) ? 0 : DDP_PAD_ROWS, most = flags ? 600 : 60000;
        size_t shape[2] = {draw(3) ? 1 + draw(100) : draw(2) ? ZERO_GPU_UNIT * (1 + draw(9)) : 1 + draw(most), 1};
        shape[1] += flags ? draw(30) : 0;
        snprintf(name, sizeof name, "p%d", i);
        assert_int_equal(layout_add(l, name, DDP_F32, shape, 2, flags, NULL), i);
    }
}

static void copy(struct layout *to, const struct layout *from)
{
    *to = *from;
    to->param = malloc((size_t)from->room * sizeof *to->param);
    for (int i = 0; i < from->n; i++)
        to->param[i] = from->param[i];
}

/* Elements that a parameter and the rows behind it need. */
static size_t room(const struct layout_param *p)
{
    size_t rows = p->flags & DDP_PAD_ROWS ? (p->shape[0] + 127) / 128 * 128 : p->shape[0];
    return rows * p->shape[1];
}

/* Parameters keep their order, begin at units, and lie in their bucket; buckets lie one behind the other. */
static void check_places(const struct zero_gpu *s, const struct layout *l, size_t n_ranks)
{
    size_t end = 0, at = 0;
    for (int b = s->plan.n_buckets - 1; b >= 0; b--) {
        assert_int_equal(s->bucket[b].at, at);
        assert_true(s->bucket[b].n_each > 0 && s->bucket[b].n_each % ZERO_GPU_UNIT == 0);
        at += n_ranks * s->bucket[b].n_each;
    }
    assert_int_equal(at * BYTES, l->n_bytes);
    for (int id = 0; id < l->n; id++) {
        const struct zero_gpu_bucket *b = &s->bucket[s->plan.bucket_of[id]];
        size_t first = l->param[id].offset_bytes / BYTES;
        assert_true(first % ZERO_GPU_UNIT == 0 && first >= end && first >= b->at);
        end = first + room(&l->param[id]);
        assert_true(end <= b->at + n_ranks * b->n_each);
    }
}

/* Padding is less than was promised (zero_gpu.h). */
static void check_padding(const struct zero_gpu *s, const struct layout *l, size_t n_ranks)
{
    size_t needed = 0;
    for (int id = 0; id < l->n; id++)
        needed += (room(&l->param[id]) + ZERO_GPU_UNIT - 1) / ZERO_GPU_UNIT * ZERO_GPU_UNIT;
    assert_true(l->n_bytes / BYTES - needed <= (size_t)s->plan.n_buckets * (n_ranks - 1) * ZERO_GPU_UNIT);
}

/* Counts what rank's slices own. */
static void count(const struct zero_gpu *s, const struct layout *l, const struct optimizer *o, size_t rank,
                  char *owners)
{
    size_t next = 0;
    for (int b = 0; b < s->plan.n_buckets; b++) {
        const struct zero_gpu_bucket *bucket = &s->bucket[b];
        size_t from = bucket->at + rank * bucket->n_each;
        assert_int_equal(bucket->first, next);
        for (next = bucket->first; next < bucket->end; next++) {
            const struct optimizer_slice *slice = &o->slice[next];
            size_t first = slice->at - l->param[slice->id].offset_bytes / BYTES;
            assert_int_equal(s->plan.bucket_of[slice->id], b);
            assert_true(slice->at >= from && slice->at + slice->n_elems <= from + bucket->n_each);
            assert_int_equal(first % ZERO_GPU_UNIT, 0);
            assert_true(slice->n_elems % ZERO_GPU_UNIT == 0 || first + slice->n_elems == l->param[slice->id].n_elems);
            for (size_t i = 0; i < slice->n_elems; i++)
                owners[slice->at + i]++;
        }
    }
    assert_int_equal(next, o->n_slices);
}

static void check(const struct layout *declared, int n_ranks, size_t first_cap, size_t cap)
{
    struct layout l = {0};
    char *owners = NULL;
    for (int r = 0; r < n_ranks; r++) {
        struct zero_gpu s;
        struct optimizer o = {0};
        layout_clear(&l);
        copy(&l, declared);
        assert_int_equal(zero_gpu_open(&s, &l, first_cap, cap, r, n_ranks, &o, NULL), 0);
        check_places(&s, &l, (size_t)n_ranks);
        check_padding(&s, &l, (size_t)n_ranks);
        owners = owners ? owners : calloc(l.n_bytes / BYTES + 1, 1);
        count(&s, &l, &o, (size_t)r, owners);
        optimizer_close(&o);
        zero_gpu_close(&s);
    }
    for (int id = 0; id < l.n; id++) {
        size_t first = l.param[id].offset_bytes / BYTES;
        for (size_t i = first; i < first + l.param[id].n_elems; i++)
            if (owners[i]-- != 1)
                fail_msg("element %zu of parameter %d has %d owners of %d", i - first, id, owners[i] + 1, n_ranks);
    }
    for (size_t i = 0; i < l.n_bytes / BYTES; i++)
        assert_int_equal(owners[i], 0); /* nobody steps what is padded */
    free(owners);
    layout_clear(&l);
}

static void test_every_element_once(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct layout l = {0};
        declare(&l, 1 + (int)draw(PARAMS_MAX));
        for (int n_ranks = 1; n_ranks <= RANKS_MAX; n_ranks += 1 + (int)draw(6))
            check(&l, n_ranks, 1 + draw(100000), 1 + draw(400000));
        layout_clear(&l);
    }
}

static void test_nothing(void **state)
{
    struct layout l = {0};
    (void)state;
    check(&l, 3, 1, 1);
}

/* Buckets of the cap that is asked for are padded by less than an eighth. */
static void test_cap(void **state)
{
    (void)state;
    for (int n_ranks = 1; n_ranks < 100; n_ranks += 7) {
        struct zero_gpu s;
        struct layout l = {0};
        struct optimizer o = {0};
        size_t shape = zero_gpu_cap(n_ranks) / BYTES + 1 + draw(10000);
        assert_int_equal(layout_add(&l, "w", DDP_F32, &shape, 1, 0, NULL), 0);
        assert_int_equal(zero_gpu_open(&s, &l, 1, 1, 0, n_ranks, &o, NULL), 0);
        assert_true(l.n_bytes / BYTES - shape < ZERO_GPU_UNIT + shape / 8);
        optimizer_close(&o);
        zero_gpu_close(&s);
        layout_clear(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_element_once),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
