/* deviceprobe.c - ranks that compute on (emulated) GPUs as training will: memory, then steps of device work, each
 * waited for beside the watch and followed by a collective.
 *
 * deviceprobe STEPS BYTES   exit code 0, or 1 with the error, after all other ranks were told. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/comm/watch.h"
#include "runtime/device/choice.h"
#include "runtime/handle.h"

struct probe {
    ddp_t *ddp;
    device_t *device;
    device_stream_t *stream;
    device_event_t *done;
    void *params;
    double *host;
};

static int ask_watch(void *ctx, ddp_error_t *errp)
{
    watch_t *w = comm_watch(((struct probe *)ctx)->ddp->team.comm);
    return watch_is_broken(w) ? watch_error(w, errp) : 0;
}

static int open_device(struct probe *p, size_t n_bytes, ddp_error_t *errp)
{
    const struct ddp_world *w = ddp_world(p->ddp);
    int n = device_cuda_count(errp);
    if (n == 0)
        return -1;
    p->device = device_open(w->local_rank % n, w->rank, errp);
    p->stream = p->device ? device_stream_create(p->device, DEVICE_NORMAL, errp) : NULL;
    p->done = p->stream ? device_event_create(p->device, false, errp) : NULL;
    p->host = p->done ? device_host_malloc(p->device, sizeof *p->host, "the loss", errp) : NULL;
    p->params = p->host ? device_malloc(p->device, n_bytes, "parameters", errp) : NULL;
    return p->params ? 0 : -1;
}

/* *host becomes 0, by way of the device. */
static int compute(struct probe *p, size_t n_bytes, ddp_error_t *errp)
{
    *p->host = 1;
    if (device_fill(p->stream, p->params, 0, n_bytes, errp) < 0 ||
        device_copy(p->stream, p->host, p->params, sizeof *p->host, DEVICE_FROM, errp) < 0 ||
        device_event_record(p->done, p->stream, errp) < 0)
        return -1;
    return device_event_wait(p->done, deadline_in(p->ddp->config.timeout_s), ask_watch, p, errp);
}

static int run(struct probe *p, int steps, size_t n_bytes, ddp_error_t *errp)
{
    if (open_device(p, n_bytes, errp) < 0)
        return -1;
    for (int i = 0; i < steps; i++) {
        ddp_work_t *work;
        if (compute(p, n_bytes, errp) < 0)
            return -1;
        if (*p->host != 0)
            return error_set(errp, DDP_E_DATA, 0, "step %d: the host was read before the device wrote", i);
        if (!(work = ddp_allreduce(p->ddp, p->host, 1, DDP_F64, DDP_SUM, errp)) || ddp_wait(work, errp) < 0)
            return -1;
    }
    printf("%d steps\n", steps);
    return 0;
}

static void close_device(struct probe *p)
{
    if (p->device) {
        device_free(p->device, p->params);
        device_host_free(p->device, p->host);
    }
    device_event_destroy(p->done);
    device_stream_destroy(p->stream);
    device_close(p->device);
}

int main(int argc, char **argv)
{
    ddp_error_t e = {0};
    struct probe p = {.ddp = ddp_init(&argc, &argv, &e)};
    int rc = p.ddp && argc == 3 ? run(&p, atoi(argv[1]), strtoull(argv[2], NULL, 10), &e) : -1;
    if (rc < 0) {
        fprintf(stderr, "deviceprobe: %s\n", e.text);
        ddp_abort(p.ddp, EXIT_FAILURE, e.text);
    }
    close_device(&p);
    ddp_finalize(p.ddp);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
