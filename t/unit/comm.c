#include "t/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "runtime/base/dtype.h"
#include "t/lib/ranks.h"

struct layout {
    const char *name;
    bool by_rank; /* every node holds an aligned power-of-two block of ranks */
    int size, node_of[RANKS_MAX];
};

static const struct layout layouts[] = {
    {"1", true, 1, {0}},
    {"2", true, 2, {0}},
    {"3", false, 3, {0}},
    {"4", true, 4, {0}},
    {"7", false, 7, {0}},
    {"16", true, 16, {0}},
    {"1,1", true, 2, {0, 1}},
    {"1,1,1", true, 3, {0, 1, 2}},
    {"2,2", true, 4, {0, 0, 1, 1}},
    {"cyclic 2,2", false, 4, {0, 1, 0, 1}},
    {"2,1,1", true, 4, {0, 0, 1, 2}},
    {"1,2,4", false, 7, {0, 1, 1, 2, 2, 2, 2}},
    {"4,2,1", true, 7, {0, 0, 0, 0, 1, 1, 2}},
    {"3,3,1", false, 7, {0, 0, 0, 1, 1, 1, 2}},
    {"4 x 4", true, 16, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}},
    {"4,8,4", false, 16, {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2}},
    {"7 nodes", true, 7, {0, 1, 2, 3, 4, 5, 6}},
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

static void on_every_layout(rank_f *f)
{
    for (int k = 0; k < N_LAYOUTS; k++) {
        struct job j = {.size = layouts[k].size, .node_of = layouts[k].node_of, .arg = &layouts[k]};
        if (!job_run(&j, f))
            fail_msg("nodes of %s ranks", layouts[k].name);
    }
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

static int integers_rank(struct job *j, int rank)
{
    static const size_t lengths[] = {0, 1, 5, 1000003};
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
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
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void allreduce_is_exact_on_integers(void **state)
{
    (void)state;
    on_every_layout(integers_rank);
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
static double in_order(const struct layout *l, const double *x, bool is_f64)
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

static double want(const struct layout *l, const struct comm_range *r, size_t i)
{
    double x[RANKS_MAX];
    for (int k = 0; k < l->size; k++) {
        double v = (double)random_value(k, i, (unsigned)r->offset_bytes);
        x[k] = r->dtype == DDP_F64 ? v * 1.1 : r->dtype == DDP_I64 ? (double)(int64_t)v : v;
    }
    return in_order(l, x, r->dtype != DDP_F32);
}

static int ordered_rank(struct job *j, int rank)
{
    const struct layout *l = j->arg;
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    comm_segment_t *other = comm_segment_create(c, 100, &e), *s = comm_segment_create(c, SEGMENT, &e);
    CHECK(other && s, "%s", e.text);
    char *data = comm_segment_data(s);
    CHECK((uintptr_t)data % 64 == 0, "alignment");
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
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void sums_follow_the_tree_bit_for_bit(void **state)
{
    (void)state;
    on_every_layout(ordered_rank);
}

/* Every type and operator gives the same bytes on every rank and at every repetition. */
static int same_rank(struct job *j, int rank)
{
    enum { N = 4099 };
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    char *x = malloc(N * 8), *before = malloc(N * 8), *all = malloc((size_t)j->size * N * 8);
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int op = 0; op < 3; op++)
            for (int repeat = 0; repeat < 2; repeat++) {
                size_t bytes = N * dtype_size((enum ddp_dtype)t);
                for (size_t i = 0; i < bytes; i++) /* exponents stay moderate: bytes below 64 */
                    x[i] = (char)(((uint32_t)random_value(rank, i, 5) >> 3) % 64);
                CHECK(comm_allreduce(c, x, N, (enum ddp_dtype)t, (enum ddp_op)op, &e) == 0, "%s", e.text);
                CHECK(comm_allgather(c, x, bytes, all, &e) == 0, "%s", e.text);
                for (int r = 0; r < j->size; r++)
                    CHECK(memcmp(x, all + (size_t)r * bytes, bytes) == 0, "%s %s differs from rank %d's",
                          dtype_name((enum ddp_dtype)t), op_name((enum ddp_op)op), r);
                CHECK(repeat == 0 || memcmp(x, before, bytes) == 0, "repetitions differ");
                memcpy(before, x, bytes);
            }
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void all_types_agree_on_all_ranks(void **state)
{
    (void)state;
    on_every_layout(same_rank);
}

static char byte_of(int rank, size_t i, int salt)
{
    return (char)(i * 31 + (size_t)rank * 17 + (size_t)salt + (i >> 9));
}

static int move_rank(struct job *j, int rank)
{
    static const size_t lengths[] = {0, 1, 1000, (1 << 20) + 7};
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        size_t n = lengths[k];
        char *x = malloc(n + 1), *all = malloc(n * (size_t)j->size + 1);
        for (int turn = 0; turn < 2; turn++) {
            int root = turn == 0 ? j->size - 1 : j->size / 2;
            for (size_t i = 0; i < n; i++)
                x[i] = rank == root ? byte_of(root, i, turn) : 0;
            CHECK(comm_bcast(c, x, n, root, &e) == 0, "%s", e.text);
            for (size_t i = 0; i < n; i++)
                CHECK(x[i] == byte_of(root, i, turn), "broadcast of %zu bytes from %d, byte %zu", n, root, i);
        }
        for (size_t i = 0; i < n; i++)
            x[i] = byte_of(rank, i, 3);
        CHECK(comm_allgather(c, x, n, all, &e) == 0, "%s", e.text);
        for (int r = 0; r < j->size; r++)
            for (size_t i = 0; i < n; i++)
                CHECK(all[(size_t)r * n + i] == byte_of(r, i, 3), "gathered %zu bytes, rank %d's byte %zu", n, r, i);
        free(x);
        free(all);
    }
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void broadcast_and_allgather_move_every_byte(void **state)
{
    (void)state;
    on_every_layout(move_rank);
}

/* No rank leaves a barrier that another has not reached. */
static int barrier_rank(struct job *j, int rank)
{
    volatile _Atomic int *count = j->shared;
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    for (int i = 1; i <= 50; i++) {
        ++*count;
        CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
        CHECK(*count >= i * j->size, "%d of %d had come to barrier %d", *count, i * j->size, i);
        CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    }
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void nobody_passes_a_barrier_early(void **state)
{
    (void)state;
    on_every_layout(barrier_rank);
}

/* Over all nodes exactly 2 (n_nodes - 1) times the payload travels: no padding. */
static int volume_rank(struct job *j, int rank)
{
    enum { N = 100003 };
    uint64_t *sent = j->shared;
    static const struct comm_range r[] = {{0, 5, DDP_F32}, {64, N, DDP_F32}};
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    comm_segment_t *s = comm_segment_create(c, 64 + N * 4, &e);
    CHECK(s, "%s", e.text);
    uint64_t before = comm_tcp_bytes_sent(c);
    CHECK(comm_reduce_ranges(c, s, r, 2, DDP_SUM, &e) == 0, "%s", e.text);
    sent[rank] = comm_tcp_bytes_sent(c) - before;
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    uint64_t payload = (N + 5) * 4, total = 0;
    for (int k = 0; k < w->n_nodes; k++) {
        uint64_t node = 0, n = (uint64_t)w->n_nodes, slack = 64 * (n + 1) * (uint64_t)world_min_local_size(w);
        for (int l = 0; l < world_local_size(w, k); l++)
            node += sent[world_rank_at(w, k, l)];
        total += node;
        uint64_t mean = 2 * (n - 1) * payload / n;
        CHECK(node <= mean + slack && node + slack >= mean, "node %d sent %llu, not about %llu", k,
              (unsigned long long)node, (unsigned long long)mean);
    }
    CHECK(total == 2 * (uint64_t)(w->n_nodes - 1) * payload, "sent %llu bytes", (unsigned long long)total);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void bytes_between_nodes_equal_the_formula(void **state)
{
    (void)state;
    on_every_layout(volume_rank);
}

static int count_entries(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static int tidy_rank(struct job *j, int rank)
{
    struct world *w;
    ddp_error_t e = {0};
    enum { FDS = 200 };
    bool was_open[FDS];
    for (int fd = 0; fd < FDS; fd++)
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    int before = count_entries("/proc/self/fd");
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c && comm_segment_create(c, 1 << 20, &e), "%s", e.text);
    for (int fd = 3; fd < FDS; fd++)
        CHECK(was_open[fd] || fcntl(fd, F_GETFD) < 0 || (fcntl(fd, F_GETFD) & FD_CLOEXEC),
              "descriptor %d survives exec", fd);
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    comm_destroy(c);
    world_destroy(w);
    CHECK(count_entries("/proc/self/fd") == before, "descriptors stay open");
    CHECK(count_entries("/proc/self/task") == 3, "a thread stays"); /* ".", "..", itself */
    return 0;
}

static void nothing_is_left_behind(void **state)
{
    (void)state;
    int before = count_entries("/dev/shm");
    on_every_layout(tidy_rank);
    assert_int_equal(count_entries("/dev/shm"), before);
}

static int misuse_rank(struct job *j, int rank)
{
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    comm_segment_t *s = comm_segment_create(c, rank == 0 ? 100 : 200, &e);
    CHECK(!s, "segments of different sizes");
    CHECK(strstr(e.text, "100") && strstr(e.text, "200"), "%s", e.text);
    CHECK(comm_barrier(c, &e) < 0, "goes on after an error");
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static int bad_range_rank(struct job *j, int rank)
{
    static const struct comm_range bad[] = {
        {0, 26, DDP_F32}, {32, 1, DDP_F32}, {128, 1, DDP_F32}, {0, SIZE_MAX, DDP_F64}};
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    comm_segment_t *s = c ? comm_segment_create(c, 100, &e) : NULL;
    CHECK(s, "%s", e.text);
    CHECK(comm_reduce_ranges(c, s, &bad[*(const int *)j->arg], 1, DDP_SUM, &e) < 0, "accepted");
    CHECK(strstr(e.text, "range 0"), "%s", e.text);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

/* One of them a call: an operator that there is not (of works, of sums), a size that overflows. */
static int bad_sum_rank(struct job *j, int rank)
{
    static const struct comm_range r = {0, 1, DDP_F32};
    struct world *w;
    ddp_error_t e = {0};
    float x[1] = {0};
    int k = *(const int *)j->arg, rc = 0;
    comm_t *c = job_comm(j, rank, &w, &e);
    comm_segment_t *s = c ? comm_segment_create(c, 100, &e) : NULL;
    CHECK(s, "%s", e.text);
    if (k == 0)
        rc = comm_reduce_ranges(c, s, &r, 1, (enum ddp_op)3, &e);
    else
        rc = comm_allreduce(c, x, k == 1 ? 1 : SIZE_MAX / 4 + 2, DDP_F32, (enum ddp_op)(k == 1 ? -1 : DDP_SUM), &e);
    CHECK(rc < 0, "accepted");
    CHECK(strstr(e.text, k == 2 ? "more than memory" : "operator"), "%s", e.text);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void misuse_is_refused_on_every_rank(void **state)
{
    (void)state;
    static const int two[] = {0, 0};
    struct job j = {.size = 2, .node_of = two};
    assert_true(job_run(&j, misuse_rank));
    for (int k = 0; k < 4; k++) {
        struct job b = {.size = 2, .node_of = two, .arg = &k};
        assert_true(job_run(&b, bad_range_rank));
    }
    for (int k = 0; k < 3; k++) {
        struct job b = {.size = 2, .node_of = two, .arg = &k};
        assert_true(job_run(&b, bad_sum_rank));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(allreduce_is_exact_on_integers), cmocka_unit_test(sums_follow_the_tree_bit_for_bit),
    cmocka_unit_test(all_types_agree_on_all_ranks),   cmocka_unit_test(broadcast_and_allgather_move_every_byte),
    cmocka_unit_test(nobody_passes_a_barrier_early),  cmocka_unit_test(bytes_between_nodes_equal_the_formula),
    cmocka_unit_test(nothing_is_left_behind),         cmocka_unit_test(misuse_is_refused_on_every_rank),
};
UNIT_MAIN(tests)
