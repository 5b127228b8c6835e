/* block.h - one block of threads while it runs. */
#ifndef DDP_T_LIB_CUDAEMU_BLOCK_H
#define DDP_T_LIB_CUDAEMU_BLOCK_H

#include <stdint.h>

#include <vector>

#include "t/lib/cudaemu/cudaemu.h"
#include "t/lib/cudaemu/emu.h"
#include "t/lib/cudaemu/fiber.h"

enum { EMU_WARP = 32, EMU_GROUP = 128, EMU_MAX_THREADS = 1024 }; /* threads of a warp, a warpgroup */

struct emu_copy { /* of cp.async */
    void *to;
    const void *from;
    unsigned bytes; /* of 16; the rest become zeros */
    int group;
};

struct emu_thread {
    struct fiber fiber;
    uint3 index;
    bool ended;
    struct emu_wait *wait; /* NULL: it can run, or has ended */
    std::vector<emu_copy> copies;
    int n_groups;
    std::vector<const void *> unfenced;       /* 16 bytes each, that cp.async has written: not for wgmma yet */
    std::vector<const void *> unmet;          /* the same, fenced since, but before a barrier: not for others' yet */
    std::vector<struct emu_fenced> registers; /* that wgmma may use */
    bool has_fenced;                          /* wgmma.fence, since it last waited */
};

struct emu_fenced {
    const uint32_t *word;
    std::vector<uint32_t> was; /* when wgmma.fence was called */
};

struct emu_array { /* shared memory */
    const void *key;
    void *bytes;
    size_t n_bytes;
    uint32_t address;
};

struct emu_block {
    const char *kernel;
    unsigned n_threads, n_waiting, n_ended; /* waiting: at __syncthreads */
    emu_thread *thread;
    uint32_t can_run[EMU_MAX_THREADS / EMU_WARP], warps_can_run;
    uint32_t at_warp[EMU_MAX_THREADS / EMU_WARP]; /* the lanes that wait for others of their warp */
    unsigned at_group[EMU_MAX_THREADS / EMU_GROUP]; /* so many threads of a warpgroup wait for each other */
    std::vector<emu_array> arrays; /* the dynamic one has the key NULL */
    size_t shared_limit;           /* of their bytes together */
    uint32_t shared_top;           /* the address behind them */
    const std::function<void()> *call;
    emu_thread *running;
    char error[1024];
};

extern thread_local emu_block emu_now;

/* Runs the block blockIdx to its end: 0, or -1 with the error in emu_now. */
int emu_block_run(enum emu_order order, uint64_t *seed);

/* The block's error, unless it has one already; named after thread t. */
void emu_complain(const emu_thread *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *emu_op_name(enum emu_op op);

/* Does what the 32 lanes' waits say together, all being there; 0, or -1 with the error. */
int emu_warp_do(emu_thread *lane);

/* The same for the 128 threads of a warpgroup (wgmma.cc). */
int emu_group_do(emu_thread *first);

/* At a block's begin, barriers and end; the last fails while a product is under way, and so do the latter two where
 * what a product has read was changed since, which other warps may still have been at. */
void emu_wgmma_begin();
int emu_wgmma_meet();
int emu_wgmma_end();

/* Adds shared memory to the block; NULL: no memory. align is a power of two. */
void *emu_shared_add(const void *key, size_t bytes, unsigned align);

uint64_t emu_draw(uint64_t *seed);

#endif
