#include "t/unit/unit.h"

#include <dirent.h>

#include "runtime/base/dtype.h"
#include "runtime/comm_plan.h"
#include "t/lib/ranks.h"

/* In a rank: prints what failed and ends it. */
#define CHECK(cond, ...)                                                                                               \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            fprintf(stderr, "# rank %d: %s:%d: ", rank, __FILE__, __LINE__);                                           \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, "\n");                                                                                     \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

struct layout {
    const char *name;
    int size, node_of[RANKS_MAX];
};

static const struct layout layouts[] = {
    {"1", 1, {0}},
    {"2", 2, {0, 0}},
    {"3", 3, {0, 0, 0}},
    {"4", 4, {0, 0, 0, 0}},
    {"7", 7, {0}},
    {"16", 16, {0}},
    {"1,1", 2, {0, 1}},
    {"1,1,1", 3, {0, 1, 2}},
    {"2,2", 4, {0, 0, 1, 1}},
    {"cyclic 2,2", 4, {0, 1, 0, 1}},
    {"2,1,1", 4, {0, 0, 1, 2}},
    {"1,2,4", 7, {0, 1, 1, 2, 2, 2, 2}},
    {"3,3,1", 7, {0, 0, 0, 1, 1, 1, 2}},
    {"4 x 4", 16, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}},
    {"4,8,4", 16, {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2}},
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

static const size_t lengths[] = {0, 1, 5, 1000003};

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

static int allreduce_rank(struct job *j, int rank)
{
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        size_t n = lengths[k];
        float *x = malloc((n + 1) * sizeof *x);
        for (size_t i = 0; i < n; i++)
            x[i] = small_integer(rank, i);
        CHECK(comm_allreduce(c, x, n, DDP_F32, DDP_SUM, &e) == 0, "%s", e.text);
        for (size_t i = 0; i < n; i++)
            CHECK(x[i] == expected_sum(j->size, i), "element %zu of %zu: %g", i, n, (double)x[i]);
        free(x);
    }
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void allreduce_is_exact_on_integers(void **state)
{
    (void)state;
    for (int k = 0; k < N_LAYOUTS; k++) {
        struct job j = {.size = layouts[k].size, .node_of = layouts[k].node_of};
        if (!job_run(&j, allreduce_rank))
            fail_msg("nodes of %s ranks", layouts[k].name);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(allreduce_is_exact_on_integers),
};
UNIT_MAIN(tests)
