/* readback.h - a checkpoint's source (ckpt/writer.h) on a GPU: chunks of the GPU's memory are copied through two
 * buffers of pinned memory, on a stream of its own, while the GPU computes. */
#ifndef DDP_RUNTIME_SAVE_READBACK_H
#define DDP_RUNTIME_SAVE_READBACK_H

#include "runtime/ckpt/writer.h"
#include "runtime/device/device.h"

struct readback {
    device_stream_t *stream;
    device_event_t *begin, *come[2];
    void *buffer[2]; /* [WRITER_CHUNK_BYTES] */
    device_t *device;
    double timeout_s;
};

#define READBACK_BYTES (2 * WRITER_CHUNK_BYTES) /* of pinned memory */

/* d is borrowed until readback_close, which accepts a zeroed struct, too. The wait for a chunk takes timeout_s at
 * most. */
int readback_open(struct readback *r, device_t *d, double timeout_s, ddp_error_t *errp);
void readback_close(struct readback *r);

/* Makes chunks that are fetched from now on wait for the work that s holds now. Call it before writer_start. */
int readback_after(struct readback *r, device_stream_t *s, ddp_error_t *errp);

/* r is borrowed. */
struct writer_source readback_source(struct readback *r);

#endif
