#include "t/lib/gputest.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <sys/random.h>

#include "t/lib/floats.h"

#if HAVE_CONFIG_H
#include "config.h"
#endif

#if defined(DDP_CUDA_EMULATED) && defined(DDP_SANITIZED)
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#ifdef DDP_CUDA_EMULATED
#include "t/lib/cudaemu/emu.h"

const char *gpu_error(void)
{
    return emu_error();
}

void gpu_each_order(void (*f)(void *arg), void *arg)
{
    emu_set_order(EMU_FORWARD, 0);
    f(arg);
    emu_set_order(EMU_REVERSED, 0);
    f(arg);
    emu_set_order(EMU_RANDOM, draw());
    f(arg);
    emu_set_order(EMU_FORWARD, 0);
}
#else
const char *gpu_error(void)
{
    return cudaGetErrorString(cudaPeekAtLastError());
}

void gpu_each_order(void (*f)(void *arg), void *arg)
{
    f(arg);
}
#endif

void gpu_need(void)
{
    int n_devices;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess) {
        printf("1..0 # SKIP needs a GPU\n");
        exit(0);
    }
}

int gpu_setup(void **state)
{
    (void)state;
    uint64_t seed = 0;
    const char *given = getenv("GPU_SEED");
    if (given)
        seed = strtoull(given, NULL, 0);
    else if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return -1;
    print_message("# GPU_SEED=%llu\n", (unsigned long long)seed);
    seed_floats(seed);
    return 0;
}

/* ---- memory ---- */

enum { GUARD = 256, MARK = 0x5a, MAX_LIVE = 1024 };

static struct live {
    char *data, *from;
    size_t bytes, all; /* all: from `from` to behind the second guard */
} live[MAX_LIVE];

static struct live *find(const void *data)
{
    for (int i = 0; i < MAX_LIVE; i++)
        if (live[i].data == data)
            return &live[i];
    fail_msg("no such device memory, or more than %d of it", MAX_LIVE);
    return NULL;
}

#define assert_cuda(call) assert_int_equal(call, cudaSuccess)

void *gpu_new(const void *from, size_t bytes, size_t shift)
{
    struct live *l = find(NULL);
    void *p;
    l->bytes = bytes;
    l->all = GUARD + shift + bytes + GUARD;
    assert_cuda(cudaMalloc(&p, l->all));
    l->from = p;
    l->data = l->from + GUARD + shift;
    assert_cuda(cudaMemset(l->from, MARK, l->all));
    if (bytes && from)
        assert_cuda(cudaMemcpy(l->data, from, bytes, cudaMemcpyHostToDevice));
    else if (bytes)
        assert_cuda(cudaMemset(l->data, 0xff, bytes));
    POISON(l->from, GUARD + shift);
    POISON(l->data + bytes, GUARD);
    return l->data;
}

void gpu_read(void *to, const void *p, size_t bytes)
{
    assert_cuda(cudaDeviceSynchronize());
    if (bytes)
        assert_cuda(cudaMemcpy(to, p, bytes, cudaMemcpyDeviceToHost));
}

void gpu_free(const void *p)
{
    if (!p)
        return;
    struct live *l = find(p);
    char *copy = malloc(l->all);
    UNPOISON(l->from, l->all);
    gpu_read(copy, l->from, l->all);
    for (size_t i = 0; i < l->all; i++)
        if (copy[i] != MARK && (i < (size_t)(l->data - l->from) || i >= l->all - GUARD))
            fail_msg("a kernel wrote %zd bytes from the beginning of an array of %zu bytes",
                     (ssize_t)(i - (size_t)(l->data - l->from)), l->bytes);
    free(copy);
    assert_cuda(cudaFree(l->from));
    *l = (struct live){0};
}

float random_any(void)
{
    static const float special[] = {INFINITY, -INFINITY, NAN, 0, -0.0f, 1e-45f, 3e-39f, 65504, 65520, 5.9e-8f};
    uint32_t bits = draw() << 1 ^ draw();
    float x;
    if (draw() % 64 == 0)
        return special[draw() % (sizeof special / sizeof *special)];
    if (draw() % 2) /* where float16 has numbers */
        return ldexpf((float)(int32_t)bits, -(int)(draw() % 58));
    memcpy(&x, &bits, sizeof x);
    return x;
}
