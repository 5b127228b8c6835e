/* nccl_allreduce_fixed over a double of NCCL and the emulated kernel: its bits are those of the host communicator's
 * comm_allreduce, however the ranks are placed. Ranks are processes; device memory is the processor's. */
#include "t/unit/unit.h"

#include <dlfcn.h>
#include <errno.h>

#include "kernels/cuda/reduce.h"
#include "runtime/nccl/nccl.h"
#include "t/lib/ranks.h"

/* Ranges of one operation: of all types, with ends that no cut meets, one of one element and one of none. */
enum { N_RANGES = 6, MOST = 20011 };
static const struct {
    size_t n_elems;
    enum ddp_dtype dtype;
} shapes[N_RANGES] = {{MOST, DDP_F32}, {4099, DDP_BF16}, {0, DDP_F32}, {1, DDP_BF16}, {777, DDP_F16}, {64, DDP_F32}};

/* The double, by its path: its name is found loaded after that. */
static int open_double(void)
{
    char path[512];
    const char *root = getenv("top_builddir");
    snprintf(path, sizeof path, "%s/t/lib/nccldouble/.libs/libnccl.so.2", root ? root : ".");
    unsetenv("NCCLDOUBLE_SCRIPT");
    unsetenv("NCCLDOUBLE_LOG");
    setenv("NCCLDOUBLE_DIR", "/tmp", 1);
    setenv("NCCLDOUBLE_IN_ORDER", "1", 1);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL) ? 0 : -1;
}

struct sums {
    int rank, n;
};

static int sum(void *ctx, void *out, const void *const *in, int n_in, size_t n_elems, enum ddp_dtype t, void *stream,
               ddp_error_t *errp)
{
    int code = cuda_reduce_tree(&out, 1, in, n_in, n_elems, t, stream);
    ++((struct sums *)ctx)->n;
    return code ? error_set(errp, DDP_E_SYSTEM, code, "cuda_reduce_tree: %d", code) : 0;
}

static int lose(void *ctx, void *out, const void *const *in, int n_in, size_t n_elems, enum ddp_dtype t, void *stream,
                ddp_error_t *errp)
{
    (void)out;
    (void)in;
    (void)n_in;
    (void)n_elems;
    (void)t;
    (void)stream;
    return error_set(errp, DDP_E_SYSTEM, EIO, "the GPU of rank %d fell off the bus", ((struct sums *)ctx)->rank);
}

/* Numbers whose sum depends on its order: of many sizes. */
static void fill(int rank, int salt, size_t shape, void *at)
{
    uint64_t state = (uint64_t)rank * 7919 + (uint64_t)salt * 104729 + shape;
    for (size_t i = 0; i < shapes[shape].n_elems; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t bits = (uint32_t)(state >> 32);
        if (shapes[shape].dtype == DDP_F32) {
            uint32_t f = (bits & 0x807fffff) | (110 + (bits >> 23 & 31)) << 23;
            memcpy((char *)at + i * 4, &f, 4);
        } else {
            bool is_bf16 = shapes[shape].dtype == DDP_BF16;
            uint16_t h = is_bf16 ? (bits & 0x807f) | (115 + (bits >> 16 & 15)) << 7
                                 : (bits & 0x83ff) | (8 + (bits >> 16 & 7)) << 10;
            memcpy((char *)at + i * 2, &h, 2);
        }
    }
}

struct rig {
    nccl_t *n;
    struct world *w;
    struct nccl_range ranges[N_RANGES];
    struct nccl_stage stage;
    struct sums sums;
};

static int rig_open(struct job *j, comm_t *c, struct rig *r, struct nccl_device device, ddp_error_t *e)
{
    int rank = j->world->rank;
    struct nccl_config cfg = {.timeout_s = 30, .device = device};
    CHECK(open_double() == 0, "%s", dlerror());
    r->n = nccl_create(&cfg, j->world, c, e);
    CHECK(r->n && nccl_start(r->n, e) == 0, "%s", e->text);
    for (size_t i = 0; i < N_RANGES; i++)
        r->ranges[i] = (struct nccl_range){aligned_alloc(256, MOST * 4 / 256 * 256 + 256), shapes[i].n_elems,
                                           shapes[i].dtype};
    r->stage.n_bytes = nccl_fixed_stage_bytes(j->world, r->ranges, N_RANGES);
    r->stage.data = aligned_alloc(256, r->stage.n_bytes + 256 - r->stage.n_bytes % 256);
    memset(r->stage.data, 0xff, r->stage.n_bytes);
    return 0;
}

static int is_over(void *ctx, ddp_error_t *errp) /* the double is told to be in order */
{
    (void)ctx;
    (void)errp;
    return 1;
}

static int compares(struct job *j, int rank, comm_t *c)
{
    static uint32_t want[MOST];
    struct rig r = {.sums = {.rank = rank}};
    ddp_error_t e = {0};
    if (rig_open(j, c, &r, (struct nccl_device){.ctx = &r.sums, .sum = sum}, &e))
        return 1;
    size_t all = r.stage.n_bytes, rooms[] = {all, all / 3, 64 << 10};
    for (int salt = 0; salt < 3; salt++) {
        r.stage.n_bytes = rooms[salt] < all ? rooms[salt] : all;
        memset((char *)r.stage.data + r.stage.n_bytes, 0xee, all - r.stage.n_bytes);
        for (size_t i = 0; i < N_RANGES; i++)
            fill(rank, salt, i, r.ranges[i].data);
        CHECK(nccl_allreduce_fixed(r.n, r.ranges, N_RANGES, &r.stage, NULL, &e) == 0, "%s", e.text);
        CHECK(nccl_wait(r.n, is_over, NULL, &e) == 0, "%s", e.text);
        for (size_t i = r.stage.n_bytes; i < all; i++)
            CHECK(((unsigned char *)r.stage.data)[i] == 0xee, "byte %zu behind the stage", i - r.stage.n_bytes);
        for (size_t i = 0; i < N_RANGES; i++) {
            size_t size = dtype_size(shapes[i].dtype);
            fill(rank, salt, i, want);
            CHECK(comm_allreduce(c, want, shapes[i].n_elems, shapes[i].dtype, DDP_SUM, &e) == 0, "%s", e.text);
            for (size_t k = 0; k < shapes[i].n_elems; k++)
                CHECK(memcmp((char *)r.ranges[i].data + k * size, (char *)want + k * size, size) == 0,
                      "range %zu, element %zu", i, k);
        }
    }
    CHECK(r.sums.n > 0 || rank > 0, "rank 0 owns slices of everything");
    CHECK(nccl_close(r.n, &e) == 0, "%s", e.text);
    nccl_destroy(r.n);
    return 0;
}

/* Shares of every rank: this one's are what an all-reduce would have made of them. */
static int scatters(struct job *j, int rank, comm_t *c)
{
    static uint32_t want[MOST];
    struct rig r = {.sums = {.rank = rank}};
    ddp_error_t e = {0};
    if (rig_open(j, c, &r, (struct nccl_device){.ctx = &r.sums, .sum = sum}, &e))
        return 1;
    size_t all = r.stage.n_bytes, rooms[] = {all, 256 * (size_t)j->size * 6};
    for (int salt = 0; salt < 2; salt++)
        for (size_t i = 0; i < N_RANGES; i++) {
            size_t size = dtype_size(shapes[i].dtype), n_each = shapes[i].n_elems / (size_t)j->size;
            r.stage.n_bytes = rooms[salt] < all ? rooms[salt] : all;
            memset((char *)r.stage.data + r.stage.n_bytes, 0xee, all - r.stage.n_bytes);
            fill(rank, salt, i, r.ranges[i].data);
            fill(rank, salt, i, want);
            CHECK(nccl_reduce_scatter_fixed(r.n, r.ranges[i].data, n_each, shapes[i].dtype, &r.stage, NULL, &e) == 0,
                  "%s", e.text);
            CHECK(nccl_wait(r.n, is_over, NULL, &e) == 0, "%s", e.text);
            CHECK(comm_allreduce(c, want, shapes[i].n_elems, shapes[i].dtype, DDP_SUM, &e) == 0, "%s", e.text);
            for (size_t k = (size_t)rank * n_each; k < (size_t)(rank + 1) * n_each; k++)
                CHECK(memcmp((char *)r.ranges[i].data + k * size, (char *)want + k * size, size) == 0,
                      "range %zu, element %zu", i, k);
            for (size_t k = r.stage.n_bytes; k < all; k++)
                CHECK(((unsigned char *)r.stage.data)[k] == 0xee, "byte %zu behind the stage", k - r.stage.n_bytes);
        }
    CHECK(nccl_close(r.n, &e) == 0, "%s", e.text);
    nccl_destroy(r.n);
    return 0;
}

/* One rank's kernel cannot be launched: that is what all are told. */
static int one_fails(struct job *j, int rank, comm_t *c)
{
    struct rig r = {.sums = {.rank = rank}};
    ddp_error_t e = {0};
    if (rig_open(j, c, &r, (struct nccl_device){.ctx = &r.sums, .sum = rank == 1 ? lose : sum}, &e))
        return 1;
    CHECK(nccl_allreduce_fixed(r.n, r.ranges, N_RANGES, &r.stage, NULL, &e) < 0 ||
              nccl_wait(r.n, is_over, NULL, &e) < 0 || comm_barrier(c, &e) < 0, "it went well");
    CHECK(strstr(e.text, "the GPU of rank 1 fell off the bus"), "%s", e.text);
    CHECK(!!strstr(e.text, "rank 1 (n0) aborted: ") == (rank != 1), "%s", e.text);
    nccl_destroy(r.n);
    return 0;
}

static int nobody_sums(struct job *j, int rank, comm_t *c)
{
    struct rig r = {.sums = {.rank = rank}};
    ddp_error_t e = {0};
    if (rig_open(j, c, &r, (struct nccl_device){0}, &e))
        return 1;
    CHECK(nccl_allreduce_fixed(r.n, r.ranges, N_RANGES, &r.stage, NULL, &e) < 0, "it went well");
    CHECK(strstr(e.text, "says nobody who sums"), "%s", e.text);
    nccl_destroy(r.n);
    return 0;
}

static int runs_out_of_room(struct job *j, int rank, comm_t *c, bool of_shares)
{
    struct rig r = {.sums = {.rank = rank}};
    ddp_error_t e = {0};
    if (rig_open(j, c, &r, (struct nccl_device){.ctx = &r.sums, .sum = sum}, &e))
        return 1;
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    r.stage.n_bytes = 100;
    int rc = of_shares ? nccl_reduce_scatter_fixed(r.n, r.ranges[0].data, 64, DDP_F32, &r.stage, NULL, &e)
                       : nccl_allreduce_fixed(r.n, r.ranges, N_RANGES, &r.stage, NULL, &e);
    CHECK(rc < 0, "it went well");
    CHECK(strstr(e.text, "a stage of 100 bytes is too small"), "%s", e.text);
    nccl_destroy(r.n);
    return 0;
}

static int has_no_room(struct job *j, int rank, comm_t *c)
{
    return runs_out_of_room(j, rank, c, false);
}

static int has_no_room_for_shares(struct job *j, int rank, comm_t *c)
{
    return runs_out_of_room(j, rank, c, true);
}

static const struct placement {
    int size, node_of[12];
} placements[] = {
    {2, {0, 0}},
    {3, {0, 0, 0}},
    {8, {0}},
    {4, {0, 1, 2, 3}},
    {4, {0, 0, 1, 1}},
    {4, {0, 1, 0, 1}}, /* not by rank */
    {4, {0, 0, 1, 2}}, /* by rank, of unequal size */
    {5, {0, 0, 0, 1, 1}},
    {12, {0, 0, 0, 0, 1, 2, 2, 2, 3, 3, 3, 3}},
};

static void everywhere(int (*f)(struct job *j, int rank, comm_t *c))
{
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        struct job j = {.size = placements[i].size, .node_of = placements[i].node_of};
        if (!job_run_comm(&j, f))
            fail_msg("placement %zu", i);
    }
}

static void test_bits(void **state)
{
    (void)state;
    everywhere(compares);
}

static void test_shares(void **state)
{
    (void)state;
    everywhere(scatters);
}

static void test_failure(void **state)
{
    (void)state;
    struct job j = {.size = 3, .node_of = (int[3]){0}};
    assert_true(job_run_comm(&j, one_fails));
    assert_true(job_run_comm(&j, nobody_sums));
    assert_true(job_run_comm(&j, has_no_room));
    assert_true(job_run_comm(&j, has_no_room_for_shares));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_bits),
    cmocka_unit_test(test_shares),
    cmocka_unit_test(test_failure),
};
UNIT_MAIN(tests)
