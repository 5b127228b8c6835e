#include "t/lib/cudaemu/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#if WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
/* Around each switch AddressSanitizer is told which stack comes; the first switch tells the thread's own. */
static thread_local const void *own_stack;
static thread_local size_t own_bytes;
static thread_local void *own_fake_stack;
static void leaving(void **fake_stack, const void *to, size_t bytes)
{
    __sanitizer_start_switch_fiber(fake_stack, to, bytes);
}
static void arrived_in_fiber(void *fake_stack)
{
    __sanitizer_finish_switch_fiber(fake_stack, &own_stack, &own_bytes);
}
static void arrived_back()
{
    __sanitizer_finish_switch_fiber(own_fake_stack, nullptr, nullptr);
}
/* From here to the stack's top are the frames that never return, and would stay poisoned. */
static void will_end(char *top)
{
    char *here = (char *)__builtin_frame_address(0);
    __asan_unpoison_memory_region(here, (size_t)(top - here));
}
#define ASAN(x) x
#else
#define ASAN(x) (void)0
#endif

char *fiber_stack(size_t index)
{
    static thread_local std::vector<char *> stacks;
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    while (stacks.size() <= index) {
        void *p = mmap(nullptr, guard + FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            return nullptr;
        mprotect(p, guard, PROT_NONE);
        stacks.push_back((char *)p + guard);
    }
    return stacks[index];
}

static thread_local void (*starting)(void);

#if defined(__x86_64__)

/* Keeps the registers that a callee must, and the stack pointer in *from; goes on where `to` was left. */
extern "C" void fiber_switch(void **from, void *to);
asm(R"(
    .pushsection .text
    .globl fiber_switch
    .type fiber_switch, @function
fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size fiber_switch, . - fiber_switch
    .popsection
)");

static thread_local void *own_stack_pointer;

static void to_fiber(struct fiber *f)
{
    fiber_switch(&own_stack_pointer, f->stack_pointer);
}

static void to_thread(struct fiber *f)
{
    fiber_switch(&f->stack_pointer, own_stack_pointer);
}

static void prepare(struct fiber *f, void (*entry)(void))
{
    uintptr_t *top = (uintptr_t *)(f->stack + FIBER_STACK_BYTES);
    *--top = 0; /* where a caller's address would be: the stack is aligned as after a call */
    *--top = (uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--top = 0;
    f->stack_pointer = top;
}

#else

static thread_local ucontext_t own_context;

static void to_fiber(struct fiber *f)
{
    swapcontext(&own_context, &f->context);
}

static void to_thread(struct fiber *f)
{
    swapcontext(&f->context, &own_context);
}

static void prepare(struct fiber *f, void (*entry)(void))
{
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = FIBER_STACK_BYTES;
    f->context.uc_link = nullptr;
    makecontext(&f->context, entry, 0);
}

#endif

static void entry()
{
    ASAN(arrived_in_fiber(nullptr));
    starting();
    abort();
}

void fiber_start(struct fiber *f, char *stack, void (*main)(void))
{
    if (!f->has_ended || f->stack != stack)
        ASAN(__asan_unpoison_memory_region(stack, FIBER_STACK_BYTES));
    starting = main;
    f->stack = stack;
    f->has_ended = false;
    f->fake_stack = nullptr;
    prepare(f, entry);
}

void fiber_resume(struct fiber *f)
{
    ASAN(leaving(&own_fake_stack, f->stack, FIBER_STACK_BYTES));
    to_fiber(f);
    ASAN(arrived_back());
}

void fiber_suspend(struct fiber *f)
{
    ASAN(leaving(&f->fake_stack, own_stack, own_bytes));
    to_thread(f);
    ASAN(arrived_in_fiber(f->fake_stack));
}

void fiber_end(struct fiber *f)
{
    f->has_ended = true;
    ASAN(will_end(f->stack + FIBER_STACK_BYTES));
    ASAN(leaving(nullptr, own_stack, own_bytes));
    to_thread(f);
    abort();
}
