/* All-to-all: bytes of any number from everybody to everybody, on any nodes. */
#include "t/unit/unit.h"

#include <unistd.h>

#include "runtime/comm/shm.h"
#include "t/lib/placements.h"

/* What comes between a barrier and what its caller does then. */
static useconds_t delay_us;

int __real_shm_barrier(struct shm *s, enum watch_what what, ddp_error_t *errp);
int __wrap_shm_barrier(struct shm *s, enum watch_what what, ddp_error_t *errp);

int __wrap_shm_barrier(struct shm *s, enum watch_what what, ddp_error_t *errp)
{
    int rc = __real_shm_barrier(s, what, errp);
    usleep(delay_us);
    return rc;
}

/* How many bytes go from one rank to another, the same on all: by `kind`, much to few, little to many, to or from one,
 * none. */
enum { LONGER_THAN_THE_STAGE = (1 << 20) + 77, N_KINDS = 8 };
static size_t n_given(int kind, int from, int to, int size)
{
    uint32_t h = (uint32_t)(from * 2654435761u) ^ (uint32_t)(to * 40503u + kind);
    h = (h ^ h >> 13) * 2246822519u;
    switch (kind) {
    case 0: /* alike */
        return 1000;
    case 1: /* a few bytes */
        return h >> 8 & 15;
    case 2: /* far more than fits, from few */
        return (h >> 8) % 5 == 0 ? LONGER_THAN_THE_STAGE + (h >> 20) : 3;
    case 3: /* gathered by the last rank */
        return to == size - 1 ? 300000 + (size_t)from : 0;
    case 4: /* scattered by rank 0 */
        return from == 0 ? 700001 : 0;
    case 5:
        return h >> 8 & 0x3ffff;
    case 6: /* from rank to rank, in a circle */
        return to == (from + 1) % size ? LONGER_THAN_THE_STAGE : 0;
    default:
        return 0;
    }
}

static char byte_of(int from, int to, size_t i)
{
    return (char)(i * 31 + (size_t)from * 17 + (size_t)to * 7 + (i >> 9));
}

/* What this rank gives and takes: all `in` one after the other, all `out` with a byte between them. */
struct plan {
    size_t n_in[RANKS_MAX], n_out[RANKS_MAX];
    const void *in[RANKS_MAX];
    void *out[RANKS_MAX];
    char *given, *taken;
};

static struct plan plan(int kind, int rank, int size, bool is_own_in_place)
{
    struct plan p = {0};
    size_t all_in = 0, all_out = 1;
    for (int r = 0; r < size; r++) {
        all_in += p.n_in[r] = n_given(kind, rank, r, size);
        all_out += 1 + (p.n_out[r] = n_given(kind, r, rank, size));
    }
    char *in = p.given = malloc(all_in + 1), *out = p.taken = malloc(all_out);
    memset(out, 77, all_out);
    for (int r = 0; r < size; in += p.n_in[r], out += p.n_out[r] + 1, r++) {
        p.in[r] = in;
        p.out[r] = is_own_in_place && r == rank ? in : out;
        for (size_t i = 0; i < p.n_in[r]; i++)
            in[i] = byte_of(rank, r, i);
    }
    return p;
}

static struct comm_parts parts_of(const struct plan *p)
{
    return (struct comm_parts){p->in, p->n_in, p->out, p->n_out};
}

static int exchange(comm_t *c, int kind, int rank, int size, bool is_own_in_place)
{
    struct plan p = plan(kind, rank, size, is_own_in_place);
    struct comm_parts parts = parts_of(&p);
    ddp_error_t e = {0};
    CHECK(comm_alltoall(c, &parts, &e) == 0, "kind %d: %s", kind, e.text);
    char *behind = p.taken;
    for (int r = 0; r < size; r++, behind++) {
        for (size_t i = 0; i < p.n_out[r]; i++)
            CHECK(((char *)p.out[r])[i] == byte_of(r, rank, i), "kind %d: byte %zu from %d", kind, i, r);
        for (size_t i = 0; i < p.n_in[r]; i++)
            CHECK(((const char *)p.in[r])[i] == byte_of(rank, r, i), "kind %d: the input was changed", kind);
        behind += p.n_out[r];
        CHECK(*behind == 77, "kind %d: written past what comes from %d", kind, r);
    }
    free(p.given);
    free(p.taken);
    return 0;
}

static int exchange_rank(struct job *j, int rank, comm_t *c)
{
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int in_place = 0; in_place < 2; in_place++)
            if (exchange(c, kind, rank, j->size, in_place))
                return 1;
    return 0;
}

static void every_byte_goes_where_it_is_to(void **state)
{
    (void)state;
    assert_true(placements_run_comm(exchange_rank));
}

/* The last rank has less room than what rank 0 has for it, or more. */
static int full(comm_t *c, const struct job *j, int rank, size_t room)
{
    int last = j->size - 1;
    struct plan p = plan(0, rank, j->size, false);
    struct comm_parts parts = parts_of(&p);
    ddp_error_t e = {0};
    char want[96];
    snprintf(want, sizeof want, "all-to-all: rank 0 sends 1000 bytes to rank %d, which has room for %zu", last, room);
    if (rank == last)
        p.n_out[0] = room;
    CHECK(comm_alltoall(c, &parts, &e) == -1, "it fits");
    CHECK(e.domain == DDP_E_USAGE && strcmp(e.text, want) == 0, "%s", e.text);
    for (int r = 0; r < j->size; r++)
        CHECK(*(char *)p.out[r] == 77, "something came from %d", r);
    free(p.given);
    free(p.taken);
    return exchange(c, 0, rank, j->size, false);
}

static int full_rank(struct job *j, int rank, comm_t *c)
{
    return full(c, j, rank, 999) || full(c, j, rank, 1001);
}

static void another_size_of_room_is_told_to_all_who_go_on(void **state)
{
    (void)state;
    assert_true(placements_run_comm(full_rank));
}

/* What travels is what goes to other nodes, once, and how much that is. */
static int volume_rank(struct job *j, int rank, comm_t *c)
{
    const struct world *w = j->world;
    uint64_t *sent = j->shared, total = 0, want = 0, before = comm_tcp_bytes_sent(c);
    ddp_error_t e = {0};
    if (exchange(c, 5, rank, j->size, false))
        return 1;
    sent[rank] = comm_tcp_bytes_sent(c) - before;
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    for (int r = 0; r < j->size; r++) {
        total += sent[r];
        want += 2 * sizeof(uint64_t) * (uint64_t)(w->size * (w->n_nodes - 1));
        for (int to = 0; to < j->size; to++)
            want += w->node_of[r] == w->node_of[to] ? 0 : n_given(5, r, to, j->size);
    }
    CHECK(total == want, "sent %llu bytes instead of %llu", (unsigned long long)total, (unsigned long long)want);
    return 0;
}

static void nothing_travels_twice(void **state)
{
    (void)state;
    assert_true(placements_run_comm(volume_rank));
}

/* A rank is slow to read what another has left for it, where that begins the next call, or writes more. */
static int followed_rank(struct job *j, int rank, comm_t *c)
{
    enum { BYTES = 1 << 20, N = 100000 };
    ddp_error_t e = {0};
    char *x = malloc(BYTES);
    float *in = calloc((size_t)j->size * N, sizeof *in), *out = malloc(N * sizeof *out);
    for (int turn = 0; turn < 2 * j->size; turn++) {
        int root = turn % j->size;
        delay_us = rank == turn / j->size ? 20000 : 0;
        if (exchange(c, 0, rank, j->size, false))
            return 1;
        CHECK(comm_reduce_scatter(c, in, N, DDP_F32, DDP_SUM, out, &e) == 0, "%s", e.text);
        if (exchange(c, 0, rank, j->size, false))
            return 1;
        for (size_t i = 0; i < BYTES; i++)
            x[i] = rank == root ? byte_of(root, turn + (int)(i >> 18), i) : 0;
        CHECK(comm_bcast(c, x, BYTES, root, &e) == 0, "%s", e.text);
        for (size_t i = 0; i < BYTES; i++)
            CHECK(x[i] == byte_of(root, turn + (int)(i >> 18), i), "broadcast from %d, byte %zu", root, i);
    }
    free(x);
    free(in);
    free(out);
    return 0;
}

static void a_slow_rank_is_not_overtaken(void **state)
{
    (void)state;
    struct job j = {.size = 3, .node_of = (const int[]){0, 0, 1}}, one = {.size = 2, .node_of = (const int[]){0, 0}};
    assert_true(job_run_comm(&j, followed_rank));
    assert_true(job_run_comm(&one, followed_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_byte_goes_where_it_is_to),
    cmocka_unit_test(another_size_of_room_is_told_to_all_who_go_on),
    cmocka_unit_test(nothing_travels_twice),
    cmocka_unit_test(a_slow_rank_is_not_overtaken),
};
UNIT_MAIN(tests)
