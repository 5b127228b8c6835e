/* The communicator's calls, but for what reductions give (comm_sums.c). */
#include "t/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "runtime/base/clock.h"
#include "runtime/comm/tcp_impl.h"
#include "runtime/comm/wireup.h"
#include "t/lib/placements.h"

static char byte_of(int rank, size_t i, int salt)
{
    return (char)(i * 31 + (size_t)rank * 17 + (size_t)salt + (i >> 9));
}

static int move_rank(struct job *j, int rank, comm_t *c)
{
    static const size_t lengths[] = {0, 1, 1000, (1 << 20) + 7};
    ddp_error_t e = {0};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        size_t n = lengths[k];
        size_t n_cast = k == 3 ? 4 * n : n; /* more than the stage has room for, wherever it lies */
        char *x = malloc(n_cast + 1), *all = malloc(n * (size_t)j->size + 1);
        for (int turn = 0; turn < 2; turn++) {
            int root = turn == 0 ? j->size - 1 : j->size / 2;
            for (size_t i = 0; i < n_cast; i++)
                x[i] = rank == root ? byte_of(root, i, turn) : 0;
            CHECK(comm_bcast(c, x, n_cast, root, &e) == 0, "%s", e.text);
            for (size_t i = 0; i < n_cast; i++)
                CHECK(x[i] == byte_of(root, i, turn), "broadcast of %zu bytes from %d, byte %zu", n_cast, root, i);
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
    return 0;
}

static void broadcast_and_allgather_move_every_byte(void **state)
{
    (void)state;
    assert_true(placements_run_comm(move_rank));
}

/* What is sent has gone before its memory is another's: of the connection here only little goes at once. */
static int narrow_rank(struct job *j, int rank, comm_t *c)
{
    enum { LENGTH = 5 << 20 };
    ddp_error_t e = {0};
    char *x = malloc(LENGTH);
    (void)j;
    CHECK(setsockopt(c->tcp->conns[!rank].fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)) == 0, "no option");
    for (int root = 0; root < 2; root++) {
        for (size_t i = 0; i < LENGTH; i++)
            x[i] = rank == root ? byte_of(root, i, (int)(i >> 20)) : 0;
        CHECK(comm_bcast(c, x, LENGTH, root, &e) == 0, "%s", e.text);
        for (size_t i = 0; i < LENGTH; i++)
            CHECK(x[i] == byte_of(root, i, (int)(i >> 20)), "broadcast from %d, byte %zu", root, i);
    }
    free(x);
    return 0;
}

static void a_narrow_connection_carries_every_byte(void **state)
{
    (void)state;
    static const int each[] = {0, 1};
    struct job j = {.size = 2, .node_of = each};
    assert_true(job_run_comm(&j, narrow_rank));
}

/* What a node may send before the other has room: eight chunks of a sum, and none more for a gather before it. */
static int ahead_rank(struct job *j, int rank, comm_t *c)
{
    enum { BYTES = 8 << 20, WINDOW = 8 * (128 << 10) };
    static const struct comm_range all = {0, BYTES / 4, DDP_F32};
    _Atomic bool *is_counted = j->shared;
    ddp_error_t e = {0};
    comm_segment_t *s = comm_segment_create(c, BYTES, &e);
    CHECK(s && comm_wait(comm_gather_start(c, s, &all, 1, 0, &e), &e) == 0, "%s", e.text);
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    uint64_t before = comm_tcp_bytes_sent(c), deadline = deadline_in(20);
    while (rank == 1 && !*is_counted && deadline_left_ns(deadline) > 0)
        usleep(100);
    comm_work_t *w = comm_reduce_start(c, &(struct comm_reduce){.segment = s, .ranges = &all, .n_ranges = 1}, &e);
    CHECK(w, "%s", e.text);
    while (rank == 0 && comm_tcp_bytes_sent(c) == before && deadline_left_ns(deadline) > 0)
        comm_progress(c);
    CHECK(rank == 1 || comm_tcp_bytes_sent(c) - before == WINDOW, "%.0f bytes are ahead",
          (double)(comm_tcp_bytes_sent(c) - before));
    *is_counted = true;
    CHECK(comm_wait(w, &e) == 0, "%s", e.text);
    return 0;
}

static void nobody_sends_more_than_there_is_room_for(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (const int[]){0, 1}, .progress = COMM_PROGRESS_CALLER};
    assert_true(job_run_comm(&j, ahead_rank));
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t n = sizeof value;
    return getsockopt(fd, level, name, &value, &n) == 0 ? value : -1;
}

/* Whoever called and whoever was called. The kernel gives up later than the communicator, which knows whom to blame. */
static int patient_rank(struct job *j, int rank, comm_t *c)
{
    int fd = c->tcp->conns[!rank].fd;
    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1, "small messages wait");
    CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1, "a node that vanishes while nobody sends is not missed");
    CHECK(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) > j->timeout_s * 1000, "the kernel gives up first");
    return 0;
}

static void connections_are_as_patient_as_the_communicator(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (const int[]){0, 1}, .timeout_s = 100};
    assert_true(job_run_comm(&j, patient_rank));
}

/* No rank leaves a barrier that another has not reached. */
static int barrier_rank(struct job *j, int rank, comm_t *c)
{
    volatile _Atomic int *count = j->shared;
    ddp_error_t e = {0};
    for (int i = 1; i <= 50; i++) {
        ++*count;
        CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
        CHECK(*count >= i * j->size, "%d of %d had come to barrier %d", *count, i * j->size, i);
        CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    }
    return 0;
}

static void nobody_passes_a_barrier_early(void **state)
{
    (void)state;
    assert_true(placements_run_comm(barrier_rank));
}

/* Over all nodes exactly 2 (n_nodes - 1) times the payload travels: no padding. */
static int volume_rank(struct job *j, int rank, comm_t *c)
{
    enum { N = 100003 };
    uint64_t *sent = j->shared;
    const struct world *w = j->world;
    static const struct comm_range r[] = {{0, 5, DDP_F32}, {64, N, DDP_F32}};
    ddp_error_t e = {0};
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
    return 0;
}

static void bytes_between_nodes_equal_the_formula(void **state)
{
    (void)state;
    assert_true(placements_run_comm(volume_rank));
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

/* Of this process: such memory stays when its processes are killed. What else is in /dev/shm is others'. */
static bool has_named_memory(void)
{
    char line[512];
    bool has = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && !has && fgets(line, sizeof line, f))
        has = strstr(line, "/dev/shm/");
    if (f)
        fclose(f);
    return has;
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
    CHECK(!has_named_memory(), "memory in /dev/shm");
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
    assert_true(placements_run(tidy_rank));
}

static int misuse_rank(struct job *j, int rank, comm_t *c)
{
    (void)j;
    ddp_error_t e = {0};
    comm_segment_t *s = comm_segment_create(c, rank == 0 ? 100 : 200, &e);
    CHECK(!s, "segments of different sizes");
    CHECK(strstr(e.text, "100") && strstr(e.text, "200"), "%s", e.text);
    CHECK(comm_barrier(c, &e) < 0, "goes on after an error");
    return 0;
}

static int bad_range_rank(struct job *j, int rank, comm_t *c)
{
    static const struct comm_range bad[] = {
        {0, 26, DDP_F32}, {32, 1, DDP_F32}, {128, 1, DDP_F32}, {0, SIZE_MAX, DDP_F64}};
    ddp_error_t e = {0};
    comm_segment_t *s = comm_segment_create(c, 100, &e); /* NULL: the other rank is refused already */
    CHECK(!s || comm_reduce_ranges(c, s, &bad[*(const int *)j->arg], 1, DDP_SUM, &e) < 0, "accepted");
    CHECK(strstr(e.text, "range 0"), "%s", e.text);
    return 0;
}

/* One of them a call: an operator that there is not (of works, of sums), a size that overflows, such a type, such
 * roots. */
static int bad_sum_rank(struct job *j, int rank)
{
    static const struct comm_range r = {0, 1, DDP_F32};
    static const char *const why[] = {"operator", "operator", "more than memory", "unknown element type",
                                      "root 2",   "root -1"};
    struct world *w;
    ddp_error_t e = {0};
    float x[1] = {0};
    int k = *(const int *)j->arg, rc = 0;
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    comm_segment_t *s = comm_segment_create(c, 100, &e); /* NULL: the other rank is refused already */
    if (!s)
        rc = -1;
    else if (k == 0)
        rc = comm_reduce_ranges(c, s, &r, 1, (enum ddp_op)3, &e);
    else if (k >= 4)
        rc = comm_bcast(c, x, 0, k == 4 ? 2 : -1, &e);
    else if (k == 3)
        rc = comm_allreduce(c, x, 1, (enum ddp_dtype)DTYPE_COUNT, DDP_SUM, &e);
    else
        rc = comm_allreduce(c, x, k == 1 ? 1 : SIZE_MAX / 4 + 2, DDP_F32, (enum ddp_op)(k == 1 ? -1 : DDP_SUM), &e);
    CHECK(rc < 0, "accepted");
    CHECK(strstr(e.text, why[k]), "%s", e.text);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void misuse_is_refused_on_every_rank(void **state)
{
    (void)state;
    static const int two[] = {0, 0};
    struct job j = {.size = 2, .node_of = two};
    assert_true(job_run_comm(&j, misuse_rank));
    for (int k = 0; k < 4; k++) {
        struct job b = {.size = 2, .node_of = two, .arg = &k};
        assert_true(job_run_comm(&b, bad_range_rank));
    }
    for (int k = 0; k < 6; k++) {
        struct job b = {.size = 2, .node_of = two, .arg = &k};
        assert_true(job_run(&b, bad_sum_rank));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(broadcast_and_allgather_move_every_byte),
    cmocka_unit_test(a_narrow_connection_carries_every_byte),
    cmocka_unit_test(nobody_sends_more_than_there_is_room_for),
    cmocka_unit_test(connections_are_as_patient_as_the_communicator),
    cmocka_unit_test(nobody_passes_a_barrier_early),
    cmocka_unit_test(bytes_between_nodes_equal_the_formula),
    cmocka_unit_test(nothing_is_left_behind),
    cmocka_unit_test(misuse_is_refused_on_every_rank),
};
UNIT_MAIN(tests)
