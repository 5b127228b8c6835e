#include "t/lib/tensors.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <sys/types.h>
#include <time.h>

#include "kernels/cast.h"

#ifdef DDP_CUDA_EMULATED
#include "t/lib/cudaemu/emu.h"
#endif

#define GUARD 256
#define F16_MAX 65504
#define PERIOD 1048573
#define GUARD_BYTE 0xff /* NaNs: what is read there shows, too; also an output's */
#ifdef __SANITIZE_ADDRESS__
#define GUARD_BEHIND 0
#else
#define GUARD_BEHIND GUARD
#endif

void device_check(int rc, const char *what)
{
    if (!rc)
        rc = (int)cudaDeviceSynchronize();
    if (!rc)
        return;
#ifdef DDP_CUDA_EMULATED
    fail_msg("%s: error %d: %s", what, rc, emu_error());
#else
    fail_msg("%s: %s", what, cudaGetErrorString((cudaError_t)rc));
#endif
}

void *device_bytes(const void *from, size_t n_bytes)
{
    void *p = NULL;
    device_check((int)cudaMalloc(&p, n_bytes ? n_bytes : 1), "cudaMalloc");
    if (from)
        device_check((int)cudaMemcpy(p, from, n_bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    return p;
}

void device_fetch(void *to, const void *from, size_t n_bytes)
{
    device_check((int)cudaMemcpy(to, from, n_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void device_drop(void *p)
{
    device_check((int)cudaFree(p), "cudaFree");
}

static size_t elem_bytes(const struct tensor *t)
{
    return dtype_size(t->type);
}

struct tensor tensor_poisoned(enum ddp_dtype type, size_t n, size_t offset)
{
    struct tensor t = {.n = n, .type = type};
    size_t before = GUARD + offset * elem_bytes(&t), bytes = n * elem_bytes(&t);
    t.base_bytes = before + bytes + GUARD_BEHIND;
    t.base = device_bytes(NULL, t.base_bytes);
    device_check((int)cudaMemset(t.base, GUARD_BYTE, t.base_bytes), "cudaMemset");
    t.at = (char *)t.base + before;
    return t;
}

/* out[n] of the type from floats, and back. */
static void to_type(enum ddp_dtype type, void *out, const float *x, size_t n)
{
    if (type == DDP_F32)
        memcpy(out, x, n * sizeof *x);
    else
        (type == DDP_F16 ? kernel_store_f16 : kernel_store_bf16)(out, x, n);
}

static void from_type(enum ddp_dtype type, float *out, const void *x, size_t n)
{
    if (type == DDP_F32)
        memcpy(out, x, n * sizeof *out);
    else
        (type == DDP_F16 ? kernel_load_f16 : kernel_load_bf16)(out, x, n);
}

/* Elements from i on. */
static void fill(struct tensor *t, size_t i, const float *x, size_t n)
{
    void *of_type = malloc(n * sizeof *x + 1);
    to_type(t->type, of_type, x, n);
    device_check((int)cudaMemcpy((char *)t->at + i * elem_bytes(t), of_type, n * elem_bytes(t), cudaMemcpyHostToDevice),
                 "cudaMemcpy");
    free(of_type);
}

struct tensor tensor_random(enum ddp_dtype type, size_t n, size_t offset, float scale)
{
    struct tensor t = tensor_poisoned(type, n, offset);
    float *x = random_floats(n, scale);
    fill(&t, 0, x, n);
    free(x);
    return t;
}

struct tensor tensor_copy(const struct tensor *t)
{
    size_t bytes = t->n * elem_bytes(t), before = (size_t)((char *)t->at - (char *)t->base) - GUARD;
    struct tensor copy = tensor_poisoned(t->type, t->n, before / elem_bytes(t));
    device_check((int)cudaMemcpy(copy.at, t->at, bytes, cudaMemcpyDeviceToDevice), "cudaMemcpy");
    return copy;
}

void tensor_set(struct tensor *t, size_t i, float x)
{
    fill(t, i, &x, 1);
}

/* The whole allocation, its guards looked at. */
static unsigned char *fetch(const struct tensor *t)
{
    unsigned char *host = malloc(t->base_bytes);
    size_t before = (size_t)((char *)t->at - (char *)t->base), behind = before + t->n * elem_bytes(t);
    device_fetch(host, t->base, t->base_bytes);
    for (size_t i = 0; i < t->base_bytes; i++)
        if ((i < before || i >= behind) && host[i] != GUARD_BYTE)
            fail_msg("byte %zd outside of a tensor of %zu elements was written",
                     i < before ? (ssize_t)i - (ssize_t)before : (ssize_t)(i - behind), t->n);
    return host;
}

double *tensor_values(const struct tensor *t)
{
    unsigned char *host = fetch(t);
    double *x = malloc((t->n + 1) * sizeof *x);
    float *f = malloc((t->n + 1) * sizeof *f);
    from_type(t->type, f, host + ((char *)t->at - (char *)t->base), t->n);
    for (size_t i = 0; i < t->n; i++)
        x[i] = (double)f[i];
    free(f);
    free(host);
    return x;
}

static void check_guard(const struct tensor *t, size_t at, size_t n)
{
    unsigned char *guard = malloc(n + 1);
    device_fetch(guard, (char *)t->base + at, n);
    for (size_t i = 0; i < n; i++)
        if (guard[i] != GUARD_BYTE)
            fail_msg("a byte %s a tensor of %zu elements was written", at ? "behind" : "before", t->n);
    free(guard);
}

void tensor_free(struct tensor *t)
{
    size_t before = (size_t)((char *)t->at - (char *)t->base), behind = before + t->n * elem_bytes(t);
    check_guard(t, 0, before);
    check_guard(t, behind, t->base_bytes - behind);
    device_drop(t->base);
    *t = (struct tensor){0};
}

static double rounding_of(enum ddp_dtype type)
{
    return type == DDP_F32 ? 0 : type == DDP_F16 ? 1.0 / 1024 : 1.0 / 256;
}

/* got is infinite, as float16 has no number such as want. */
static bool overflows(enum ddp_dtype type, double got, double want)
{
    return type == DDP_F16 && isinf(got) && fabs(want) > F16_MAX && signbit(got) == signbit(want);
}

/* ---- parts ---- */

size_t tensor_fitting(size_t n, size_t bytes_each)
{
    size_t left, all;
    device_check((int)cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
    size_t fit = (left - left / 16) / bytes_each;
    assert_true(fit > 0);
    if (fit >= n)
        return n;
    print_message("# %zu of %zu: more do not fit into %zu MiB of the GPU's memory\n", fit, n, left >> 20);
    return fit;
}

struct tensor tensor_repeated(enum ddp_dtype type, size_t n, float middle, float scale)
{
    struct tensor t = tensor_poisoned(type, n, 0);
    size_t have = n < PERIOD ? n : PERIOD, size = elem_bytes(&t);
    float *x = random_floats(have, scale);
    for (size_t i = 0; i < have; i++)
        x[i] += middle;
    fill(&t, 0, x, have);
    free(x);
    for (size_t more; have < n; have += more) {
        more = n - have < have ? n - have : have;
        device_check((int)cudaMemcpy((char *)t.at + have * size, t.at, more * size, cudaMemcpyDeviceToDevice),
                     "cudaMemcpy");
    }
    return t;
}

size_t tensor_place(int i, int n_samples, size_t n)
{
    size_t drawn = ((size_t)draw() << 31 | draw()) % n;
    return i == 0 ? 0 : i + 1 == n_samples ? n - 1 : drawn;
}

float *tensor_part(const struct tensor *t, size_t first, size_t n)
{
    void *bits = malloc(n * elem_bytes(t));
    float *x = malloc(n * sizeof *x);
    device_fetch(bits, (char *)t->at + first * elem_bytes(t), n * elem_bytes(t));
    from_type(t->type, x, bits, n);
    free(bits);
    return x;
}

void tensor_check_part(const char *what, const struct tensor *t, size_t first, size_t n, const float *want,
                       double tolerance)
{
    float *got = tensor_part(t, first, n);
    double largest = 1, rounding = rounding_of(t->type);
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, (double)fabsf(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!((double)fabsf(got[i] - want[i]) <= tolerance * largest + rounding * (double)fabsf(want[i])))
            fail_msg("%s[%zu] of %zu: %.9g, want %.9g; the largest is %.9g", what, first + i, t->n, (double)got[i],
                     (double)want[i], largest);
    free(got);
}

void tensors_free_all(struct tensor *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tensor_free(all[i]);
}

/* ---- all of an array ---- */

void tensor_check(const char *what, const struct tensor *t, const double *want, double tolerance)
{
    double *got = tensor_values(t), largest = 1, rounding = rounding_of(t->type);
    for (size_t i = 0; i < t->n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < t->n; i++)
        if (!overflows(t->type, got[i], want[i]) &&
            !(fabs(got[i] - want[i]) <= tolerance * largest + rounding * fabs(want[i])))
            fail_msg("%s[%zu] of %zu: %.9g, want %.9g; the largest is %.9g", what, i, t->n, got[i], want[i], largest);
    free(got);
}

void tensor_hash(uint64_t *hash, const struct tensor *t)
{
    unsigned char *host = fetch(t);
    for (size_t i = 0; i < t->base_bytes; i++)
        *hash = (*hash ^ host[i]) * 1099511628211u;
    free(host);
}

void tensors_end_all(uint64_t *hash, struct tensor *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tensor_hash(hash, all[i]);
        tensor_free(all[i]);
    }
}

static uint64_t fresh_seed(void)
{
    static uint64_t seed;
    const char *wanted = getenv("DDP_TEST_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!seed) {
        seed = wanted ? strtoull(wanted, NULL, 10) : (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
        print_message("# DDP_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

void in_every_order(void (*f)(const void *arg, uint64_t *hash), const void *arg)
{
    uint64_t first = 0;
    for (int order = 0; order < 3; order++) {
        uint64_t hash = 1469598103934665603u;
#ifdef DDP_CUDA_EMULATED
        emu_set_order((enum emu_order)order, fresh_seed());
#endif
        seed_floats(fresh_seed());
        f(arg, &hash);
        if (order == 0)
            first = hash;
        assert_true(hash == first);
    }
}

void each_of_n_in_every_order(void (*f)(const void *arg, uint64_t *hash), const void *args, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++)
        in_every_order(f, (const char *)args + i * size);
}

bool tensors_cannot_run(void)
{
    int n = 0;
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc == cudaSuccess && n > 0)
        return false;
    printf("1..0 # SKIP needs a GPU: %s\n", rc == cudaSuccess ? "there is none" : cudaGetErrorString(rc));
    return true;
}
