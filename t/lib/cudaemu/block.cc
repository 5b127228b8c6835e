/* A block runs as a loop: take a thread that can run, let it run until it ends or waits; then see whether what it waits
 * for is complete, so that those who wait with it can run again. When none can run, all have ended, or something is
 * wrong. */
#include "t/lib/cudaemu/block.h"

#include <stdarg.h>
#include <stdio.h>

thread_local emu_block emu_now;

const char *emu_op_name(enum emu_op op)
{
    static const char *const names[] = {"__syncthreads",  "__syncwarp",    "a shuffle",   "__ballot_sync",
                                        "mma_bf16_16816", "mma_f16_16816", "ldmatrix_x4", "ldmatrix_x4_trans",
                                        "wgmma_fence",    "a wgmma",       "wgmma_commit", "wgmma_wait"};
    return names[op];
}

void emu_complain(const emu_thread *t, const char *format, ...)
{
    char *text = emu_now.error;
    size_t size = sizeof emu_now.error;
    if (*text)
        return;
    int n = snprintf(text, size, "%s: block (%u, %u, %u), thread (%u, %u, %u) ", emu_now.kernel, blockIdx.x, blockIdx.y,
                     blockIdx.z, t->index.x, t->index.y, t->index.z);
    va_list args;
    va_start(args, format);
    if (n >= 0 && (size_t)n < size)
        vsnprintf(text + n, size - (size_t)n, format, args);
    va_end(args);
}

uint64_t emu_draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return *seed >> 33;
}

static void set_can_run(unsigned warp, uint32_t lanes)
{
    emu_now.can_run[warp] |= lanes;
    if (emu_now.can_run[warp])
        emu_now.warps_can_run |= 1u << warp;
}

static int pick(uint32_t set, enum emu_order order, uint64_t *seed)
{
    if (order == EMU_FORWARD)
        return __builtin_ctz(set);
    if (order == EMU_REVERSED)
        return 31 - __builtin_clz(set);
    for (unsigned skip = (unsigned)(emu_draw(seed) % (unsigned)__builtin_popcount(set)); skip; skip--)
        set &= set - 1;
    return __builtin_ctz(set);
}

/* ---- within a thread ---- */

static void thread_main()
{
    (*emu_now.call)();
    emu_thread *t = emu_now.running;
    t->ended = true;
    fiber_end(&t->fiber);
}

void emu_together(struct emu_wait *w)
{
    emu_thread *t = emu_now.running;
    t->wait = w;
    fiber_suspend(&t->fiber);
}

void *emu_shared_add(const void *key, size_t bytes, unsigned align)
{
    uint32_t address = (emu_now.shared_top + align - 1) / align * align;
    void *p = aligned_alloc(align, (bytes + align) / align * align); /* of 0 bytes, too */
    emu_now.arrays.push_back({key, p, bytes, address});
    emu_now.shared_top = address + (uint32_t)bytes;
    return p;
}

void *emu_shared_array(const void *key, size_t bytes, unsigned align)
{
    size_t total = bytes;
    for (const emu_array &a : emu_now.arrays) {
        if (a.key == key)
            return a.bytes;
        total += a.n_bytes;
    }
    if (total > emu_now.shared_limit) {
        emu_complain(emu_now.running, "asks for %zu bytes of shared memory, more than a block's %zu", total,
                     emu_now.shared_limit);
        fiber_suspend(&emu_now.running->fiber);
    }
    return memset(emu_shared_add(key, bytes, align), 0xff, bytes);
}

uint32_t shared_address(const void *p)
{
    for (const emu_array &a : emu_now.arrays)
        if ((const char *)p >= (const char *)a.bytes && (const char *)p < (const char *)a.bytes + a.n_bytes)
            return a.address + (uint32_t)((const char *)p - (const char *)a.bytes);
    emu_complain(emu_now.running, "asks for the shared address of something else");
    fiber_suspend(&emu_now.running->fiber);
    return 0;
}

void *emu_shared_dynamic()
{
    return emu_shared_array(nullptr, 0);
}

/* ---- between threads ---- */

static void release_block()
{
    for (unsigned i = 0; i < emu_now.n_threads; i++) {
        emu_now.thread[i].wait = nullptr;
        set_can_run(i / EMU_WARP, 1u << i % EMU_WARP);
    }
    emu_now.n_waiting = 0;
}

static bool same_line(const emu_wait *a, const emu_wait *b)
{
    return a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0);
}

static int at_barrier(const emu_thread *t)
{
    if (++emu_now.n_waiting < emu_now.n_threads)
        return 0;
    for (unsigned i = 0; i < emu_now.n_threads; i++) {
        const emu_thread *other = &emu_now.thread[i];
        if (!same_line(other->wait, t->wait)) {
            emu_complain(t, "waits at __syncthreads in %s:%d, and thread (%u, %u, %u) at another, in %s:%d",
                         t->wait->file, t->wait->line, other->index.x, other->index.y, other->index.z,
                         other->wait->file, other->wait->line);
            return -1;
        }
    }
    if (emu_wgmma_meet() < 0)
        return -1;
    release_block();
    return 0;
}

static bool same_place(const emu_wait *a, const emu_wait *b)
{
    return a->op == b->op && a->mask == b->mask && same_line(a, b);
}

static int at_warp(emu_thread *t, unsigned warp, unsigned lane)
{
    emu_thread *first = &emu_now.thread[warp * EMU_WARP];
    uint32_t mask = t->wait->mask;
    if (!(mask >> lane & 1)) {
        emu_complain(t, "comes to %s in %s:%d with mask 0x%08x, which lacks its own lane %u", emu_op_name(t->wait->op),
                     t->wait->file, t->wait->line, mask, lane);
        return -1;
    }
    emu_now.at_warp[warp] |= 1u << lane;
    if (mask & ~emu_now.at_warp[warp])
        return 0;
    for (uint32_t left = mask; left; left &= left - 1)
        if (!same_place(first[__builtin_ctz(left)].wait, t->wait))
            return 0;
    emu_now.running = t;
    if (emu_warp_do(first) < 0)
        return -1;
    for (uint32_t left = mask; left; left &= left - 1)
        first[__builtin_ctz(left)].wait = nullptr;
    emu_now.at_warp[warp] &= ~mask;
    set_can_run(warp, mask);
    return 0;
}

static int at_group(emu_thread *t, unsigned warp)
{
    unsigned group = warp * EMU_WARP / EMU_GROUP;
    emu_thread *first = &emu_now.thread[group * EMU_GROUP];
    if ((group + 1) * EMU_GROUP > emu_now.n_threads) {
        emu_complain(t, "comes to %s in %s:%d, and its warpgroup lacks warps", emu_op_name(t->wait->op), t->wait->file,
                     t->wait->line);
        return -1;
    }
    if (++emu_now.at_group[group] < EMU_GROUP)
        return 0;
    for (unsigned i = 0; i < EMU_GROUP; i++)
        if (!same_place(first[i].wait, t->wait))
            return 0;
    emu_now.at_group[group] = 0;
    if (emu_group_do(first) < 0)
        return -1;
    for (unsigned i = 0; i < EMU_GROUP; i++)
        first[i].wait = nullptr;
    for (unsigned w = 0; w < EMU_GROUP / EMU_WARP; w++)
        set_can_run(group * (EMU_GROUP / EMU_WARP) + w, UINT32_MAX);
    return 0;
}

/* None can run, and some have not ended. */
static void complain_of_stuck()
{
    const emu_thread *stuck = nullptr, *other = nullptr;
    for (unsigned i = 0; i < emu_now.n_threads; i++) { /* who waits for its warp is nearer to the mistake */
        const emu_thread *t = &emu_now.thread[i];
        if (t->wait && (!stuck || (stuck->wait->op == EMU_SYNCTHREADS && t->wait->op != EMU_SYNCTHREADS)))
            stuck = t;
    }
    const emu_wait *w = stuck->wait;
    unsigned from = 0, to = emu_now.n_threads;
    uint32_t mask = UINT32_MAX;
    if (w->op != EMU_SYNCTHREADS) {
        unsigned size = w->op >= EMU_WGMMA_FENCE ? EMU_GROUP : EMU_WARP;
        from = (unsigned)(stuck - emu_now.thread) / size * size;
        to = from + size;
        mask = w->mask;
    }
    for (unsigned i = from; i < to && !other; i++)
        if (mask >> i % EMU_WARP & 1 && !(emu_now.thread[i].wait && same_place(emu_now.thread[i].wait, w)))
            other = &emu_now.thread[i];
    char what[256] = "has ended";
    if (other->wait)
        snprintf(what, sizeof what, "waits at %s in %s:%d, mask 0x%08x", emu_op_name(other->wait->op),
                 other->wait->file, other->wait->line, other->wait->mask);
    emu_complain(stuck, "waits at %s in %s:%d, mask 0x%08x, where thread (%u, %u, %u) never comes: it %s",
                 emu_op_name(w->op), w->file, w->line, w->mask, other->index.x, other->index.y, other->index.z, what);
}

static int run_one(unsigned warp, unsigned lane)
{
    emu_thread *t = &emu_now.thread[warp * EMU_WARP + lane];
    emu_now.can_run[warp] &= ~(1u << lane);
    if (!emu_now.can_run[warp])
        emu_now.warps_can_run &= ~(1u << warp);
    emu_now.running = t;
    threadIdx = t->index;
    fiber_resume(&t->fiber);
    if (*emu_now.error)
        return -1;
    if (t->ended) {
        emu_now.n_ended++;
        return 0;
    }
    return t->wait->op == EMU_SYNCTHREADS   ? at_barrier(t)
           : t->wait->op >= EMU_WGMMA_FENCE ? at_group(t, warp)
                                            : at_warp(t, warp, lane);
}

int emu_block_run(enum emu_order order, uint64_t *seed)
{
    for (emu_array &a : emu_now.arrays)
        memset(a.bytes, 0xff, a.n_bytes);
    memset(emu_now.at_warp, 0, sizeof emu_now.at_warp);
    memset(emu_now.at_group, 0, sizeof emu_now.at_group);
    emu_wgmma_begin();
    for (unsigned i = 0; i < emu_now.n_threads; i++) {
        emu_thread *t = &emu_now.thread[i];
        t->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        t->ended = false;
        t->copies.clear();
        t->unfenced.clear();
        t->unmet.clear();
        t->registers.clear();
        t->has_fenced = false;
        t->n_groups = 0;
        fiber_start(&t->fiber, fiber_stack(i), thread_main);
    }
    emu_now.n_ended = 0;
    release_block();
    while (emu_now.warps_can_run) {
        unsigned warp = (unsigned)pick(emu_now.warps_can_run, order, seed);
        if (run_one(warp, (unsigned)pick(emu_now.can_run[warp], order, seed)) < 0)
            return -1;
    }
    if (emu_now.n_ended == emu_now.n_threads)
        return emu_wgmma_end();
    complain_of_stuck();
    return -1;
}
