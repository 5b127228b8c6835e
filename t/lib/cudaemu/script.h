/* script.h - the emulated CUDA runtime for machines without a GPU: the functions of runtime.h over the processor's
 * memory, with faults on request. Where CUDA's own headers are there it is compiled against them, so that the
 * prototypes are the real ones.
 *
 * It is scripted by the environment, read at the first call and by cudaemu_reset:
 *   EMU_DEVICES=N     so many GPUs (1); 0: cudaGetDeviceCount fails as on a machine without a driver (35)
 *   EMU_NAME=TEXT     what each calls itself (NVIDIA H200)
 *   EMU_SAME=1        all have one PCI bus id and UUID, as two names for one GPU
 *   EMU_MEMORY=BYTES  each GPU's memory (1 GiB); cudaMalloc beyond it: cudaErrorMemoryAllocation
 *   EMU_DRIVER=V      cudaDriverGetVersion (13000); 0: no driver; less than the runtime's (13000): every GPU call fails
 *                     with 35
 *   EMU_STREAMS=M     now: work is done when it is asked for (default); deferred: one piece of it for each query of its
 *                     stream or of an event on it, all of it at a synchronisation, so that a missing one shows; so is
 *                     cudaMemcpy to device memory, but from pinned memory;
 *                     stuck: never
 *   EMU_FAIL=CALL:N:ERROR[,...]  the Nth call of CALL ("*": of any) fails with ERROR, a number; an error from which
 *                     CUDA does not recover then comes from every later call; -1: it never returns
 * As CUDA does: cudaMalloc'ed memory holds no zeros (0xff, which are NaNs), copies check which side is whose and where
 * memory ends, an error stays for cudaGetLastError until it is asked for, each thread has its own device and last
 * error. As CUDA does not: device memory can be read directly, and one thread at a time is at work, that on streams
 * included. */
#ifndef DDP_T_LIB_CUDAEMU_SCRIPT_H
#define DDP_T_LIB_CUDAEMU_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For doubles of CUDA's libraries, which are shared and opened at run time: link the program that opens one with
 * $(EMU_EXPORTS). */
#define CUDAEMU_EXPORT __attribute__((visibility("default")))

/* Forgets all: counts of calls, errors, what is not freed (which it frees); reads the environment again. */
void cudaemu_reset(void);

/* Asks stream (a cudaStream_t; NULL: the default one) for run(arg): how a kernel is launched. A cudaError_t. In mode
 * deferred arg must live until then. */
CUDAEMU_EXPORT int cudaemu_enqueue(void *stream, void (*run)(void *arg), void *arg);

/* Does p[0..n) lie in one allocation of a GPU's memory? */
CUDAEMU_EXPORT bool cudaemu_is_device(const void *p, size_t n);

bool cudaemu_is_deferred(void);

/* A launch, or the work itself, failed: the error is there for cudaGetLastError, or comes from every later call,
 * where it is one from which CUDA does not recover. Returns it. */
int cudaemu_raise(int error);

/* What a leak leaves. */
struct cudaemu_live {
    size_t device_bytes;
    int allocations, host_allocations, streams, events; /* not freed */
};
struct cudaemu_live cudaemu_live(void);

/* What cudaGetLastError would say, left there. */
int cudaemu_last_error(void);

/* The priority that the stream was created with. */
int cudaemu_priority(const void *stream);

/* Calls of the function so far. */
int cudaemu_calls(const char *name);

#ifdef __cplusplus
}
#endif

#endif
