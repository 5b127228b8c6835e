/* memory.c - the double's "device memory": pages at addresses of their own, with one behind that nobody may touch. */
#include <config.h> /* MAP_FIXED_NOREPLACE */

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "t/lib/cudaemu/foreign.h"
#include "t/lib/nccldouble/double.h"

enum { PAGE = 65536 }; /* or smaller: what is protected begins and ends with one */

struct head { /* before the memory */
    size_t n_bytes; /* of all pages */
};

void *memory_take(size_t n)
{
    static _Atomic uintptr_t next = CUDAEMU_FOREIGN_BASE;
    size_t inside = PAGE + (n + PAGE - 1) / PAGE * PAGE, all = inside + PAGE;
    void *want = (void *)atomic_fetch_add(&next, all);
    char *p = mmap(want, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    mprotect(p + inside, PAGE, PROT_NONE);
    ((struct head *)(void *)p)->n_bytes = all;
    memset(p + PAGE, 0xff, inside - PAGE); /* NaNs, as device memory may hold */
    return p + PAGE;
}

void memory_give(void *p)
{
    char *head = (char *)p - PAGE;
    if (p)
        munmap(head, ((struct head *)(void *)head)->n_bytes);
}
