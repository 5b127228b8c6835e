#include "runtime/bench/train.h"

#include <errno.h>
#include <stdlib.h>

#include "kernels/model/matmul.h"
#include "runtime/base/begins.h"
#include "runtime/base/error.h"
#include "runtime/bench/bench.h"
#include "runtime/train/loop.h"

struct train {
    ddp_t *d;
    struct train_config c;
    model_t *model;
    const struct loop_param *param;
    size_t n_params;
    int32_t *tokens;     /* [batch, context + 1] */
    float *wide, *narrow; /* train_products' in- and outputs: [rows, widest], made when wanted */
    float *comm;         /* train_comm's: [train_n_elems], made when wanted */
    double first_ready;  /* when the present micro-step's first gradient was complete; 0: none is */
};

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void make_tokens(train_t *t, const uint64_t *sample, size_t n)
{
    size_t length = t->c.model.context + 1, vocab = t->c.model.vocab;
    uint64_t n_tokens = vocab < TRAIN_TOKENS ? vocab : TRAIN_TOKENS;
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < length; i++)
            t->tokens[s * length + i] = (int32_t)(mix(sample[s] * length + i) % n_tokens);
}

static void ready(void *ctx, int id)
{
    train_t *t = ctx;
    if (t->first_ready == 0)
        t->first_ready = bench_now_s();
    ddp_grad_ready(t->d, id);
}

static int load(train_t *t, ddp_error_t *errp)
{
    const char *path = t->c.load;
    FILE *f = fopen(path, "rbe");
    if (!f)
        return error_errno(errp, "--load: %s cannot be read", path);
    bool whole = true;
    for (size_t i = 0; i < t->n_params && whole; i++) {
        struct ddp_param p = ddp_param_get(t->d, (int)i);
        whole = fread(p.value, sizeof(float), p.n_elems, f) == p.n_elems;
    }
    whole = whole && fgetc(f) == EOF;
    fclose(f);
    return whole ? 0 : error_set(errp, DDP_E_DATA, EINVAL, "--load: %s does not hold the %zu float32 weights of this "
                                 "model: take a file that --dump wrote at the same sizes", path, train_n_elems(t));
}

int train_dump(const train_t *t, const char *path, ddp_error_t *errp)
{
    FILE *f = fopen(path, "wbe");
    if (!f)
        return error_errno(errp, "--dump: %s cannot be written", path);
    bool whole = true;
    for (size_t i = 0; i < t->n_params; i++) {
        struct ddp_param p = ddp_param_get(t->d, (int)i);
        whole = whole && fwrite(p.value, sizeof(float), p.n_elems, f) == p.n_elems;
    }
    int closed = fclose(f);
    return whole && closed == 0 ? 0 : error_errno(errp, "--dump: %s cannot be written", path);
}

static struct ddp_param *tensors_of(train_t *t)
{
    struct ddp_param *tensor = calloc(t->n_params, sizeof *tensor);
    for (size_t i = 0; tensor && i < t->n_params; i++)
        tensor[i] = ddp_param_get(t->d, (int)i);
    return tensor;
}

static int open_model(train_t *t, ddp_error_t *errp)
{
    t->model = model_create(&t->c.model, t->c.batch, errp);
    if (!t->model)
        return -1;
    t->param = model_params(t->model, &t->n_params);
    for (size_t i = 0; i < t->n_params; i++)
        ddp_param_add(t->d, t->param[i].name, DDP_F32, t->param[i].shape, t->param[i].ndim, 0);
    if (ddp_commit(t->d, &t->c.optimizer, errp) < 0)
        return -1;
    struct ddp_param *tensor = tensors_of(t);
    t->tokens = calloc(t->c.batch * (t->c.model.context + 1), sizeof *t->tokens);
    int rc = tensor && t->tokens ? model_bind(t->model, tensor, errp)
                                 : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu samples", t->c.batch);
    free(tensor);
    return rc;
}

train_t *train_create(ddp_t *d, const struct train_config *c, ddp_error_t *errp)
{
    train_t *t = calloc(1, sizeof *t);
    if (!t) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a model");
        return NULL;
    }
    t->d = d;
    t->c = *c;
    int rc = open_model(t, errp);
    if (rc == 0 && ddp_world(d)->rank == 0) {
        model_init(t->model, TRAIN_SEED);
        rc = c->load ? load(t, errp) : 0;
    }
    if (rc < 0 || ddp_sync_params(d, errp) < 0 ||
        ddp_data_open(d, TRAIN_SAMPLES, c->batch, c->accum, 0, TRAIN_SEED, errp) < 0) {
        train_destroy(t);
        return NULL;
    }
    return t;
}

void train_destroy(train_t *t)
{
    int saved = errno;
    if (t) {
        model_destroy(t->model);
        free(t->tokens);
        free(t->wide);
        free(t->narrow);
        free(t);
    }
    errno = saved;
}

size_t train_n_elems(const train_t *t)
{
    return model_params_elems(&t->c.model);
}

/* As the loop of runtime/train/loop.c does: a rank may have no sample at an epoch's end. */
static double forward_backward(train_t *t, const struct ddp_batch *b)
{
    if (b->n_samples > 0)
        return model_forward_backward(t->model, t->tokens, b->n_samples, b->grad_scale, ready, t);
    for (size_t id = t->n_params; id > 0; id--)
        ddp_grad_unused(t->d, (int)id - 1);
    t->first_ready = bench_now_s();
    return 0;
}

static int micro_step(train_t *t, bool *ret_sync, struct train_times *times, ddp_error_t *errp)
{
    struct ddp_batch b;
    double start = bench_now_s();
    t->first_ready = 0;
    if (ddp_batch_next(t->d, &b, errp) < 0)
        return -1;
    make_tokens(t, b.sample, b.n_samples);
    double loss = forward_backward(t, &b);
    double computed = bench_now_s();
    if (ddp_backward_end(t->d, loss, b.n_samples * t->c.model.context, errp) < 0)
        return -1;
    double end = bench_now_s();
    *(b.sync ? &times->sync : &times->quiet) = end - start;
    times->backward = computed - t->first_ready;
    times->wait = end - computed;
    *ret_sync = b.sync;
    return 0;
}

/* A micro-step that is compared with another begins when all ranks are there: else who is slow in the ones before would
 * count as communication in the one that sums. */
static int meet(train_t *t, int k, double *time_s, ddp_error_t *errp)
{
    if (t->c.accum < 3 || k < t->c.accum - 2)
        return 0;
    double start = bench_now_s();
    int rc = ddp_barrier(t->d, errp);
    *time_s += bench_now_s() - start;
    return rc;
}

int train_step(train_t *t, struct train_times *ret_times, double *ret_loss, ddp_error_t *errp)
{
    struct ddp_step s;
    struct train_times times = {0};
    double start = bench_now_s(), meeting = 0;
    bool sync = false;
    for (int k = 0; !sync; k++)
        if (meet(t, k, &meeting, errp) < 0 || micro_step(t, &sync, &times, errp) < 0)
            return -1;
    if (ddp_step(t->d, &s, errp) < 0)
        return -1;
    times.step = bench_now_s() - start - meeting;
    *ret_times = times;
    *ret_loss = s.loss;
    return 0;
}

/* The products of one layer from n_in to n_out, as the trainer does them forward and backward, without the biases. */
static void layer_products(train_t *t, size_t rows, size_t n_in, size_t n_out, struct ddp_param w)
{
    kernel_matmul(t->wide, t->narrow, w.value, &(struct matmul){.m = rows, .n = n_out, .k = n_in});
    kernel_matmul(w.grad, t->narrow, t->wide,
                  &(struct matmul){.m = n_in, .n = n_out, .k = rows, .a_transposed = true, .accumulate = true});
    kernel_matmul(t->narrow, t->wide, w.value,
                  &(struct matmul){.m = rows, .n = n_in, .k = n_out, .b_transposed = true});
}

/* As the model's head: the embedding is [vocab, width], used transposed. */
static void head_products(train_t *t, size_t rows, struct ddp_param wte)
{
    size_t v = t->c.model.vocab, w = t->c.model.width;
    kernel_matmul(t->wide, t->narrow, wte.value, &(struct matmul){.m = rows, .n = v, .k = w, .b_transposed = true});
    kernel_matmul(wte.grad, t->wide, t->narrow,
                  &(struct matmul){.m = v, .n = w, .k = rows, .a_transposed = true, .accumulate = true});
    kernel_matmul(t->narrow, t->wide, wte.value, &(struct matmul){.m = rows, .n = w, .k = v});
}

static bool is_linear(const struct loop_param *p)
{
    return p->ndim == 2 && begins(p->name, "h.");
}

int train_products(train_t *t, double *ret_s, ddp_error_t *errp)
{
    size_t rows = t->c.batch * t->c.model.context, widest = 4 * t->c.model.width;
    widest = widest > t->c.model.vocab ? widest : t->c.model.vocab;
    if (!t->wide && (!(t->wide = bench_private(rows * widest * sizeof(float), errp)) ||
                     !(t->narrow = bench_private(rows * widest * sizeof(float), errp))))
        return -1;
    double start = bench_now_s();
    for (int k = 0; k < t->c.accum; k++) {
        for (size_t i = 0; i < t->n_params; i++)
            if (is_linear(&t->param[i]))
                layer_products(t, rows, t->param[i].shape[0], t->param[i].shape[1], ddp_param_get(t->d, (int)i));
        head_products(t, rows, ddp_param_get(t->d, 0));
    }
    *ret_s = bench_now_s() - start;
    return 0;
}

int train_comm(train_t *t, double *ret_s, ddp_error_t *errp)
{
    size_t n = train_n_elems(t);
    if (!t->comm && !(t->comm = ddp_alloc(t->d, n * sizeof(float), errp)))
        return -1;
    if (ddp_barrier(t->d, errp) < 0)
        return -1;
    double start = bench_now_s();
    ddp_work_t *w = ddp_allreduce(t->d, t->comm, n, DDP_F32, DDP_SUM, errp);
    if (!w || ddp_wait(w, errp) < 0)
        return -1;
    *ret_s = bench_now_s() - start;
    return 0;
}
