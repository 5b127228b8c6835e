#include "runtime/grads/hook.h"

#include "kernels/cast.h"

static void encode_bf16(void *ctx, void *wire, const float *grad, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx, (void)info;
    kernel_store_bf16(wire, grad, n);
}

static void decode_bf16(void *ctx, float *grad, const void *wire, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx, (void)info;
    kernel_load_bf16(grad, wire, n);
}

/* The greatest float16 is 65504: R terms of that size must not overflow. */
static void encode_f16(void *ctx, void *wire, const float *grad, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx;
    kernel_store_f16_scaled(wire, grad, 1 / (float)info->n_ranks, n);
}

static void decode_f16(void *ctx, float *grad, const void *wire, size_t n, const struct ddp_hook_info *info)
{
    (void)ctx;
    kernel_load_f16_scaled(grad, wire, (float)info->n_ranks, n);
}

const char *hook_compress_name(enum compress compress)
{
    static const char *const name[] = {[COMPRESS_NONE] = "none", [COMPRESS_BF16] = "bf16", [COMPRESS_F16] = "f16"};
    return name[compress];
}

void hook_compress(enum compress compress, struct ddp_hook *ret)
{
    if (compress == COMPRESS_BF16)
        *ret = (struct ddp_hook){.wire = DDP_BF16, .encode = encode_bf16, .decode = decode_bf16};
    if (compress == COMPRESS_F16)
        *ret = (struct ddp_hook){.wire = DDP_F16, .encode = encode_f16, .decode = decode_f16};
}
