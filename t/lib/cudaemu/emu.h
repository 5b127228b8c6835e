/* emu.h - what a test sees of the CUDA emulator. (What a kernel sees is cudaemu.h, what host code sees is runtime.h.)
 *
 * A launch runs when its stream comes to it (script.h; at once, unless asked otherwise), in the thread that brings it
 * there: block after block, a block's threads as fibers, each until it ends or waits at a barrier or for its warp.
 * A kernel may use any memory. A thread sees only what was really written: shared memory holds 0xff bytes (NaN in every
 * floating type) when a block begins, and cp_async's copies are made at the wait, no sooner.
 *
 * A launch fails (cudaErrorLaunchFailure; emu_error() says what and where), and the rest of it does not run, when
 * - a barrier is not reached by all threads of the block, or by some elsewhere in the source;
 * - a warp's operation is not reached by all lanes of its mask with the same mask, or reads a lane outside of it;
 * - an address for ldmatrix or cp_async is not aligned;
 * - its shared memory is more than every GPU has: 48 KiB, 99 KiB where the kernel asked for more.
 * Out of bounds and misaligned accesses are left to -fsanitize=address and -fsanitize=alignment. The emulator does not
 * know how fast a kernel is, nor what two blocks do to each other at one time. */
#ifndef DDP_T_LIB_CUDAEMU_EMU_H
#define DDP_T_LIB_CUDAEMU_EMU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Who runs next, of those who can: the lowest thread, the highest, or a random one; blocks likewise. */
enum emu_order { EMU_FORWARD, EMU_REVERSED, EMU_RANDOM };

/* For the launches that follow. At first EMU_FORWARD. */
void emu_set_order(enum emu_order order, uint64_t seed);

/* What went wrong in the last launch; "" when nothing did. */
const char *emu_error(void);

#ifdef __cplusplus
}
#endif
#endif
