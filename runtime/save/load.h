/* load.h - parameters' values from safetensors that anybody wrote: a released model, or a checkpoint's. */
#ifndef DDP_RUNTIME_SAVE_LOAD_H
#define DDP_RUNTIME_SAVE_LOAD_H

#include "runtime/base/error.h"

struct save;

/* Implements ddp_load (ddp.h). Collective. */
int load_values(struct save *save, const char *dir, const char *prefix, ddp_error_t *errp);

#endif
