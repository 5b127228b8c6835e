/* machine.h - what bits may depend on, for the manifest of a checkpoint. */
#ifndef DDP_RUNTIME_MACHINE_H
#define DDP_RUNTIME_MACHINE_H

#include <stddef.h>

void machine_cpu(char *ret, size_t size); /* "AMD EPYC 9B14"; "" where it is not known */
const char *machine_kernels(void);        /* vector width of libddp's loops (kernels/cpu/dispatch.h): "AVX-512" */

#endif
