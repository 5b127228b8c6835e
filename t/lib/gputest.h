/* gputest.h - for tests of kernels/cuda, on the emulator and on a GPU: fresh numbers, guarded device memory, threads in
 * several orders. */
#ifndef DDP_T_LIB_GPUTEST_H
#define DDP_T_LIB_GPUTEST_H

#include "t/unit/unit.h"

/* Seeds draw() and what builds on it (t/lib/floats.h) anew, or with GPU_SEED from the environment, and says with what.
 * A group's setup. */
int gpu_setup(void **state);

/* Where there is no GPU, neither real nor emulated: skips the program. */
void gpu_need(void);

#define GPU_MAIN(tests)                                                                                                \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        gpu_need();                                                                                                    \
        return cmocka_run_group_tests(tests, gpu_setup, NULL);                                                         \
    }

/* Device memory with a copy of from[0..bytes), or of 0xff bytes where from is NULL, `shift` bytes behind a 256-byte
 * boundary, between guards that gpu_free checks (and that AddressSanitizer watches on the emulator). */
void *gpu_new(const void *from, size_t bytes, size_t shift);
void gpu_read(void *to, const void *p, size_t bytes); /* after all that is queued */
void gpu_free(const void *p);

/* Calls f(arg) with threads in forward, reversed and random order; on a GPU once. */
void gpu_each_order(void (*f)(void *arg), void *arg);

/* What is known of a launch that failed; "". */
const char *gpu_error(void);

/* A launch that worked. */
#define assert_launched(call)                                                                                          \
    do {                                                                                                               \
        int launched_ = (call);                                                                                        \
        if (launched_)                                                                                                 \
            fail_msg("%s: cudaError %d: %s", #call, launched_, gpu_error());                                           \
    } while (0)

/* Any bits: numbers of all sizes, and now and then an infinity, a NaN, a subnormal or a zero. */
float random_any(void);

#endif
