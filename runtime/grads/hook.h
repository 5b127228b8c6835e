/* hook.h - the hooks that libddp has itself: gradients are reduced as 16-bit numbers. Pure. */
#ifndef DDP_RUNTIME_GRADS_HOOK_H
#define DDP_RUNTIME_GRADS_HOOK_H

#include "runtime/ddp.h"

enum compress { COMPRESS_NONE, COMPRESS_BF16, COMPRESS_F16 };

/* "none", "bf16" or "f16", the option's values. */
const char *hook_compress_name(enum compress compress);

/* Fills *ret for bf16 and f16; leaves *ret as it is for none. */
void hook_compress(enum compress compress, struct ddp_hook *ret);

#endif
