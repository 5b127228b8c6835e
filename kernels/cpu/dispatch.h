/* dispatch.h - one source for several vector widths. A function marked CPU_DISPATCH is compiled for AVX-512, AVX2 and
 * the baseline, and the loader chooses a clone once per process. All clones give the same bits: they are compiled
 * without contraction (-ffp-contract=off), and only loops whose elements do not depend on each other are marked.
 *
 * CPU_DISPATCH is empty where the loader cannot choose: on other processors, in builds with sanitizers (their runtime
 * is not initialised when the loader calls the resolvers), and with Clang before 18, which names the clones so that
 * other files do not find them. */
#ifndef DDP_KERNELS_CPU_DISPATCH_H
#define DDP_KERNELS_CPU_DISPATCH_H

#if HAVE_CONFIG_H
#include "config.h"
#endif

#if defined(__x86_64__) && defined(__linux__) && !defined(DDP_SANITIZED) && !defined(__SANITIZE_THREAD__) &&           \
    !(defined(__clang__) && __clang_major__ < 18)
#define CPU_DISPATCH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CPU_DISPATCH
#endif

#endif
