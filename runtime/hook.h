/* hook.h - the hooks that libddp brings: gradients that travel in 16 bits. Pure. */
#ifndef DDP_RUNTIME_HOOK_H
#define DDP_RUNTIME_HOOK_H

#include "runtime/config.h"
#include "runtime/ddp.h"

/* Fills *ret for bf16 and f16; leaves it as it is for none. */
void hook_compress(enum config_compress compress, struct ddp_hook *ret);

#endif
