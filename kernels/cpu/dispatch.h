/* dispatch.h - one build for every x86-64: a function marked KERNEL_CLONES is compiled for three levels, and the loader
 * picks one. With -ffp-contract=off and fixed lanes in reductions every level gives the same bits.
 *
 * Empty on other machines, and under sanitizers (the loader would run instrumented code before their start-up). */
#ifndef DDP_KERNELS_CPU_DISPATCH_H
#define DDP_KERNELS_CPU_DISPATCH_H

#include "config.h"

#if defined __x86_64__ && !defined DDP_SANITIZED
#define KERNEL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KERNEL_CLONES
#endif

#endif
