#include "kernels/model/attention.h"

#include <math.h>

#include "kernels/model/cpu/attention_impl.h"
#include "kernels/model/cpu/gemm.h"
#include "kernels/model/cpu/pool.h"

struct job {
    float *out, *stats, *work, *dqkv;
    const float *qkv, *dout;
    const struct attention_shape *s;
};

/* Per worker. */
static size_t work_elems(const struct attention_shape *s)
{
    return 2 * QUERY_TILE * head_ldp(s->length) + (gemm_work(0) ? attention_own_panel_elems(s) : 0);
}

size_t kernel_attention_work_elems(const struct attention_shape *s)
{
    return (size_t)pool_threads() * work_elems(s);
}

size_t kernel_attention_stats_elems(const struct attention_shape *s)
{
    return 2 * s->batch * s->heads * s->length;
}

static struct head head_of(const struct job *j, size_t task, int worker)
{
    const struct attention_shape *s = j->s;
    size_t b = task / s->heads, h = task % s->heads, w = s->width, size = w / s->heads, len = s->length;
    size_t in = b * len * 3 * w + h * size, out = b * len * w + h * size;
    struct head a = {.size = size, .length = len, .ld = 3 * w, .ld_out = w, .ldp = head_ldp(len),
                     .scale = 1.0f / sqrtf((float)size)};
    a.q = j->qkv + in;
    a.k = a.q + w;
    a.v = a.k + w;
    a.max = j->stats + task * 2 * len;
    a.inv = a.max + len;
    a.p = j->work + (size_t)worker * work_elems(s);
    a.dp = a.p + QUERY_TILE * a.ldp;
    a.panels = a.dp + QUERY_TILE * a.ldp;
    if (j->dqkv) {
        a.dq = j->dqkv + in;
        a.dk = a.dq + w;
        a.dv = a.dk + w;
        a.dout = j->dout + out;
    } else {
        a.out = j->out + out;
    }
    return a;
}

static void forward_head(void *arg, size_t task, int worker)
{
    struct head a = head_of(arg, task, worker);
    if (gemm_work(0))
        attention_own_forward(&a);
    else
        attention_blas_forward(&a);
}

static void backward_head(void *arg, size_t task, int worker)
{
    struct head a = head_of(arg, task, worker);
    if (gemm_work(0))
        attention_own_backward(&a);
    else
        attention_blas_backward(&a);
}

void kernel_attention_forward(float *out, float *stats, const float *qkv, float *work, const struct attention_shape *s)
{
    struct job j = {.out = out, .stats = stats, .qkv = qkv, .work = work, .s = s};
    pool_run(s->batch * s->heads, forward_head, &j);
}

void kernel_attention_backward(float *dqkv, const float *dout, const float *qkv, const float *stats, float *work,
                               const struct attention_shape *s)
{
    struct job j = {.dqkv = dqkv, .dout = dout, .qkv = qkv, .stats = (float *)stats, .work = work, .s = s};
    pool_run(s->batch * s->heads, backward_head, &j);
}
