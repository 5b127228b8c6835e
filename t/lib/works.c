#include "t/lib/works.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/reduce.h"
#include "runtime/comm/plan.h"

enum { MAX_WORKS = 6, MAX_RANGES = 4, GAP = 64 };

enum kind { REDUCE, OWNED_THEN_GATHER, IN_SEGMENT, STAGED, N_KINDS };

/* One work of a round; equal on all ranks but for `done` and what follows. */
struct item {
    enum kind kind;
    enum ddp_op op;
    struct comm_range ranges[MAX_RANGES];
    size_t n_ranges, unit_bytes;
    char *memory;         /* ranges lie at their offsets from here, on this rank */
    char *visited;        /* what visits saw, at the same offsets */
    unsigned char *times; /* per byte: how often it was visited */
    size_t n_bytes;
    comm_work_t *work;
};

struct rank_state {
    struct job *j;
    int rank;
    struct world *w;
    comm_t *c;
    struct comm_plan plan;
    uint64_t shared, own; /* random numbers: the same on all ranks; this rank's */
};

static uint64_t draw(uint64_t *s, uint64_t below)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (*s >> 33) % below;
}

int works_layout(uint64_t seed, int max_ranks, int *node_of)
{
    int size = 1 + (int)draw(&seed, (uint64_t)max_ranks), nodes = 1 + (int)draw(&seed, 3);
    for (int r = 0; r < size; r++)
        node_of[r] = draw(&seed, 2) ? r * nodes / size : (int)draw(&seed, (uint64_t)nodes);
    return size;
}

/* A rank's input: magnitudes differ widely, so that another order of additions gives other bits. */
static void fill(char *p, const struct comm_range *r, uint64_t salt, int rank)
{
    uint64_t s = salt * 1000003 + (uint64_t)rank * 7919 + r->offset_bytes;
    for (size_t i = 0; i < r->n_elems; i++) {
        int64_t v = (int64_t)draw(&s, 1 << 20) - (1 << 19);
        double d = (double)v * (draw(&s, 4) == 0 ? 0x1p-20 : 0x1p-5);
        float f = (float)d;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        switch (r->dtype) {
        case DDP_F32: ((float *)p)[i] = f; break;
        case DDP_F64: ((double *)p)[i] = d * 1.1; break;
        case DDP_BF16: ((uint16_t *)p)[i] = (uint16_t)(bits >> 16); break;
        case DDP_F16: ((uint16_t *)p)[i] = (uint16_t)((bits >> 16 & 0x8000) | (0x2c00 + (bits & 0x1fff))); break;
        case DDP_I32: ((int32_t *)p)[i] = (int32_t)v * 3000; break;
        case DDP_I64: ((int64_t *)p)[i] = v * 30000000; break;
        }
    }
}

/* What every rank must have: first over each node's ranks, then over the nodes as the plan says. */
static char *reference(const struct rank_state *s, const struct item *it, size_t range, uint64_t salt)
{
    const struct comm_range *r = &it->ranges[range];
    size_t n = r->n_elems * dtype_size(r->dtype) + 8;
    char *node[RANKS_MAX], *out = malloc(n);
    for (int k = 0; k < s->w->n_nodes; k++) {
        const void *in[RANKS_MAX];
        int n_in = world_local_size(s->w, k);
        node[k] = malloc(n);
        for (int l = 0; l < n_in; l++) {
            char *x = malloc(n);
            fill(x, r, salt, world_rank_at(s->w, k, l));
            in[l] = x;
        }
        if (n_in == 1) /* nothing is rounded */
            memcpy(node[k], in[0], n);
        else
            kernel_reduce_tree((void *const *)&node[k], 1, in, n_in, r->n_elems, r->dtype, it->op);
        for (int l = 0; l < n_in; l++)
            free((void *)(uintptr_t)in[l]);
    }
    const void *slots[64];
    for (int i = 0; i < s->plan.n_slots; i++)
        slots[i] = s->plan.slot_node[i] < 0 ? NULL : node[s->plan.slot_node[i]];
    if (s->w->n_nodes == 1)
        memcpy(out, node[0], n);
    else
        kernel_reduce_tree((void *const *)&out, 1, slots, s->plan.n_slots, r->n_elems, r->dtype, it->op);
    for (int k = 0; k < s->w->n_nodes; k++)
        free(node[k]);
    return out;
}

static void on_visit(void *ctx, size_t range, size_t first, const void *data, size_t n_elems)
{
    struct item *it = ctx;
    size_t size = dtype_size(it->ranges[range].dtype), at = it->ranges[range].offset_bytes + first * size;
    memcpy(it->visited + at, data, n_elems * size);
    for (size_t i = 0; i < n_elems * size; i++)
        it->times[at + i]++;
    if (it->unit_bytes && first * size % it->unit_bytes != 0)
        it->times[at] = 200;
}

/* Draws a work; in memory that begins at *at. */
static void draw_item(struct rank_state *s, struct item *it, size_t max_elems, size_t *at)
{
    *it = (struct item){.kind = (enum kind)draw(&s->shared, N_KINDS), .op = (enum ddp_op)draw(&s->shared, 3)};
    it->n_ranges = it->kind >= IN_SEGMENT ? 1 : draw(&s->shared, MAX_RANGES + 1);
    it->unit_bytes = draw(&s->shared, 3) ? 64ull << draw(&s->shared, 11) : 0;
    size_t offset = *at;
    for (size_t i = 0; i < it->n_ranges; i++) {
        size_t most = draw(&s->shared, 3) ? max_elems : 200;
        struct comm_range *r = &it->ranges[i];
        *r = (struct comm_range){offset, draw(&s->shared, most), (enum ddp_dtype)draw(&s->shared, DTYPE_COUNT)};
        offset = (offset + r->n_elems * dtype_size(r->dtype) + GAP + 63) / 64 * 64;
    }
    it->n_bytes = offset;
    *at = offset;
}

static void sometimes_rest(struct rank_state *s)
{
    if (draw(&s->own, 4) == 0)
        usleep((useconds_t)draw(&s->own, 400));
    if (draw(&s->own, 3) == 0)
        comm_progress(s->c);
}

static int begin(struct rank_state *s, struct item *it, comm_segment_t *segment, uint64_t salt, ddp_error_t *errp)
{
    char *own = comm_segment_data(segment);
    it->memory = it->kind == STAGED ? malloc(it->n_bytes + 8) : own;
    it->visited = calloc(1, it->n_bytes + 8);
    it->times = calloc(1, it->n_bytes + 8);
    for (size_t i = 0; i < it->n_ranges; i++)
        fill(it->memory + it->ranges[i].offset_bytes, &it->ranges[i], salt, s->rank);
    sometimes_rest(s);
    struct comm_reduce r = {.segment = segment, .ranges = it->ranges, .n_ranges = it->n_ranges, .op = it->op,
                            .unit_bytes = it->unit_bytes, .owned_only = it->kind == OWNED_THEN_GATHER,
                            .visit = on_visit, .ctx = it};
    if (it->kind == REDUCE || it->kind == OWNED_THEN_GATHER)
        it->work = comm_reduce_start(s->c, &r, errp);
    else
        it->work = comm_allreduce_start(s->c, it->memory + it->ranges[0].offset_bytes, it->ranges[0].n_elems,
                                        it->ranges[0].dtype, it->op, errp);
    return it->work ? 0 : -1;
}

/* Each owned element has been visited once, with its result, and no other. */
static int check_visits(struct rank_state *s, const struct item *it, char **want)
{
    int rank = s->rank;
    struct comm_piece p;
    size_t n_owned = 0, n_visited = 0;
    for (struct comm_pieces o = comm_owned(s->c, it->ranges, it->n_ranges, it->unit_bytes); comm_piece_next(&o, &p);) {
        size_t at = p.first * dtype_size(p.dtype);
        CHECK(memcmp(it->visited + p.offset_bytes, want[p.range] + at, p.n_bytes) == 0,
              "range %zu: visits saw others", p.range);
        for (size_t i = 0; i < p.n_bytes; i++)
            CHECK(it->times[p.offset_bytes + i] == 1, "range %zu byte %zu: %d visits", p.range, i,
                  it->times[p.offset_bytes + i]);
        n_owned += p.n_bytes;
    }
    for (size_t i = 0; i < it->n_bytes; i++)
        n_visited += it->times[i];
    CHECK(n_owned == n_visited, "%zu bytes owned, %zu visited", n_owned, n_visited);
    return 0;
}

static int finish(struct rank_state *s, struct item *it, comm_segment_t *segment, uint64_t salt)
{
    int rank = s->rank, rc = 0;
    ddp_error_t e = {0};
    char *want[MAX_RANGES];
    CHECK(comm_wait(it->work, &e) == 0, "%s", e.text);
    for (size_t i = 0; i < it->n_ranges; i++)
        want[i] = reference(s, it, i, salt);
    if (it->kind == REDUCE || it->kind == OWNED_THEN_GATHER)
        rc = check_visits(s, it, want);
    if (it->kind == OWNED_THEN_GATHER) {
        comm_work_t *g = comm_gather_start(s->c, segment, it->ranges, it->n_ranges, it->unit_bytes, &e);
        CHECK(g && comm_wait(g, &e) == 0, "%s", e.text);
    }
    for (size_t i = 0; i < it->n_ranges; i++) {
        const struct comm_range *r = &it->ranges[i];
        CHECK(memcmp(it->memory + r->offset_bytes, want[i], r->n_elems * dtype_size(r->dtype)) == 0,
              "kind %d %s of %zu %s: other bits", it->kind, op_name(it->op), r->n_elems, dtype_name(r->dtype));
        free(want[i]);
    }
    free(it->visited);
    free(it->times);
    if (it->kind == STAGED)
        free(it->memory);
    return rc;
}

/* Some works in flight, waited for in their order or, where nothing is started in between, in another. */
static int round_of(struct rank_state *s, const struct works_case *k, comm_segment_t *segment)
{
    int rank = s->rank, order[MAX_WORKS], n = 1 + (int)draw(&s->shared, MAX_WORKS);
    struct item items[MAX_WORKS];
    uint64_t salt[MAX_WORKS];
    size_t at = 0;
    bool starts_more = false;
    ddp_error_t e = {0};
    for (int i = 0; i < n; i++) {
        draw_item(s, &items[i], k->max_elems, &at);
        salt[i] = draw(&s->shared, 1 << 30);
        starts_more = starts_more || items[i].kind == OWNED_THEN_GATHER;
        order[i] = i;
    }
    for (int i = 0; i < n; i++)
        CHECK(begin(s, &items[i], segment, salt[i], &e) == 0, "%s", e.text);
    for (int i = n - 1; i > 0 && !starts_more; i--) {
        int j = (int)draw(&s->own, (uint64_t)i + 1), was = order[i];
        order[i] = order[j];
        order[j] = was;
    }
    for (int i = 0; i < n; i++) {
        sometimes_rest(s);
        if (finish(s, &items[order[i]], segment, salt[order[i]]) != 0)
            return 1;
    }
    return 0;
}

int works_rank(struct job *j, int rank)
{
    const struct works_case *k = j->arg;
    ddp_error_t e = {0};
    struct rank_state s = {.j = j, .rank = rank, .shared = k->seed, .own = k->seed + 77 * (uint64_t)(rank + 1)};
    s.c = job_comm(j, rank, &s.w, &e);
    CHECK(s.c, "%s", e.text);
    CHECK(comm_plan_init(&s.plan, s.w) == 0, "no memory");
    comm_segment_t *segment = comm_segment_create(s.c, MAX_WORKS * MAX_RANGES * (k->max_elems * 8 + 128), &e);
    CHECK(segment, "%s", e.text);
    for (int i = 0; i < k->n_rounds; i++) {
        int value = 0, root = (int)draw(&s.shared, (uint64_t)j->size);
        if (round_of(&s, k, segment) != 0)
            return 1;
        if (draw(&s.shared, 2) == 0) /* a call that waits, between works */
            CHECK(comm_bcast(s.c, (value = rank, &value), sizeof value, root, &e) == 0 && value == root, "%s", e.text);
    }
    CHECK(comm_barrier(s.c, &e) == 0, "%s", e.text);
    comm_plan_clear(&s.plan);
    comm_destroy(s.c);
    world_destroy(s.w);
    return 0;
}
