/* copy.h - copies a rank's pieces to its snapshot, with their checksums. */
#ifndef DDP_RUNTIME_CKPT_COPY_H
#define DDP_RUNTIME_CKPT_COPY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/snapshot.h"
#include "runtime/ckpt/writer.h"

struct copy_job {
    const struct snapshot *plan;
    const struct writer_source *source; /* fetch NULL: none */
    size_t n_tensors;
    const atomic_bool *is_leaving; /* once it is set the copy ends early, and is of use to nobody */
};

/* To memory[0..plan->n_bytes), aligned to SNAPSHOT_ALIGN. sum[n_tensors]: of this rank's blocks (checksum.h). -1: the
 * source has failed. */
int copy_pieces(const struct copy_job *job, char *memory, uint64_t *sum, ddp_error_t *errp);

#endif
