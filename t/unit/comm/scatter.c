/* Reduce-scatter: the bits of an all-reduce, of any length, where nodes have as many ranks and where they have not. */
#include "t/unit/unit.h"

#include <unistd.h>

#include "runtime/base/dtype.h"
#include "t/lib/placements.h"

/* What comes between a work's end and what its caller does then. */
static useconds_t delay_us;

int __real_comm_wait(comm_work_t *w, ddp_error_t *errp);
int __wrap_comm_wait(comm_work_t *w, ddp_error_t *errp);

int __wrap_comm_wait(comm_work_t *w, ddp_error_t *errp)
{
    int rc = __real_comm_wait(w, errp);
    usleep(delay_us);
    return rc;
}

/* Of magnitudes so different that another order of additions gives other bits. */
static float value(int rank, size_t i)
{
    uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)rank * 40503u;
    float f = (float)(int32_t)(h * 2246822519u);
    for (unsigned k = h >> 28; k > 0; k--)
        f *= 0.25f;
    return f;
}

static int scatter(comm_t *c, const struct job *j, int rank, size_t n, bool in_place)
{
    size_t all = n * (size_t)j->size;
    float *in = malloc((all + 1) * sizeof *in), *sum = malloc((all + 1) * sizeof *sum);
    float *out = in_place ? in + (size_t)rank * n : malloc((n + 1) * sizeof *out);
    ddp_error_t e = {0};
    for (size_t i = 0; i < all; i++)
        in[i] = sum[i] = value(rank, i);
    in[all] = 77;
    CHECK(comm_allreduce(c, sum, all, DDP_F32, DDP_SUM, &e) == 0, "%s", e.text);
    CHECK(comm_reduce_scatter(c, in, n, DDP_F32, DDP_SUM, out, &e) == 0, "%s", e.text);
    CHECK(memcmp(out, sum + (size_t)rank * n, n * sizeof *out) == 0, "%zu elements each", n);
    for (size_t i = 0; i < all; i++)
        CHECK((in_place && i / n == (size_t)rank) || in[i] == value(rank, i), "the input was changed at %zu", i);
    CHECK(in[all] == 77, "written past the end");
    free(in);
    free(sum);
    if (!in_place)
        free(out);
    return 0;
}

static int scatter_rank(struct job *j, int rank, comm_t *c)
{
    static const size_t lengths[] = {0, 1, 17, 5000, 300007};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
        for (int in_place = 0; in_place < 2; in_place++)
            if (scatter(c, j, rank, lengths[k], in_place))
                return 1;
    return 0;
}

static void each_rank_gets_its_part_of_the_sum(void **state)
{
    (void)state;
    assert_true(placements_run_comm(scatter_rank));
}

/* Where nodes have as many ranks, each node sends (n - 1) / n of the whole, in partials alone. */
static int volume_rank(struct job *j, int rank, comm_t *c)
{
    enum { N = 64 * 1024 };
    const struct world *w = j->world;
    uint64_t *sent = j->shared, total = 0;
    float *in = calloc((size_t)w->size, N * sizeof *in), *out = malloc(N * sizeof *out);
    ddp_error_t e = {0};
    uint64_t before = comm_tcp_bytes_sent(c);
    CHECK(comm_reduce_scatter(c, in, N, DDP_F32, DDP_SUM, out, &e) == 0, "%s", e.text);
    sent[rank] = comm_tcp_bytes_sent(c) - before;
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    for (int r = 0; r < w->size; r++)
        total += sent[r];
    uint64_t whole = (uint64_t)w->size * N * sizeof *in, times = (uint64_t)w->n_nodes - 1;
    bool is_even = world_min_local_size(w) * w->n_nodes == w->size;
    CHECK(total == (is_even ? 1 : 2) * times * whole, "sent %llu bytes of %llu", (unsigned long long)total,
          (unsigned long long)whole);
    free(in);
    free(out);
    return 0;
}

static void nothing_travels_that_nobody_takes(void **state)
{
    (void)state;
    assert_true(placements_run_comm(volume_rank));
}

/* Rank 0 is slow to copy out of its part, where rank 1 would put what it gathers. */
static int followed_rank(struct job *j, int rank, comm_t *c)
{
    enum { N = 40000, PIECE = 64 << 10 };
    float *in = malloc(2 * N * sizeof *in), *out = malloc(N * sizeof *out);
    char *piece = calloc(1, PIECE), *all = malloc(2 * PIECE);
    ddp_error_t e = {0};
    (void)j;
    for (size_t i = 0; i < 2 * N; i++)
        in[i] = value(rank, i);
    delay_us = rank == 0 ? 50000 : 0;
    CHECK(comm_reduce_scatter(c, in, N, DDP_F32, DDP_SUM, out, &e) == 0, "%s", e.text);
    CHECK(comm_allgather(c, piece, PIECE, all, &e) == 0, "%s", e.text);
    for (size_t i = 0, at = (size_t)rank * N; i < N; i++)
        CHECK(out[i] == value(0, at + i) + value(1, at + i), "element %zu is another call's", i);
    free(in);
    free(out);
    free(piece);
    free(all);
    return 0;
}

static void the_next_call_overtakes_nobody(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (const int[]){0, 0}};
    assert_true(job_run_comm(&j, followed_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_rank_gets_its_part_of_the_sum),
    cmocka_unit_test(nothing_travels_that_nobody_takes),
    cmocka_unit_test(the_next_call_overtakes_nobody),
};
UNIT_MAIN(tests)
