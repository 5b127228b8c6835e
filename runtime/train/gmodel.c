#include "runtime/train/gmodel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/model/cuda/layernorm.h"
#include "runtime/base/clock.h"
#include "runtime/train/gmodel_impl.h"

#define LEAVE_S 10.0 /* for what is under way when the model goes */

int gmodel_check(const struct model_config *c, enum ddp_dtype dtype, ddp_error_t *errp)
{
    if (model_params_check(c, errp) < 0)
        return -1;
    if (dtype != DDP_F32 && c->width != c->heads * CUDA_ATTENTION_HEAD)
        return error_set(errp, DDP_E_USAGE, EINVAL, "%s on a GPU needs heads of %d, and --width=%zu over --heads=%zu "
                         "are %zu each: take other heads, or --dtype=f32", dtype_name(dtype), CUDA_ATTENTION_HEAD,
                         c->width, c->heads, c->width / c->heads);
    if (dtype == DDP_F32 && c->context > CUDA_ATTENTION_F32_LENGTH)
        return error_set(errp, DDP_E_USAGE, EINVAL, "f32 on a GPU has contexts up to %d, and --context=%zu is longer: "
                         "take a smaller one, or --dtype=bf16", CUDA_ATTENTION_F32_LENGTH, c->context);
    if (c->width > CUDA_LAYERNORM_WIDTH_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "a GPU has widths up to %d, and --width=%zu is more: take a "
                         "smaller one", CUDA_LAYERNORM_WIDTH_MAX, c->width);
    return 0;
}

/* The embedding has rows of zeros behind it, for the head's products (gmodel_pass.c). Kept in 16 bits are matrices that
 * are factors of products, and the bias that is added in that type: all but FC_B, which gelu adds in float32, and those
 * that are added to the residual stream. */
static void mark_factors(gmodel_t *m)
{
    unsigned flag = m->c.dtype == DDP_F16 ? DDP_KEEP_F16 : DDP_KEEP_BF16;
    m->param[WTE].flags |= DDP_PAD_ROWS;
    if (!is_16_bit(m))
        return;
    m->param[WTE].flags |= flag;
    for (size_t l = 0; l < m->c.model.layers; l++) {
        static const int kept[] = {QKV_W, QKV_B, OUT_W, FC_W, PROJ_W};
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            m->param[block_id(l, kept[i])].flags |= flag;
    }
}

static int open_gpu(gmodel_t *m, ddp_error_t *errp)
{
    m->device = device_open(m->c.ordinal, m->c.rank, errp);
    if (!m->device || device_memory_free(m->device, &m->memory_free, errp) < 0)
        return -1;
    m->stream = device_stream_create(m->device, DEVICE_NORMAL, errp);
    m->copies = m->stream ? device_stream_create(m->device, DEVICE_NORMAL, errp) : NULL;
    return m->copies ? 0 : -1;
}

static int open_blas(gmodel_t *m, ddp_error_t *errp)
{
    m->workspace = device_malloc(m->device, CUDA_BLAS_WORKSPACE, "matrix products", errp);
    if (!m->workspace)
        return -1;
    m->blas = cuda_blas_create(m->workspace, CUDA_BLAS_WORKSPACE, errp);
    if (!m->blas)
        return error_prefix(errp, "rank %d", m->c.rank);
    return 0;
}

/* They make a difference to the bits, and so are named. */
static void choose_products(gmodel_t *m)
{
    const struct device_info *i = device_info(m->device);
    bool wgmma = m->c.wgmma && is_16_bit(m) && cuda_attention_has_wgmma(i->major, i->minor);
    m->attention = wgmma ? CUDA_ATTENTION_WGMMA : CUDA_ATTENTION_MMA;
    snprintf(m->products, sizeof m->products, "%s %s%s", cuda_blas_name(m->blas), dtype_name(m->c.dtype),
             wgmma ? ", wgmma" : "");
}

gmodel_t *gmodel_create(const struct gmodel_config *c, ddp_error_t *errp)
{
    if (gmodel_check(&c->model, c->dtype, errp) < 0)
        return NULL;
    gmodel_t *m = calloc(1, sizeof *m);
    if (!m)
        goto no_memory;
    m->c = *c;
    m->n_params = model_params_count(&c->model);
    m->param = model_params_create(&c->model);
    m->tensor = calloc(m->n_params, sizeof *m->tensor);
    m->layer = calloc(c->model.layers, sizeof *m->layer);
    if (!m->param || !m->tensor || !m->layer)
        goto no_memory;
    mark_factors(m);
    if (open_gpu(m, errp) == 0 && open_blas(m, errp) == 0) {
        choose_products(m);
        return m;
    }
    gmodel_destroy(m);
    return NULL;
no_memory:
    error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a model of %zu layers", c->model.layers);
    gmodel_destroy(m);
    return NULL;
}

/* What is freed below waits for the GPU, without a deadline; a stream that is late breaks the device, and then nothing
 * of it is freed. */
static void wait_for_all(gmodel_t *m)
{
    device_stream_t *const all[] = {m->stream, m->copies};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            device_stream_wait(all[i], deadline_in(LEAVE_S), NULL, NULL, NULL);
}

void gmodel_destroy(gmodel_t *m)
{
    int saved = errno;
    if (m) {
        wait_for_all(m);
        if (m->device)
            copies_destroy(m);
        cuda_blas_destroy(m->blas, m->device && device_is_broken(m->device));
        device_stream_destroy(m->copies);
        device_stream_destroy(m->stream);
        device_free(m->device, m->workspace);
        device_free(m->device, m->arena);
        device_close(m->device);
        free(m->param);
        free(m->tensor);
        free(m->layer);
        free(m);
    }
    errno = saved;
}

const struct loop_param *gmodel_params(const gmodel_t *m, size_t *ret_n)
{
    *ret_n = m->n_params;
    return m->param;
}

void *gmodel_stream(const gmodel_t *m)
{
    return device_native_stream(m->stream);
}

const char *gmodel_products(const gmodel_t *m)
{
    return m->products;
}

size_t gmodel_memory_free(const gmodel_t *m)
{
    return m->memory_free;
}

size_t gmodel_activation_bytes(const struct gmodel_config *c)
{
    struct glayer *layer = calloc(c->model.layers, sizeof *layer);
    gmodel_t m = {.c = *c, .layer = layer};
    size_t n = layer ? gmodel_deal(&m, NULL) : 0;
    free(layer);
    return n ? n + CUDA_BLAS_WORKSPACE : 0;
}

static int check_tensors(const gmodel_t *m, ddp_error_t *errp)
{
    for (size_t id = 0; id < m->n_params; id++)
        if ((m->param[id].flags & (DDP_KEEP_BF16 | DDP_KEEP_F16)) && m->tensor[id].copy_dtype != m->c.dtype)
            return error_set(errp, DDP_E_USAGE, EINVAL, "parameter %s has no values in %s", m->param[id].name,
                             dtype_name(m->c.dtype));
    return 0;
}

int gmodel_bind(gmodel_t *m, const struct ddp_param *tensor, ddp_error_t *errp)
{
    size_t bytes = gmodel_deal(m, NULL);
    memcpy(m->tensor, tensor, m->n_params * sizeof *tensor);
    m->arena = check_tensors(m, errp) == 0 ? device_malloc(m->device, bytes, "activations", errp) : NULL;
    if (!m->arena)
        return -1;
    gmodel_deal(m, m->arena);
    return copies_create(m, errp);
}
