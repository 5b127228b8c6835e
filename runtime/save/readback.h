/* readback.h - a checkpoint's source (ckpt/writer.h) on a GPU: chunks of its memory come through two buffers of pinned
 * memory, on a stream of their own, beside what the GPU computes. */
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

/* d is borrowed until readback_close, which takes a zeroed struct, too; each chunk is waited for timeout_s at most. */
int readback_open(struct readback *r, device_t *d, double timeout_s, ddp_error_t *errp);
void readback_close(struct readback *r);

/* What is fetched from now on is as it is after all that s was asked so far. Before writer_start. */
int readback_after(struct readback *r, device_stream_t *s, ddp_error_t *errp);

/* r is borrowed. */
struct writer_source readback_source(struct readback *r);

#endif
