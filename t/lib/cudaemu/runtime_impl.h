/* runtime_impl.h - what the files of the emulated CUDA runtime share. */
#ifndef DDP_T_LIB_CUDAEMU_RUNTIME_IMPL_H
#define DDP_T_LIB_CUDAEMU_RUNTIME_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

enum { DEVICES_MAX = 16, FAULTS_MAX = 16, CALLS_MAX = 64, ALIGN = 256, RUNTIME_VERSION = 13000 };
enum mode { MODE_NOW, MODE_DEFERRED, MODE_STUCK };

struct fault {
    char call[40];
    int at;
    cudaError_t error;
};
struct block {
    struct block *next;
    char *p;
    size_t n;
    int device; /* -1: the host's */
};
struct work {
    struct work *next;
    enum { WORK_COPY, WORK_FILL, WORK_RECORD, WORK_AFTER, WORK_RUN } what;
    void *to;
    const void *from;
    void *staged; /* what `from` is then, and is freed with the work; NULL: the caller's memory */
    size_t n;
    int byte;
    struct CUevent_st *event;  /* WORK_AFTER: NULL once it is done and destroyed */
    uint64_t point;            /* of the event */
    struct CUstream_st *where; /* WORK_AFTER: that point was recorded there */
    void (*run)(void *arg);
    void *arg;
};
struct CUstream_st {
    struct CUstream_st *next;
    struct work *first, *last;
    int device, priority;
};
struct CUevent_st {
    struct CUevent_st *next;
    struct CUstream_st *stream; /* where it was recorded last */
    uint64_t asked, reached;    /* records asked for, and done */
    double at_ms;
    bool timed;
};

struct cudaemu {
    bool is_ready, is_same;
    int n_devices, driver;
    size_t memory, used[DEVICES_MAX];
    char name[256];
    enum mode mode;
    struct fault fault[FAULTS_MAX];
    int n_faults;
    struct {
        const char *name;
        int n;
    } count[CALLS_MAX];
    int n_counts, n_all;
    cudaError_t sticky;
    struct block *blocks;
    struct CUstream_st standard, *streams;
    struct CUevent_st *events;
};
extern struct cudaemu cudaemu_all;

/* What CUDA keeps for each thread apart. */
struct cudaemu_thread {
    int device;
    cudaError_t last;
};
extern __thread struct cudaemu_thread cudaemu_mine;

/* cudaemu_all belongs to one thread at a time, which may take it again: from HOLD() to the end of the function. */
int cudaemu_take(void);
void cudaemu_give(const int *taken);
#define HOLD() __attribute__((cleanup(cudaemu_give), unused)) int held = cudaemu_take()

/* Keeps e for cudaGetLastError, unless it is success. Returns it. */
cudaError_t cudaemu_keep(cudaError_t e);

/* Begins call: what it fails with by the script, or success. */
cudaError_t cudaemu_begin(const char *call);

#define BEGIN()                                                                                                        \
    HOLD();                                                                                                            \
    cudaError_t begun = cudaemu_begin(__func__);                                                                       \
    if (begun != cudaSuccess)                                                                                          \
    return begun

/* The same for a call that needs a GPU. */
#define BEGIN_ON_GPU()                                                                                                 \
    BEGIN();                                                                                                           \
    if (cudaemu_all.driver < RUNTIME_VERSION)                                                                          \
    return cudaemu_keep(cudaErrorInsufficientDriver)

/* The block of a GPU's memory (of the host's pinned memory) that holds p[0..n), or NULL. */
struct block *cudaemu_block_of(const void *p, size_t n, bool of_host);

#endif
