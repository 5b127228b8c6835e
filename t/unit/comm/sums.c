/* What reductions give: exact sums of integers, and the fixed order bit for bit. */
#include "t/unit/unit.h"

#include "runtime/base/dtype.h"
#include "runtime/comm/engine.h"
#include "t/lib/placements.h"

/* Staged operations are written in both ways in turn, two by two: not all ranks hear of it at the same one. */
bool __wrap_bypass_of(const struct bypass *b, uint64_t n);

bool __wrap_bypass_of(const struct bypass *b, uint64_t n)
{
    (void)b;
    return n / 2 % 2;
}

static float small_integer(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13) % 23) - 11;
}

static float expected_sum(int size, size_t i)
{
    float s = 0;
    for (int r = 0; r < size; r++)
        s += small_integer(r, i);
    return s;
}

static int integers_rank(struct job *j, int rank, comm_t *c)
{
    static const size_t lengths[] = {0, 1, 5, 1000003};
    ddp_error_t e = {0};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        size_t n = lengths[k];
        float *x = malloc((n + 1) * sizeof *x);
        for (size_t i = 0; i < n; i++)
            x[i] = small_integer(rank, i);
        x[n] = 77;
        CHECK(comm_allreduce(c, x, n, DDP_F32, DDP_SUM, &e) == 0, "%s", e.text);
        for (size_t i = 0; i < n; i++)
            CHECK(x[i] == expected_sum(j->size, i), "element %zu of %zu: %g", i, n, (double)x[i]);
        CHECK(x[n] == 77, "written past the end");
        free(x);
    }
    return 0;
}

static void allreduce_is_exact_on_integers(void **state)
{
    (void)state;
    assert_true(placements_run_comm(integers_rank));
}

/* More pieces to a message than a system call takes. */
static int many_ranges_rank(struct job *j, int rank, comm_t *c)
{
    enum { RANGES = 3000, EACH = COMM_BLOCK / sizeof(float) };
    static struct comm_range many[RANGES];
    ddp_error_t e = {0};
    comm_segment_t *s = comm_segment_create(c, RANGES * COMM_BLOCK, &e);
    CHECK(s, "%s", e.text);
    float *x = comm_segment_data(s);
    for (size_t i = 0; i < RANGES; i++)
        many[i] = (struct comm_range){i * COMM_BLOCK, EACH, DDP_F32};
    for (size_t i = 0; i < RANGES * EACH; i++)
        x[i] = small_integer(rank, i);
    CHECK(comm_reduce_ranges(c, s, many, RANGES, DDP_SUM, &e) == 0, "%s", e.text);
    for (size_t i = 0; i < RANGES * EACH; i++)
        CHECK(x[i] == expected_sum(j->size, i), "element %zu: %g", i, (double)x[i]);
    return 0;
}

static void a_message_may_have_any_number_of_pieces(void **state)
{
    (void)state;
    assert_true(placements_run_comm(many_ranges_rank));
}

/* Results of which a system call still takes all, or all but one, wherever the one before has ended. */
static void look_on(void *ctx, size_t range, size_t first, const void *data, size_t n_elems)
{
    (void)ctx, (void)range, (void)first, (void)data, (void)n_elems;
}

static int full_calls_rank(struct job *j, int rank, comm_t *c)
{
    enum { LEAST = 245, MOST = 345, EACH = COMM_BLOCK / sizeof(float) };
    static struct comm_range many[2 * MOST];
    ddp_error_t e = {0};
    comm_segment_t *s = comm_segment_create(c, sizeof many / sizeof *many * COMM_BLOCK, &e);
    CHECK(s, "%s", e.text);
    float *x = comm_segment_data(s);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        many[i] = (struct comm_range){i * COMM_BLOCK, EACH, DDP_F32};
    for (size_t n = LEAST; n < MOST; n++) {
        struct comm_reduce r = {.segment = s, .ranges = many, .n_ranges = 2 * n, .visit = look_on};
        for (size_t i = 0; i < 2 * n * EACH; i++)
            x[i] = small_integer(rank, i);
        comm_work_t *w = comm_reduce_start(c, &r, &e);
        CHECK(w && comm_wait(w, &e) == 0, "%s", e.text);
        for (size_t i = 0; i < 2 * n * EACH; i++)
            CHECK(x[i] == expected_sum(j->size, i), "%zu pieces, element %zu: %g", n, i, (double)x[i]);
    }
    return 0;
}

static void a_message_may_have_as_many_pieces_as_a_call_takes(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (const int[]){0, 1}};
    assert_true(job_run_comm(&j, full_calls_rank));
}

/* Wide-ranging magnitudes, so that every other order of additions gives other bits. */
static float random_value(int rank, size_t i, unsigned salt)
{
    uint64_t h = (i * 1000003 + (uint64_t)rank * 7919 + salt) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9ull;
    h ^= h >> 32;
    float f = (float)(int32_t)(uint32_t)h;
    for (unsigned k = h >> 40 & 15; k > 0; k--)
        f *= 0.25f;
    return f;
}

static double add(double a, double b, bool is_f64)
{
    return is_f64 ? a + b : (double)((float)a + (float)b);
}

static double tree(const double *x, int n, bool is_f64)
{
    int m = 1;
    if (n == 1)
        return x[0];
    while (m * 2 < n)
        m *= 2;
    return add(tree(x, m, is_f64), tree(x + m, n - m, is_f64), is_f64);
}

/* The order as comm.h tells it, from the hand-written by_rank. */
static double in_order(const struct placement *l, const double *x, bool is_f64)
{
    double node[RANKS_MAX];
    int n_nodes = 0;
    if (l->by_rank)
        return tree(x, l->size, is_f64);
    for (int k = 0; k < l->size; k++) {
        double mine[RANKS_MAX];
        int n = 0;
        for (int r = 0; r < l->size; r++)
            if (l->node_of[r] == k)
                mine[n++] = x[r];
        if (n > 0)
            node[n_nodes++] = tree(mine, n, is_f64);
    }
    return tree(node, n_nodes, is_f64);
}

/* Ranges of three types with gaps between them, out of order, one empty, one of a single element. */
static const struct comm_range ranges[] = {
    {64 * 100, 30011, DDP_F32}, {0, 1, DDP_F32},           {64 * 2, 16, DDP_F32}, {64 * 50, 0, DDP_F64},
    {64 * 3000, 1003, DDP_F64}, {64 * 4000, 513, DDP_I64},
};
enum { N_RANGES = sizeof ranges / sizeof *ranges, SEGMENT = 64 * 5000 + 24 };

static void put(char *segment, const struct comm_range *r, size_t i, double v)
{
    if (r->dtype == DDP_F32)
        ((float *)(segment + r->offset_bytes))[i] = (float)v;
    else if (r->dtype == DDP_F64)
        ((double *)(segment + r->offset_bytes))[i] = v * 1.1;
    else
        ((int64_t *)(segment + r->offset_bytes))[i] = (int64_t)v;
}

static double get(const char *segment, const struct comm_range *r, size_t i)
{
    if (r->dtype == DDP_F32)
        return (double)((const float *)(segment + r->offset_bytes))[i];
    if (r->dtype == DDP_F64)
        return ((const double *)(segment + r->offset_bytes))[i];
    return (double)((const int64_t *)(segment + r->offset_bytes))[i];
}

static double want(const struct placement *l, const struct comm_range *r, size_t i)
{
    double x[RANKS_MAX];
    for (int k = 0; k < l->size; k++) {
        double v = (double)random_value(k, i, (unsigned)r->offset_bytes);
        x[k] = r->dtype == DDP_F64 ? v * 1.1 : r->dtype == DDP_I64 ? (double)(int64_t)v : v;
    }
    return in_order(l, x, r->dtype != DDP_F32);
}

static int ordered_rank(struct job *j, int rank, comm_t *c)
{
    const struct placement *l = j->arg;
    ddp_error_t e = {0};
    comm_segment_t *other = comm_segment_create(c, 100, &e), *s = comm_segment_create(c, SEGMENT, &e);
    CHECK(other && s, "%s", e.text);
    char *data = comm_segment_data(s);
    CHECK((uintptr_t)data % 64 == 0, "alignment");
    memset(comm_segment_data(other), 0x33, 100);
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    for (size_t i = 0; i < SEGMENT; i++)
        CHECK(data[i] == 0, "not zeroed at %zu", i);
    for (int repeat = 0; repeat < 3; repeat++) {
        memset(data, 0x55, SEGMENT);
        for (size_t k = 0; k < N_RANGES; k++)
            for (size_t i = 0; i < ranges[k].n_elems; i++)
                put(data, &ranges[k], i, (double)random_value(rank, i, (unsigned)ranges[k].offset_bytes));
        CHECK(comm_reduce_ranges(c, s, ranges, N_RANGES, DDP_SUM, &e) == 0, "%s", e.text);
        for (size_t k = 0; k < N_RANGES; k++)
            for (size_t i = 0; i < ranges[k].n_elems; i++) {
                double have = get(data, &ranges[k], i), right = want(l, &ranges[k], i);
                CHECK(memcmp(&have, &right, sizeof have) == 0, "range %zu element %zu: %.17g, not %.17g", k, i, have,
                      right);
            }
        CHECK(data[64 + 5] == 0x55 && data[4] == 0x55 && data[SEGMENT - 1] == 0x55, "a gap was written");
    }
    for (size_t i = 0; i < 100; i++)
        CHECK(((char *)comm_segment_data(other))[i] == 0x33, "another segment was written");
    return 0;
}

static void sums_follow_the_tree_bit_for_bit(void **state)
{
    (void)state;
    assert_true(placements_run_comm(ordered_rank));
}

/* Every type and operator gives the same bytes on every rank and at every repetition: of a slot of the stage, which is
 * written in one way or the other, and of three elements more. */
static int same_rank(struct job *j, int rank, comm_t *c)
{
    enum { SLOT = STAGE_SLOT_BYTES, MOST = SLOT + 3 * 8, PATTERN = 4099 };
    ddp_error_t e = {0};
    char *x = malloc(MOST), *before = malloc(MOST), *all = malloc((size_t)j->size * MOST);
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int op = 0; op < 3; op++)
            for (int repeat = 0; repeat < 2; repeat++) {
                size_t size = dtype_size((enum ddp_dtype)t), n = SLOT / size + 3, bytes = n * size;
                for (size_t i = 0; i < bytes; i++) /* exponents stay moderate: bytes below 64 */
                    x[i] = i < PATTERN ? (char)(((uint32_t)(int32_t)random_value(rank, i, 5) >> 3) % 64)
                                       : x[i - PATTERN];
                CHECK(comm_allreduce(c, x, n, (enum ddp_dtype)t, (enum ddp_op)op, &e) == 0, "%s", e.text);
                CHECK(comm_allgather(c, x, bytes, all, &e) == 0, "%s", e.text);
                for (int r = 0; r < j->size; r++)
                    CHECK(memcmp(x, all + (size_t)r * bytes, bytes) == 0, "%s %s differs from rank %d's",
                          dtype_name((enum ddp_dtype)t), op_name((enum ddp_op)op), r);
                CHECK(repeat == 0 || memcmp(x, before, bytes) == 0, "repetitions differ");
                memcpy(before, x, bytes);
            }
    return 0;
}

static void all_types_agree_on_all_ranks(void **state)
{
    (void)state;
    assert_true(placements_run_comm(same_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(allreduce_is_exact_on_integers),
    cmocka_unit_test(a_message_may_have_any_number_of_pieces),
    cmocka_unit_test(a_message_may_have_as_many_pieces_as_a_call_takes),
    cmocka_unit_test(sums_follow_the_tree_bit_for_bit),
    cmocka_unit_test(all_types_agree_on_all_ranks),
};
UNIT_MAIN(tests)
