/* parts_gpu.h - a GPU's clock for parts.h: marks are timed events in the program's stream. */
#ifndef DDP_RUNTIME_PARTS_GPU_H
#define DDP_RUNTIME_PARTS_GPU_H

#include "runtime/device/device.h"
#include "runtime/parts.h"

struct parts_gpu {
    struct parts_clock clock;
    device_t *device;
    device_stream_t *program;
    device_event_t *event[PARTS_MARKS]; /* each made when it is first recorded */
};

/* Both stay the caller's, and outlive it. *g stays where it is. */
void parts_gpu_open(struct parts_gpu *g, device_t *device, device_stream_t *program);
void parts_gpu_close(struct parts_gpu *g);

#endif
