/* gpureduce.c - what libddp's all-reduce on GPUs costs beside bare NCCL: `ddp run -n 2 contrib/bench/gpureduce`.
 *
 * Both sum the same device memory, in place, on the same stream, in turn: bare NCCL by a blocking communicator of its
 * own, ours by the communicator that libddp's reducer uses (runtime/nccl/nccl.h: non-blocking, watched, with a
 * deadline). A sample is the time of -k operations in a row, from the first call until the stream is done, divided by
 * k; of the ranks' times the longest counts. limit is bare NCCL's median, ratio = ours / bare NCCL's. Before, the sums
 * of both are compared with what they must be.
 *
 * Ranks take the GPUs of their node in turn. Where there are fewer GPUs than ranks they share: NCCL then talks over
 * sockets, and the ratio says what our calls cost, not how fast GPUs can be. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/bench/barenccl.h"
#include "contrib/bench/gpureport.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/knob.h"
#include "runtime/device/device.h"
#include "runtime/nccl/nccl.h"

#ifdef DDP_CUDA_EMULATED
#define IS_EMULATED true
#else
#define IS_EMULATED false
#endif

#define GOAL 1.03
#define GOAL_FROM ((size_t)25 << 20) /* bytes: below, it is the latency of a call that is measured */
#define BOOT_S 60
#define WAIT_S 60
#define MAX_SIZES 16

enum { SIZES, IN_A_ROW, ITERATIONS, WARMUP, JSON, N_KNOBS };
static const struct knob knobs[N_KNOBS] = {
    [SIZES] = {.name = "--sizes", .type = KNOB_STRING, .def = "65536,1048576,26214400,104857600", .max = 200,
               .help = "in bytes"},
    [IN_A_ROW] = {.name = "-k", .type = KNOB_INT, .def = "5", .min = 1, .max = 1000, .help = "operations in a row"},
    [ITERATIONS] = {.name = "-n", .type = KNOB_INT, .def = "20", .min = 1, .max = 100000, .help = "samples of each"},
    [WARMUP] = {.name = "-w", .type = KNOB_INT, .def = "3", .max = 100000, .help = "samples before them"},
    [JSON] = {.name = "--json", .type = KNOB_STRING, .help = "rank 0: a file for a JSON object per size"},
};

struct bench {
    struct knob_value v[N_KNOBS];
    size_t size[MAX_SIZES], n_sizes, max_bytes;
    struct world *world;
    comm_t *comm;
    device_t *device;
    device_stream_t *stream;
    device_event_t *event;
    bool is_shared;
    nccl_t *nccl;
    float *data, *host; /* max_bytes each */
    double *ours, *bare;
};

/* ---- one operation ---- */

typedef int start_f(struct bench *b, size_t n, ddp_error_t *errp);

static int start_ours(struct bench *b, size_t n, ddp_error_t *errp)
{
    const struct nccl_range range = {b->data, n, DDP_F32};
    return nccl_allreduce(b->nccl, &range, 1, device_native_stream(b->stream), errp);
}

static int start_bare(struct bench *b, size_t n, ddp_error_t *errp)
{
    return bare_allreduce(b->data, n, device_native_stream(b->stream), errp);
}

static int is_over(void *ctx, ddp_error_t *errp)
{
    struct bench *b = ctx;
    int done = device_event_query(b->event, errp);
    return done == 1 ? bare_is_over() : done;
}

/* Until the stream is done: the same for both. */
static int finish(struct bench *b, ddp_error_t *errp)
{
    return nccl_settle(b->nccl, errp) < 0 || device_event_record(b->event, b->stream, errp) < 0 ||
                   nccl_wait(b->nccl, is_over, b, errp) < 0
               ? -1
               : 0;
}

static int sample(struct bench *b, start_f *start, size_t n, double *ret_s, ddp_error_t *errp)
{
    if (comm_barrier(b->comm, errp) < 0)
        return -1;
    uint64_t began = clock_ns();
    for (int64_t k = 0; k < b->v[IN_A_ROW].i; k++) {
        if (start(b, n, errp) < 0)
            return -1;
        while (IS_EMULATED && !bare_is_over()) /* a double does not order what two communicators do */
            poll(NULL, 0, 0);
    }
    if (finish(b, errp) < 0)
        return -1;
    *ret_s = (double)(clock_ns() - began) / 1e9 / (double)b->v[IN_A_ROW].i;
    return 0;
}

/* ---- is it right? ---- */

static float value_of(size_t i, int rank)
{
    return (float)((i + (size_t)rank) % 7);
}

static int check(struct bench *b, start_f *start, const char *whose, size_t n, ddp_error_t *errp)
{
    for (size_t i = 0; i < n; i++)
        b->host[i] = value_of(i, b->world->rank);
    if (device_copy(b->stream, b->data, b->host, n * sizeof(float), DEVICE_TO, errp) < 0 || start(b, n, errp) < 0 ||
        finish(b, errp) < 0 || device_copy(b->stream, b->host, b->data, n * sizeof(float), DEVICE_FROM, errp) < 0 ||
        device_stream_wait(b->stream, deadline_in(WAIT_S), NULL, NULL, errp) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        float want = 0;
        for (int r = 0; r < b->world->size; r++)
            want += value_of(i, r);
        if (b->host[i] != want)
            return error_set(errp, DDP_E_DATA, EPROTO, "%s: element %zu of %zu is %g, not %g", whose, i, n,
                             (double)b->host[i], (double)want);
    }
    return 0;
}

/* ---- measuring ---- */

static int measure(struct bench *b, size_t bytes, ddp_error_t *errp)
{
    size_t n = bytes / sizeof(float), samples = (size_t)b->v[ITERATIONS].i;
    double factor = 2.0 * (b->world->size - 1) / b->world->size, ours, bare;
    char what[80], note[64], size[32];
    snprintf(size, sizeof size, bytes < 1048576 ? "%.4g KiB" : "%.4g MiB",
             (double)bytes / (bytes < 1048576 ? 1024 : 1048576));
    if (check(b, start_ours, "ours", n, errp) < 0 || check(b, start_bare, "NCCL", n, errp) < 0 ||
        device_fill(b->stream, b->data, 0, bytes, errp) < 0) /* zeros stay finite however often they are summed */
        return -1;
    for (int64_t i = -b->v[WARMUP].i; i < b->v[ITERATIONS].i; i++) {
        if (sample(b, start_bare, n, &bare, errp) < 0 || sample(b, start_ours, n, &ours, errp) < 0)
            return -1;
        if (i >= 0) {
            b->bare[i] = bare * 1e6;
            b->ours[i] = ours * 1e6;
        }
    }
    if (comm_allreduce(b->comm, b->bare, samples, DDP_F64, DDP_MAX, errp) < 0 ||
        comm_allreduce(b->comm, b->ours, samples, DDP_F64, DDP_MAX, errp) < 0)
        return -1;
    struct report_entry e = {.what = what, .unit = "us", .ratio_of = "of bare NCCL's time", .at_most = true,
                             .note = note, .goal = bytes >= GOAL_FROM ? GOAL : 0,
                             .stats = stats_of(b->ours, samples)};
    e.limit = stats_of(b->bare, samples).median;
    e.ratio = e.limit > 0 ? e.stats.median / e.limit : 0;
    snprintf(what, sizeof what, "all-reduce of %s, %d rank%s%s", size, b->world->size, b->world->size > 1 ? "s" : "",
             b->is_shared ? " on one GPU" : "");
    snprintf(note, sizeof note, "busbw %.4g GB/s",
             e.stats.median > 0 ? factor * (double)bytes / e.stats.median * 1e-3 : 0);
    if (b->world->rank == 0)
        report_entry(&e);
    return 0;
}

/* ---- opening ---- */

static int parse_sizes(struct bench *b, ddp_error_t *errp)
{
    const char *text = b->v[SIZES].text;
    for (char *end; *text; text = *end ? end + 1 : end) {
        unsigned long long x = strtoull(text, &end, 10);
        if (end == text || (*end && *end != ',') || x < 4 || x > (1ull << 36) || b->n_sizes == MAX_SIZES)
            return error_set(errp, DDP_E_USAGE, EINVAL, "--sizes: at most %d sizes in bytes, with commas: "
                             "1048576,26214400", MAX_SIZES);
        b->size[b->n_sizes++] = (size_t)x / 4 * 4;
        b->max_bytes = x > b->max_bytes ? (size_t)x : b->max_bytes;
    }
    return 0;
}

static int open_device(struct bench *b, ddp_error_t *errp)
{
    int n = device_cuda_count(errp), local = b->world->local_of[b->world->rank];
    int local_size = world_local_size(b->world, b->world->node_of[b->world->rank]);
    if (n <= 0)
        return -1;
    b->is_shared = local_size > n;
    b->device = device_open(local % n, b->world->rank, errp);
    b->stream = b->device ? device_stream_create(b->device, DEVICE_URGENT, errp) : NULL;
    b->event = b->stream ? device_event_create(b->device, false, errp) : NULL;
    b->data = b->event ? device_malloc(b->device, b->max_bytes, "what is summed", errp) : NULL;
    b->host = b->data ? device_host_malloc(b->device, b->max_bytes, "what is summed", errp) : NULL;
    if (!b->host)
        return -1;
    b->ours = calloc((size_t)b->v[ITERATIONS].i, sizeof *b->ours);
    b->bare = calloc((size_t)b->v[ITERATIONS].i, sizeof *b->bare);
    return b->ours && b->bare ? 0 : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for samples");
}

static int open_comm(struct bench *b, ddp_error_t *errp)
{
    const struct comm_config cfg = {.timeout_s = WAIT_S};
    boot_t *boot = boot_open(deadline_in(BOOT_S), errp);
    b->world = boot ? world_exchange(boot, deadline_in(BOOT_S), errp) : NULL;
    b->comm = b->world ? comm_create(&cfg, b->world, boot, errp) : NULL;
    if (!b->comm) {
        boot_leave(boot, NULL);
        return -1;
    }
    return boot_leave(boot, errp);
}

/* Ours first: what it sets in the environment where ranks share a GPU serves both. */
static int open_nccl(struct bench *b, ddp_error_t *errp)
{
    const struct nccl_config cfg = {.timeout_s = WAIT_S, .share_devices = b->is_shared};
    struct bare_id id = {{0}};
    b->nccl = nccl_create(&cfg, b->world, b->comm, errp);
    if (!b->nccl || nccl_start(b->nccl, errp) < 0 || bare_open(errp) < 0 ||
        (b->world->rank == 0 && bare_make_id(&id, errp) < 0) || comm_bcast(b->comm, &id, sizeof id, 0, errp) < 0)
        return -1;
    return bare_init(b->world->size, b->world->rank, &id, errp);
}

static int run(struct bench *b, ddp_error_t *errp)
{
    char title[300];
    if (parse_sizes(b, errp) < 0 || open_comm(b, errp) < 0 || open_device(b, errp) < 0 || open_nccl(b, errp) < 0)
        return -1;
    snprintf(title, sizeof title, "All-reduce of float32 over %d ranks, %s, NCCL %s: us, beside bare NCCL",
             b->world->size, device_info(b->device)->name, nccl_version(b->nccl));
    bool is_first = b->world->rank == 0;
    if (is_first && report_begin(b->v[JSON].is_set ? b->v[JSON].text : NULL, IS_EMULATED, title, errp) < 0)
        return -1;
    for (size_t i = 0; i < b->n_sizes; i++)
        if (measure(b, b->size[i], errp) < 0)
            return -1;
    if (nccl_close(b->nccl, errp) < 0 || comm_barrier(b->comm, errp) < 0)
        return -1;
    return is_first ? report_end(errp) : 0;
}

static void close_all(struct bench *b)
{
    bare_close();
    nccl_destroy(b->nccl);
    device_event_destroy(b->event);
    device_stream_destroy(b->stream);
    if (b->device) {
        device_free(b->device, b->data);
        device_host_free(b->device, b->host);
    }
    device_close(b->device);
    comm_destroy(b->comm);
    world_destroy(b->world);
    free(b->ours);
    free(b->bare);
}

int main(int argc, char **argv)
{
    static struct bench b;
    ddp_error_t e = {0};
    int rc = knob_argv(knobs, N_KNOBS, "--help", argc, argv, b.v, NULL, &e);
    if (rc == 1) {
        printf("usage: ddp run -n N contrib/bench/gpureduce [OPTION...]\n"
               "Times libddp's all-reduce on GPUs beside bare NCCL.\n");
        knob_help(stdout, knobs, N_KNOBS);
        return 0;
    }
    rc = rc < 0 ? rc : run(&b, &e);
    if (rc < 0)
        fprintf(stderr, "gpureduce: %s\n", e.text);
    close_all(&b);
    return rc < 0;
}
