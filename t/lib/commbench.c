/* commbench - times the communicator alone: t/lib/commbench KIND MIB RANKS NODES MODE [NETNS] prints medians.
 *
 * KIND: direct (float32 in a segment), staged (the caller's own memory), axpy (y += x over private arrays of MIB, on
 * all ranks at once), overlap (eight direct works of MIB / 8 in flight), hide (the same, each started after 1 ms of
 * arithmetic, in which comm_progress is called four times), busy (that arithmetic alone), spare (as hide, asleep
 * instead: a core is free). RANKS per node. MODE: caller or thread. NETNS: node k
 * runs in the network namespace NETNSk and uses its interface veth0; without it all nodes share this one. */
#include <config.h> /* setns */

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/reduce.h"
#include "runtime/base/clock.h"
#include "t/lib/ranks.h"

enum { MOST = 2000 };

struct bench {
    const char *kind, *netns;
    size_t n;
    enum comm_progress_mode mode;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void axpy(float *y, const float *x, size_t n)
{
    kernel_reduce_tree(&(void *){y}, 1, (const void *[]){y, x}, 2, n, DDP_F32, DDP_SUM);
}

static float *array(size_t n)
{
    float *p = mmap(NULL, n * 4 + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    for (size_t i = 0; i < n; i++)
        p[i] = 1;
    return p;
}

static int enter(const struct bench *b, int node)
{
    char path[128];
    if (!b->netns)
        return 0;
    snprintf(path, sizeof path, "/run/netns/%s%d", b->netns, node);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || setns(fd, CLONE_NEWNET) < 0 ? -1 : 0;
}

/* About 1 ms of a core, cut by four calls of comm_progress. */
static void compute(comm_t *c, bool sleeps)
{
    static volatile double sink;
    double x = sink;
    for (int k = 0; k < 4; k++) {
        if (sleeps)
            usleep(250);
        for (int i = 0; !sleeps && i < 180000; i++)
            x = x * 0.999 + 0.5;
        comm_progress(c);
    }
    sink = x;
}

static int overlap(comm_t *c, comm_segment_t *s, size_t n, const char *kind, ddp_error_t *errp)
{
    comm_work_t *w[8];
    struct comm_range r[8];
    int rc = 0;
    for (size_t i = 0; i < 8; i++) {
        if (strcmp(kind, "overlap") != 0)
            compute(c, strcmp(kind, "spare") == 0);
        r[i] = (struct comm_range){i * (n / 8) * 4, n / 8, DDP_F32};
        w[i] = comm_reduce_start(c, &(struct comm_reduce){.segment = s, .ranges = &r[i], .n_ranges = 1}, errp);
        if (!w[i])
            return -1;
    }
    for (size_t i = 0; i < 8; i++)
        rc = comm_wait(w[i], errp) < 0 ? -1 : rc;
    return rc;
}

static int bench_rank(struct job *j, int rank)
{
    const struct bench *b = j->arg;
    struct comm_config cfg = {.timeout_s = 60, .progress = b->mode, .interface = b->netns ? "veth0" : NULL};
    ddp_error_t e = {0};
    CHECK(enter(b, j->node_of[rank]) == 0, "no network namespace");
    boot_t *boot = memboot_open(j->boot, rank);
    struct world *w = job_world(j, rank);
    comm_t *c = comm_create(&cfg, w, boot, &e);
    CHECK(c, "%s", e.text);
    comm_segment_t *s = comm_segment_create(c, b->n * 4 + 64, &e);
    CHECK(s, "%s", e.text);
    struct comm_range r = {0, b->n, DDP_F32};
    bool is_axpy = strcmp(b->kind, "axpy") == 0, is_staged = strcmp(b->kind, "staged") == 0;
    bool is_busy = strcmp(b->kind, "busy") == 0, is_direct = strcmp(b->kind, "direct") == 0;
    float *own = is_axpy || is_staged ? array(b->n) : comm_segment_data(s), *y = is_axpy ? array(b->n) : NULL;
    memset(own, 0, b->n * 4);
    static double took[MOST];
    int n = 0;
    uint64_t end = clock_ns() + 2 * NS_PER_S;
    for (int go = 1; go; n++) {
        CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
        uint64_t start = clock_ns();
        if (is_axpy)
            axpy(y, own, b->n);
        else if (is_busy)
            for (int i = 0; i < 8; i++)
                compute(c, false);
        else if (!is_staged && !is_direct)
            CHECK(overlap(c, s, b->n, b->kind, &e) == 0, "%s", e.text);
        else if (is_staged)
            CHECK(comm_allreduce(c, own, b->n, DDP_F32, DDP_SUM, &e) == 0, "%s", e.text);
        else
            CHECK(comm_reduce_ranges(c, s, &r, 1, DDP_SUM, &e) == 0, "%s", e.text);
        took[n] = (double)(clock_ns() - start) * 1e-6;
        go = n + 1 < MOST && clock_ns() < end;
        CHECK(comm_bcast(c, &go, sizeof go, 0, &e) == 0, "%s", e.text);
    }
    qsort(took, (size_t)n, sizeof *took, by_value);
    double median = took[n / 2], worst;
    double all[RANKS_MAX];
    CHECK(comm_allgather(c, &median, sizeof median, all, &e) == 0, "%s", e.text);
    qsort(all, (size_t)j->size, sizeof *all, by_value);
    worst = all[j->size - 1];
    double moved = is_axpy ? 12.0 * j->size : 8.0 * j->size;
    if (rank == 0)
        printf("%-8s %7.2f MiB  %d ranks %d nodes %-6s  %8.3f ms  quartiles %.3f %.3f  %.1f GB/s moved  n=%d\n",
               b->kind, (double)b->n * 4 / (1 << 20), j->size, w->n_nodes,
               b->mode == COMM_PROGRESS_THREAD ? "thread" : "caller", worst, took[n / 4], took[n * 3 / 4],
               moved * (double)b->n / worst * 1e-6, n);
    fflush(stdout);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

int main(int argc, char **argv)
{
    int node_of[RANKS_MAX];
    if (argc < 6)
        return fprintf(stderr, "usage: commbench direct|staged|axpy|overlap|hide|spare|busy MIB RANKS NODES "
                               "caller|thread [NETNS]\n"), 2;
    struct bench b = {.kind = argv[1], .n = (size_t)(atof(argv[2]) * (1 << 18)), .netns = argc > 6 ? argv[6] : NULL};
    b.mode = strcmp(argv[5], "thread") == 0 ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
    int per_node = atoi(argv[3]);
    struct job j = {.size = per_node * atoi(argv[4]), .node_of = node_of, .arg = &b};
    if (j.size < 1 || j.size > RANKS_MAX)
        return fprintf(stderr, "commbench: 1 to %d ranks\n", RANKS_MAX), 2;
    for (int r = 0; r < j.size; r++)
        node_of[r] = r / per_node;
    return job_run(&j, bench_rank) ? 0 : 1;
}
