/* abiprogram.c - for t0010: three steps of training with one parameter, compiled against ddp.h as it is, as it may have
 * been and as it may become, and run with this libddp. Behind every struct lies a guard that libddp must neither use
 * nor write. With LATER structs have a field added_later; 2: the program sets that of the optimizer, 3: of the hook. */
#include <ddp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LATER
#define LATER 0
#endif

#define N_GUARDS (sizeof guard / sizeof *guard)
#define GUARDED(type)                                                                                                  \
    struct {                                                                                                           \
        struct type it;                                                                                                \
        unsigned char behind[64];                                                                                      \
    }

static GUARDED(ddp_optimizer) opt;
static GUARDED(ddp_hook) hook;
static GUARDED(ddp_device) device;
static GUARDED(ddp_batch) batch;
static GUARDED(ddp_step) step;
static GUARDED(ddp_checkpoint_status) status;
static GUARDED(ddp_metrics) metrics;
static GUARDED(ddp_param) param;
static GUARDED(ddp_memory) memory;

static unsigned char *const guard[] = {opt.behind,    hook.behind,    device.behind, batch.behind, step.behind,
                                       status.behind, metrics.behind, param.behind,  memory.behind};

static void encode(void *ctx, void *wire, const float *grad, size_t n, const struct ddp_hook_info *info)
{
    (void)info;
    if (ctx)
        abort();
    memcpy(wire, grad, n * sizeof *grad);
}

static void decode(void *ctx, float *grad, const void *wire, size_t n, const struct ddp_hook_info *info)
{
    encode(ctx, grad, wire, n, info);
}

static int train(ddp_t *d, ddp_error_t *e)
{
    if (ddp_hook(d, &hook.it, e) || ddp_device(d, &device.it, e) ||
        ddp_param_add(d, "w", DDP_F32, (size_t[]){2}, 1, 0) || ddp_commit(d, &opt.it, e) ||
        ddp_data_open(d, 100, 1, 1, 0, 1, e))
        return -1;
    ddp_param_get_sized(d, 0, &param.it, sizeof param.it);
    for (int i = 0; i < 3; i++) {
        if (ddp_batch_next(d, &batch.it, e))
            return -1;
        ((float *)param.it.grad)[1] = 2;
        ddp_grad_ready(d, 0);
        if (ddp_backward_end(d, 1, 1, e) || ddp_step(d, &step.it, e))
            return -1;
    }
    if (ddp_checkpoint_status(d, &status.it) || ddp_metrics(d, &metrics.it))
        return -1;
    ddp_memory_sized(d, &memory.it, sizeof memory.it);
    printf("step %d, w %g, lr %g, gradients of %d bytes\n", (int)step.it.step, (double)((float *)param.it.value)[1],
           step.it.lr, (int)memory.it.grads);
#if LATER
    if (param.it.added_later || memory.it.added_later || device.it.added_later || batch.it.added_later ||
        step.it.added_later || status.it.added_later || metrics.it.added_later)
        return snprintf(e->text, sizeof e->text, "what this libddp does not know is not 0"), -1;
#endif
    return 0;
}

int main(int argc, char **argv)
{
    ddp_error_t e = {0};
    ddp_t *d = ddp_init(&argc, &argv, &e);
    for (size_t i = 0; i < N_GUARDS; i++)
        memset(guard[i], 0xff, sizeof opt.behind);
    opt.it.rule = "sgd";
    opt.it.lr = .5f;
    hook.it.encode = encode;
    hook.it.decode = decode;
#if LATER
    opt.it.added_later = LATER == 2;
    hook.it.added_later = LATER == 3;
    param.it.added_later = memory.it.added_later = device.it.added_later = batch.it.added_later = 1;
    step.it.added_later = status.it.added_later = metrics.it.added_later = 1;
#endif
    int rc = d ? train(d, &e) : -1;
    ddp_finalize(d);
    if (rc < 0)
        printf("%s\n", e.text);
    for (size_t i = 0; i < N_GUARDS; i++)
        for (size_t k = 0; k < sizeof opt.behind; k++)
            if (guard[i][k] != 0xff)
                return printf("libddp wrote behind struct %zu\n", i), 1;
    return rc < 0;
}
