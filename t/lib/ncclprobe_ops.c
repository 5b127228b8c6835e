/* ncclprobe_ops.c - the operations of ncclprobe, each compared with what must come out. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/reduce.h"
#include "runtime/base/clock.h"
#include "t/lib/ncclprobe.h"

enum { N = 50021, TROUBLE_AT = 2 }; /* elements: several chunks of the double, no multiple of anything */

/* The double says how many groups are not done; what is no double is asked nothing, and has no device here. */
static int is_done(void *ctx, ddp_error_t *errp)
{
    int (*pending)(void) = NULL;
    void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    *(void **)&pending = lib ? dlsym(lib, "nccldouble_pending") : NULL;
    if (lib)
        dlclose(lib);
    (void)ctx;
    (void)errp;
    return !pending || pending() == 0;
}

static int wait_done(nccl_t *n, ddp_error_t *errp)
{
    return nccl_wait(n, is_done, NULL, errp);
}

static int wrong(const char *what, size_t i, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_DATA, EPROTO, "%s: element %zu is wrong", what, i);
}

static void meet_trouble(struct probe *x)
{
    int rank = x->w->rank;
    if (rank == x->plan->die_op)
        raise(SIGKILL);
    if (rank == x->plan->abort_op)
        comm_abort(x->c, "the disk is full");
    if (rank == x->plan->leave_op) {
        nccl_destroy(x->n[0]);
        comm_destroy(x->c);
        _exit(0);
    }
}

/* Two ranges of different types in one group; the sums of small integers are exact. */
static int try_allreduce(const struct world *w, nccl_t *n, float *f, int k, ddp_error_t *errp)
{
    int32_t *i32 = (int32_t *)(f + N);
    struct nccl_range ranges[] = {{f, N, DDP_F32}, {i32, N, DDP_I32}, {NULL, 0, DDP_BF16}};
    int sum = w->size * (w->size - 1) / 2;
    for (int i = 0; i < N; i++) {
        f[i] = (float)(w->rank + i % 7 + k);
        i32[i] = w->rank * 3 + i;
    }
    if (nccl_allreduce(n, ranges, 3, NULL, errp) < 0 || wait_done(n, errp) < 0)
        return -1;
    for (int i = 0; i < N; i++)
        if (f[i] != (float)(sum + (i % 7 + k) * w->size) || i32[i] != sum * 3 + i * w->size)
            return wrong("all-reduce", (size_t)i, errp);
    return 0;
}

static int try_others(const struct world *w, nccl_t *n, float *f, ddp_error_t *errp)
{
    int each = N / w->size, root = w->size - 1;
    float *own = f + w->rank * each;
    for (int i = 0; i < N; i++)
        f[i] = (float)(w->rank + i);
    if (nccl_reduce_scatter(n, f, own, (size_t)each, DDP_F32, NULL, errp) < 0 || wait_done(n, errp) < 0)
        return -1;
    for (int i = 0; i < each; i++)
        if (own[i] != (float)(w->size * (w->size - 1) / 2 + (w->rank * each + i) * w->size))
            return wrong("reduce-scatter", (size_t)i, errp);
    for (int i = 0; i < each; i++)
        own[i] = (float)(w->rank * 1000 + i % 1000);
    if (nccl_allgather(n, own, f, (size_t)each, DDP_F32, NULL, errp) < 0 || wait_done(n, errp) < 0)
        return -1;
    for (int i = 0; i < each * w->size; i++)
        if (f[i] != (float)(i / each * 1000 + i % each % 1000))
            return wrong("all-gather", (size_t)i, errp);
    struct nccl_range ranges[] = {{f, N / 2, DDP_F32}, {f + N / 2, N / 2, DDP_F32}};
    for (int i = 0; i < N; i++)
        f[i] = (float)(w->rank * i);
    if (nccl_bcast(n, ranges, 2, root, NULL, errp) < 0 || wait_done(n, errp) < 0)
        return -1;
    for (int i = 0; i < N / 2 * 2; i++)
        if (f[i] != (float)(root * i))
            return wrong("broadcast", (size_t)i, errp);
    return 0;
}

/* ---- the deterministic mode: its sums are the host communicator's, to the bit ---- */

/* nccl_device.sum: by the processor, of which the double's streams know nothing; so what they were asked for comes
 * first. */
int probe_sum(void *ctx, void *out, const void *const *in, int n_in, size_t n_elems, enum ddp_dtype t, void *stream,
              ddp_error_t *errp)
{
    uint64_t until = deadline_in(20);
    (void)stream;
    while (!is_done(ctx, errp) && deadline_left_ns(until) > 0)
        poll(NULL, 0, 1);
    kernel_reduce_tree(&out, 1, in, n_in, n_elems, t, DDP_SUM);
    return 0;
}

static int try_fixed(const struct world *w, comm_t *c, nccl_t *n, float *f, ddp_error_t *errp)
{
    struct nccl_range range = {f, N, DDP_F32};
    float *want = malloc(N * sizeof *want);
    struct nccl_stage stage = {NULL, nccl_fixed_stage_bytes(w, &range, 1)};
    stage.data = malloc(stage.n_bytes);
    unsigned long state = (unsigned long)w->rank * 7919 + 1;
    if (!want || !stage.data)
        abort();
    for (int i = 0; i < N; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        want[i] = f[i] = (float)((double)(state >> 40) / 997 - 8000);
    }
    int rc = nccl_allreduce_fixed(n, &range, 1, &stage, NULL, errp);
    if (rc == 0)
        rc = wait_done(n, errp);
    if (rc == 0)
        rc = comm_allreduce(c, want, N, DDP_F32, DDP_SUM, errp);
    for (int i = 0; rc == 0 && i < N; i++)
        if (memcmp(&f[i], &want[i], sizeof *f) != 0)
            rc = wrong("the deterministic sum", (size_t)i, errp);
    free(want);
    free(stage.data);
    return rc;
}

static int try_all(struct probe *x, nccl_t *n, float *f, ddp_error_t *errp)
{
    for (int k = 0; k < x->plan->n_ops; k++) {
        if (k == TROUBLE_AT) {
            x->since = clock_ns();
            meet_trouble(x);
        }
        if (try_allreduce(x->w, n, f, k, errp) < 0)
            return -1;
    }
    return try_others(x->w, n, f, errp) < 0 || try_fixed(x->w, x->c, n, f, errp) < 0 ? -1 : 0;
}

int probe_operations(struct probe *x, nccl_t *n, ddp_error_t *errp)
{
    size_t n_bytes = 2 * N * sizeof(float);
    void *own = NULL, *f = NULL, *other = NULL;
    if (nccl_memory_create(n, n_bytes, true, &f, errp) < 0 || nccl_memory_create(n, N, false, &other, errp) < 0)
        return -1;
    f = f ? f : (own = malloc(n_bytes)); /* NCCL has none */
    int rc = try_all(x, n, f, errp);
    free(own);
    return rc;
}
