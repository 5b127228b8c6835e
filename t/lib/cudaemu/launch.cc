#include "t/lib/cudaemu/block.h"
#include "t/lib/cudaemu/script.h"

#include <string.h>

#include <map>
#include <mutex>

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

/* Of one block, its arrays included; opted in what compute capability 8.6, 8.9 and 12.0 give: others give more. */
constexpr size_t SHARED_BYTES = 48 * 1024, SHARED_BYTES_OPT_IN = 99 * 1024;

static thread_local enum emu_order order;
static thread_local uint64_t seed;
static std::mutex limits;
static std::map<const void *, size_t> shared_limit; /* of kernels that asked for more; under limits */

void emu_set_order(enum emu_order order_, uint64_t seed_)
{
    order = order_;
    seed = seed_;
}

const char *emu_error(void)
{
    return emu_now.error;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attribute, int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || (size_t)value > SHARED_BYTES_OPT_IN)
        return (cudaError_t)cudaemu_raise(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(limits);
    shared_limit[func] = (size_t)value;
    return cudaSuccess;
}

/* The n-th block to run, of `total`: a random order takes a random start and a stride that meets every block. */
static uint64_t nth_block(uint64_t n, uint64_t total, uint64_t start, uint64_t stride)
{
    return order == EMU_FORWARD ? n : order == EMU_REVERSED ? total - 1 - n : (start + n * stride) % total;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    return b ? gcd(b, a % b) : a;
}

/* What dynamic shared memory may have; *total: and all together. */
static size_t limit_of(const void *func, size_t *total)
{
    std::lock_guard<std::mutex> lock(limits);
    auto found = shared_limit.find(func);
    *total = found == shared_limit.end() ? SHARED_BYTES : SHARED_BYTES_OPT_IN;
    return found == shared_limit.end() ? SHARED_BYTES : found->second;
}

static bool run_blocks()
{
    uint64_t total = (uint64_t)gridDim.x * gridDim.y * gridDim.z, start = emu_draw(&seed) % total;
    uint64_t stride = 1 + emu_draw(&seed) % total;
    while (gcd(stride, total) != 1)
        stride++;
    for (uint64_t n = 0; n < total; n++) {
        uint64_t b = nth_block(n, total, start, stride);
        blockIdx = {(unsigned)(b % gridDim.x), (unsigned)(b / gridDim.x % gridDim.y),
                    (unsigned)(b / gridDim.x / gridDim.y)};
        if (emu_block_run(order, &seed) < 0)
            return false;
    }
    return true;
}

/* A launch on its way: from CUDA_LAUNCH to when the stream comes to it. */
struct emu_launched {
    const char *kernel;
    dim3 grid, block;
    size_t shared_bytes, shared_limit;
    std::function<void()> call;
};

static void run_launch(void *arg)
{
    static thread_local emu_thread threads[EMU_MAX_THREADS];
    emu_launched *l = (emu_launched *)arg;
    gridDim = {l->grid.x, l->grid.y, l->grid.z};
    blockDim = {l->block.x, l->block.y, l->block.z};
    *emu_now.error = 0;
    emu_now.kernel = l->kernel;
    emu_now.n_threads = l->block.x * l->block.y * l->block.z;
    emu_now.thread = threads;
    emu_now.call = &l->call;
    memset(emu_now.can_run, 0, sizeof emu_now.can_run);
    emu_now.warps_can_run = 0;
    emu_now.shared_limit = l->shared_limit;
    emu_now.shared_top = 1024 + 16; /* so that what is aligned was asked to be */
    emu_shared_add(nullptr, l->shared_bytes, 16);
    if (!run_blocks())
        cudaemu_raise(cudaErrorLaunchFailure);
    for (emu_array &a : emu_now.arrays)
        free(a.bytes);
    emu_now.arrays.clear();
    delete l;
}

static bool is_possible(dim3 grid, dim3 block)
{
    size_t n_threads = (size_t)block.x * block.y * block.z;
    return n_threads && n_threads <= EMU_MAX_THREADS && n_threads % EMU_WARP == 0 && block.z <= 64 && grid.x &&
           grid.x <= INT32_MAX && grid.y && grid.y <= 65535 && grid.z && grid.z <= 65535;
}

cudaError_t emu_launch(const char *kernel, dim3 grid, dim3 block, size_t shared_bytes, void *stream, const void *func,
                       std::function<void()> call)
{
    size_t limit;
    if (!is_possible(grid, block))
        cudaemu_raise(cudaErrorInvalidConfiguration);
    else if (shared_bytes > limit_of(func, &limit))
        cudaemu_raise(cudaErrorInvalidValue);
    else {
        emu_launched *l = new emu_launched{kernel, grid, block, shared_bytes, limit, call};
        int e = cudaemu_enqueue(stream, run_launch, l);
        if (e != cudaSuccess) {
            delete l;
            return (cudaError_t)e;
        }
    }
    return cudaGetLastError();
}
