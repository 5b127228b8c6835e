/* devicerig.h - the devices that t/unit/device/device.c tests: emulated GPUs (make check), or a GPU (make
 * gpu-tests). */
#ifndef DDP_T_LIB_DEVICERIG_H
#define DDP_T_LIB_DEVICERIG_H

#include "runtime/device/device.h"

#ifdef DDP_CUDA_EMULATED
enum { RIG_GPU, RIG_LATE_GPU /* work is done when it is waited for */, RIG_COUNT };
#define RIG_BYTES 1000
#else
enum { RIG_GPU, RIG_COUNT };
#define RIG_BYTES ((size_t)16 << 20) /* so that streams are really late */
#endif

/* Where there is no GPU, neither real nor emulated: skips the program. */
void rig_need(void);

/* Opened for rank 3; a failure ends the test. Closed by rig_close, which wants all that the test made to be gone. */
device_t *rig_open(int which);
void rig_close(device_t *d);

#endif
