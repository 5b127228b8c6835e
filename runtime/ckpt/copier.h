/* copier.h - a thread that copies a rank's pieces to a snapshot beside the next forward and backward pass, as writer.h
 * does for a checkpoint, and writes nothing. */
#ifndef DDP_RUNTIME_CKPT_COPIER_H
#define DDP_RUNTIME_CKPT_COPIER_H

#include <stddef.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/snapshot.h"
#include "runtime/ckpt/writer.h"

typedef struct copier copier_t;

/* source, which is copied, is as in writer_create. plan and the source's ctx are borrowed until copier_destroy. */
copier_t *copier_create(const struct snapshot *plan, size_t n_tensors, const struct writer_source *source,
                        ddp_error_t *errp);
void copier_destroy(copier_t *c); /* NULL is allowed; a copy that goes on is ended, and is of use to nobody */

/* Begins a copy, with none going on: from here until copier_wait the pieces must not change. `copied` is called, by the
 * thread, where the source has not failed. */
void copier_start(copier_t *c, const struct writer_target *target);

void copier_wait(copier_t *c); /* until no copy goes on */

/* Seconds that the last copy has taken from a processor; after copier_wait. */
double copier_cpu_s(const copier_t *c);

#endif
