/* memboot.h - a boot (pmix/boot.h) within one test: ranks are forked processes, or threads, over one shared mapping. */
#ifndef DDP_T_LIB_MEMBOOT_H
#define DDP_T_LIB_MEMBOOT_H

#include "pmix/boot_impl.h"

struct memboot; /* shared; made before the ranks are forked */

struct memboot *memboot_create(int size);
void memboot_destroy(struct memboot *m);
boot_t *memboot_open(struct memboot *m, int rank); /* closed by boot_leave */

#endif
