/* gmodel_stub.c - in place of gmodel*.c in a build without CUDA's runtime. */
#include <errno.h>

#include "runtime/train/gmodel.h"

static int refuse(ddp_error_t *errp)
{
    return error_set(errp, DDP_E_USAGE, ENOTSUP, "this build has no model for GPUs: build it where nvcc and "
                     "libcudart_static are, or say --device=cpu");
}

int gmodel_check(const struct model_config *c, enum ddp_dtype dtype, ddp_error_t *errp)
{
    (void)c, (void)dtype;
    return refuse(errp);
}

gmodel_t *gmodel_create(const struct gmodel_config *c, ddp_error_t *errp)
{
    (void)c;
    refuse(errp);
    return NULL;
}

void gmodel_destroy(gmodel_t *m)
{
    (void)m;
}

const struct loop_param *gmodel_params(const gmodel_t *m, size_t *ret_n)
{
    (void)m;
    *ret_n = 0;
    return NULL;
}

void *gmodel_stream(const gmodel_t *m)
{
    (void)m;
    return NULL;
}

const char *gmodel_products(const gmodel_t *m)
{
    (void)m;
    return "none";
}

size_t gmodel_memory_free(const gmodel_t *m)
{
    (void)m;
    return 0;
}

size_t gmodel_activation_bytes(const struct gmodel_config *c)
{
    (void)c;
    return 0;
}

int gmodel_bind(gmodel_t *m, const struct ddp_param *tensor, ddp_error_t *errp)
{
    (void)m, (void)tensor;
    return refuse(errp);
}

int gmodel_forward_backward(gmodel_t *m, const int32_t *tokens, size_t n, float grad_scale, loop_ready_f *ready,
                            void *ctx, double *ret_loss_sum, ddp_error_t *errp)
{
    (void)m, (void)tokens, (void)n, (void)grad_scale, (void)ready, (void)ctx, (void)ret_loss_sum;
    return refuse(errp);
}

int gmodel_evaluate(gmodel_t *m, const int32_t *tokens, size_t n, double *ret_loss_sum, ddp_error_t *errp)
{
    (void)m, (void)tokens, (void)n, (void)ret_loss_sum;
    return refuse(errp);
}
