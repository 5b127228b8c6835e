/* fiber.h - a second flow of control with a stack of its own, in one thread. */
#ifndef DDP_T_LIB_CUDAEMU_FIBER_H
#define DDP_T_LIB_CUDAEMU_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

enum { FIBER_STACK_BYTES = 256 * 1024 }; /* with a guard page below it; pages are taken as they are touched */

struct fiber {
#if defined(__x86_64__)
    void *stack_pointer; /* while it is not running */
#else
    ucontext_t context;
#endif
    char *stack;
    void *fake_stack; /* AddressSanitizer's */
    bool has_ended;   /* so AddressSanitizer lets the stack be used again */
};

/* n stacks, kept for the process's life and extended as needed; NULL: no memory. */
char *fiber_stack(size_t index);

/* The fiber runs main() from its first fiber_resume on; main never returns. What the stack held is forgotten. */
void fiber_start(struct fiber *f, char *stack, void (*main)(void));

/* From the thread's own stack to the fiber, until it calls fiber_suspend. */
void fiber_resume(struct fiber *f);
void fiber_suspend(struct fiber *f);

/* The last words of a fiber: suspends it for good. */
[[noreturn]] void fiber_end(struct fiber *f);

#endif
