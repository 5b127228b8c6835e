/* allreduce.c - `ddp bench allreduce`: how fast the ranks sum, in the columns of NVIDIA's nccl-tests.
 *
 * algbw = size / time. busbw = algbw * 2 (n - 1) / n: what each of n ranks must at least send and receive, so that it
 * can be compared with a link whatever n is (nccl-tests, doc/PERFORMANCE.md).
 * Times are of the slowest rank, the median over -n iterations, back to back. The timed data is zeros, which stay
 * finite however often they are summed.
 *
 * --memory sets the times beside what the memory can do: y += x, every rank on arrays of its own of the same size, all
 * at once. It moves 3 times its size per rank (two reads, a write); a direct all-reduce on one node moves 2 times its
 * size per rank (each rank reads its slice of all copies and writes it to all). "of y += x" is the quotient of the two
 * bandwidths: (2 / time) / (3 / time of y += x). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/model/vector.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/bench/bench.h"
#include "runtime/bench/pattern.h"

enum { MIN_BYTES, MAX_BYTES, FACTOR, SIZES, ITERATIONS, WARMUP, TYPE, OP, CHECK, MEMORY, JSON, N_KNOBS };

#define MAX_SIZES 64

static const struct knob knobs[N_KNOBS] = {
    [MIN_BYTES] = {.name = "-b", .type = KNOB_STRING, .def = "1M", .help = "smallest size, in bytes, or with K, M, G"},
    [MAX_BYTES] = {.name = "-e", .type = KNOB_STRING, .def = "128M", .help = "greatest size"},
    [FACTOR] = {.name = "-f", .type = KNOB_INT, .def = "2", .min = 2, .max = 1 << 20,
                .help = "from one size to the next"},
    [SIZES] = {.name = "--sizes", .type = KNOB_STRING, .max = 200, .help = "these instead: 1M,25M,100M"},
    [ITERATIONS] = {.name = "-n", .type = KNOB_INT, .def = "20", .min = 1, .max = 1000000, .help = "timed iterations"},
    [WARMUP] = {.name = "-w", .type = KNOB_INT, .def = "5", .max = 1000000, .help = "iterations before them"},
    [TYPE] = {.name = "-d", .type = KNOB_ENUM, .def = "float", .choices = "float|double|bfloat16|half|int32|int64",
              .help = "type"},
    [OP] = {.name = "-o", .type = KNOB_ENUM, .def = "sum", .choices = "sum|min|max", .help = "operator"},
    [CHECK] = {.name = "-c", .type = KNOB_BOOL, .def = "on",
               .help = "compare a result with what it must be; -c=0: do not"},
    [MEMORY] = {.name = "--memory", .type = KNOB_BOOL, .def = "off", .help = "measure y += x beside it"},
    [JSON] = {.name = "--json", .type = KNOB_BOOL, .def = "off", .help = "print JSON, with every digit"},
};
static const char *const type_names[] = {"float", "double", "bfloat16", "half", "int32", "int64"};

struct bench {
    ddp_t *d;
    struct knob_value v[N_KNOBS];
    size_t size[MAX_SIZES], n_sizes, max_bytes;
    enum ddp_dtype dtype;
    enum ddp_op op;
    size_t n_iterations, n_warmup;
    double *time; /* [n_iterations] */
    void *direct, *private;
    float *y; /* --memory: y += private */
};

/* One size's results. */
struct side {
    struct stats time;
    int64_t n_wrong;
};
struct row {
    size_t bytes, count;
    struct side staged, direct;
    struct stats memory; /* seconds of y += x */
};

static int allreduce(struct bench *b, void *data, size_t count, ddp_error_t *errp)
{
    ddp_work_t *w = ddp_allreduce(b->d, data, count, b->dtype, b->op, errp);
    return w ? ddp_wait(w, errp) : -1;
}

static int time_side(struct bench *b, void *data, size_t count, struct stats *ret, ddp_error_t *errp)
{
    memset(data, 0, count * dtype_size(b->dtype));
    if (ddp_barrier(b->d, errp) < 0)
        return -1;
    for (size_t i = 0; i < b->n_warmup; i++)
        if (allreduce(b, data, count, errp) < 0)
            return -1;
    for (size_t i = 0; i < b->n_iterations; i++) {
        double start = bench_now_s();
        if (allreduce(b, data, count, errp) < 0)
            return -1;
        b->time[i] = bench_now_s() - start;
    }
    return bench_stats_over_ranks(b->d, b->time, b->n_iterations, ret, errp);
}

static int check_side(struct bench *b, void *data, size_t count, int64_t *ret_n_wrong, ddp_error_t *errp)
{
    const struct ddp_world *w = ddp_world(b->d);
    struct pattern p;
    pattern_init(&p, w->rank, w->size, b->dtype, b->op);
    pattern_fill(&p, data, count);
    if (allreduce(b, data, count, errp) < 0)
        return -1;
    *ret_n_wrong = (int64_t)pattern_count_wrong(&p, data, count);
    return bench_sum_over_ranks(b->d, ret_n_wrong, errp);
}

static int measure_side(struct bench *b, void *data, size_t count, struct side *ret, ddp_error_t *errp)
{
    if (time_side(b, data, count, &ret->time, errp) < 0)
        return -1;
    return b->v[CHECK].b ? check_side(b, data, count, &ret->n_wrong, errp) : 0;
}

/* y += x until 16 MiB are summed, so that the barrier at its end costs nothing beside it. */
static int time_memory(struct bench *b, size_t bytes, struct stats *ret, ddp_error_t *errp)
{
    size_t n = bytes / sizeof(float), repeat = bytes ? ((size_t)16 << 20) / bytes + 1 : 1;
    memset(b->private, 0, bytes);
    for (size_t i = 0; i < b->n_warmup + b->n_iterations; i++) {
        if (ddp_barrier(b->d, errp) < 0)
            return -1;
        double start = bench_now_s();
        for (size_t k = 0; k < repeat; k++)
            kernel_add(b->y, b->y, b->private, n);
        if (ddp_barrier(b->d, errp) < 0)
            return -1;
        if (i >= b->n_warmup)
            b->time[i - b->n_warmup] = (bench_now_s() - start) / (double)repeat;
    }
    return bench_stats_over_ranks(b->d, b->time, b->n_iterations, ret, errp);
}

static double gb_per_s(double bytes, double seconds)
{
    return seconds > 0 ? bytes / seconds / 1e9 : 0;
}

static double bus_factor(const struct bench *b)
{
    int n = ddp_world(b->d)->size;
    return 2.0 * (n - 1) / n;
}

/* Of all ranks together. */
static double memory_gb_per_s(const struct bench *b, const struct row *r)
{
    return gb_per_s(3.0 * (double)r->bytes * ddp_world(b->d)->local_size, r->memory.median);
}

static double memory_ratio(const struct row *r)
{
    return r->direct.time.median > 0 ? 2 * r->memory.median / (3 * r->direct.time.median) : 0;
}

static void print_head(const struct bench *b)
{
    const struct ddp_world *w = ddp_world(b->d);
    printf("# %d ranks on %d nodes; %zu iterations after %zu; time: median of the slowest rank\n"
           "# staged: memory of the program; direct: memory of ddp_alloc\n",
           w->size, w->n_nodes, b->n_iterations, b->n_warmup);
    if (b->v[MEMORY].b)
        printf("# y += x: GB/s of a node's ranks, 3 x size each; of y += x: what direct, 2 x size each, reaches of "
               "it\n");
    printf("#%12s %12s %8s %5s  %-44s  %-44s%s\n", "", "", "", "", "              staged", "              direct", "");
    printf("#%12s %12s %8s %5s ", "size", "count", "type", "redop");
    for (int i = 0; i < 2; i++)
        printf(" %9s %7s %7s %6s %12s ", "time", "algbw", "busbw", "#wrong", "quartiles");
    printf("%s\n", b->v[MEMORY].b ? "   y += x  of y += x" : "");
    printf("#%12s %12s %8s %5s ", "(B)", "(elements)", "", "");
    for (int i = 0; i < 2; i++)
        printf(" %9s %7s %7s %6s %12s ", "(us)", "(GB/s)", "(GB/s)", "", "(us)");
    printf("%s\n", b->v[MEMORY].b ? "   (GB/s)" : "");
}

static void print_side(const struct bench *b, const struct row *r, const struct side *s)
{
    double algbw = gb_per_s((double)r->bytes, s->time.median);
    char wrong[24], quartiles[64];
    snprintf(wrong, sizeof wrong, "%lld", (long long)s->n_wrong);
    snprintf(quartiles, sizeof quartiles, "%.5g-%.5g", s->time.q1 * 1e6, s->time.q3 * 1e6);
    printf(" %9.1f %7.2f %7.2f %6s %12s ", s->time.median * 1e6, algbw, algbw * bus_factor(b),
           b->v[CHECK].b ? wrong : "N/A", quartiles);
}

static void print_row(const struct bench *b, const struct row *r)
{
    printf(" %12zu %12zu %8s %5s ", r->bytes, r->count, type_names[b->dtype], op_name(b->op));
    print_side(b, r, &r->staged);
    print_side(b, r, &r->direct);
    if (b->v[MEMORY].b)
        printf(" %8.2f %9.1f%%", memory_gb_per_s(b, r), 100 * memory_ratio(r));
    printf("\n");
    fflush(stdout);
}

static void json_side(const struct bench *b, const struct row *r, const char *name, const struct side *s)
{
    double algbw = gb_per_s((double)r->bytes, s->time.median);
    printf(", \"%s\": {", name);
    bench_json_stats(stdout, "time_us", s->time, 1e6);
    printf(", \"algbw\": %.9g, \"busbw\": %.9g, \"wrong\": ", algbw, algbw * bus_factor(b));
    if (b->v[CHECK].b)
        printf("%lld}", (long long)s->n_wrong);
    else
        printf("null}");
}

static void json_head(const struct bench *b)
{
    const struct ddp_world *w = ddp_world(b->d);
    printf("{\"bench\": \"allreduce\", \"ranks\": %d, \"nodes\": %d, \"iterations\": %zu, \"warmup\": %zu, \"rows\": [",
           w->size, w->n_nodes, b->n_iterations, b->n_warmup);
}

static void json_row(const struct bench *b, const struct row *r, bool is_first)
{
    printf("%s\n  {\"size\": %zu, \"count\": %zu, \"type\": \"%s\", \"redop\": \"%s\"",
           is_first ? "" : ",", r->bytes, r->count, type_names[b->dtype], op_name(b->op));
    json_side(b, r, "staged", &r->staged);
    json_side(b, r, "direct", &r->direct);
    if (b->v[MEMORY].b) {
        printf(", ");
        bench_json_stats(stdout, "memory_us", r->memory, 1e6);
        printf(", \"memory_gbs\": %.9g, \"of_memory\": %.9g", memory_gb_per_s(b, r), memory_ratio(r));
    }
    printf("}");
}

static int measure_row(struct bench *b, struct row *r, ddp_error_t *errp)
{
    if (measure_side(b, b->private, r->count, &r->staged, errp) < 0 ||
        measure_side(b, b->direct, r->count, &r->direct, errp) < 0)
        return -1;
    return b->v[MEMORY].b ? time_memory(b, r->bytes, &r->memory, errp) : 0;
}

/* All sizes. Returns the number of wrong elements in *ret_n_wrong. */
static int measure(struct bench *b, int64_t *ret_n_wrong, ddp_error_t *errp)
{
    bool prints = ddp_world(b->d)->rank == 0, json = b->v[JSON].b;
    if (prints)
        (json ? json_head : print_head)(b);
    for (size_t i = 0; i < b->n_sizes; i++) {
        struct row r = {.bytes = b->size[i], .count = b->size[i] / dtype_size(b->dtype)};
        if (measure_row(b, &r, errp) < 0)
            return -1;
        *ret_n_wrong += r.staged.n_wrong + r.direct.n_wrong;
        if (prints && json)
            json_row(b, &r, i == 0);
        else if (prints)
            print_row(b, &r);
    }
    if (prints && json)
        printf("\n], \"wrong\": %lld}\n", (long long)*ret_n_wrong);
    else if (prints)
        printf("# wrong elements: %lld %s\n", (long long)*ret_n_wrong,
               !b->v[CHECK].b ? "(not checked)" : *ret_n_wrong ? "FAILED" : "OK");
    return 0;
}

/* From -b to -e by factors of -f. */
static int take_range(struct bench *b, ddp_error_t *errp)
{
    size_t least, most;
    if (bench_bytes("-b", b->v[MIN_BYTES].text, &least, errp) < 0 ||
        bench_bytes("-e", b->v[MAX_BYTES].text, &most, errp) < 0)
        return -1;
    if (most < least)
        return error_set(errp, DDP_E_USAGE, EINVAL, "-e=%s is below -b=%s: take a greater one", b->v[MAX_BYTES].text,
                         b->v[MIN_BYTES].text);
    for (size_t bytes = least; bytes <= most; bytes *= (size_t)b->v[FACTOR].i)
        b->size[b->n_sizes++] = bytes;
    return 0;
}

static int take_list(struct bench *b, ddp_error_t *errp)
{
    char list[sizeof b->v[SIZES].text], *rest = list, *part;
    snprintf(list, sizeof list, "%s", b->v[SIZES].text);
    while ((part = strsep(&rest, ",")))
        if (b->n_sizes == MAX_SIZES)
            return error_set(errp, DDP_E_USAGE, EINVAL, "--sizes has more than %d sizes: name fewer", MAX_SIZES);
        else if (bench_bytes("--sizes", part, &b->size[b->n_sizes++], errp) < 0)
            return -1;
    return 0;
}

static int parse(struct bench *b, int argc, char **argv, ddp_error_t *errp)
{
    if (knob_argv(knobs, N_KNOBS, "\"ddp bench allreduce --help\"", argc, argv, b->v, NULL, errp) < 0 ||
        (b->v[SIZES].is_set ? take_list : take_range)(b, errp) < 0)
        return -1;
    for (size_t i = 0; i < b->n_sizes; i++)
        b->max_bytes = b->size[i] > b->max_bytes ? b->size[i] : b->max_bytes;
    b->dtype = (enum ddp_dtype)b->v[TYPE].choice;
    b->op = (enum ddp_op)b->v[OP].choice;
    b->n_iterations = (size_t)b->v[ITERATIONS].i;
    b->n_warmup = (size_t)b->v[WARMUP].i;
    return 0;
}

static int allocate(struct bench *b, ddp_error_t *errp)
{
    b->time = bench_private(b->n_iterations * sizeof *b->time, errp);
    b->private = bench_private(b->max_bytes, errp);
    if (!b->time || !b->private || (b->v[MEMORY].b && !(b->y = bench_private(b->max_bytes, errp))))
        return -1;
    b->direct = ddp_alloc(b->d, b->max_bytes, errp);
    return b->direct ? 0 : -1;
}

static int run(ddp_t *d, int argc, char **argv, ddp_error_t *errp)
{
    struct bench b = {.d = d};
    int64_t n_wrong = 0;
    int rc = parse(&b, argc, argv, errp);
    if (rc == 0)
        rc = allocate(&b, errp);
    if (rc == 0)
        rc = measure(&b, &n_wrong, errp);
    free(b.time);
    free(b.private);
    free(b.y);
    return rc < 0 ? -1 : n_wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void help(FILE *f)
{
    fprintf(f, "usage: ddp bench allreduce [OPTION...]\n"
               "All-reduce at sizes from -b to -e: time, algbw = size / time, busbw = algbw 2 (n - 1) / n, and how "
               "many\nelements of a result are wrong.\n\n");
    knob_help(f, knobs, N_KNOBS);
}

const struct bench_verb bench_allreduce = {"allreduce", "time and bandwidth of all-reduce, and a check of its results",
                                           run, help};
