#include "kernels/model/cpu/blas.h"

#include <cblas.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libopenblas.so.0"

static __typeof__(cblas_sgemm) *sgemm;
static char *(*corename)(void);

static bool is_avx512(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
#else
    return false;
#endif
}

/* The library reads its settings while it is loaded; afterwards the environment is again as the user left it. */
static void *load(void)
{
    bool core = !getenv("OPENBLAS_CORETYPE") && is_avx512();
    char *threads = getenv("OPENBLAS_NUM_THREADS");
    threads = threads ? strdup(threads) : NULL;
    if (core)
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (core)
        unsetenv("OPENBLAS_CORETYPE");
    if (threads)
        setenv("OPENBLAS_NUM_THREADS", threads, 1);
    else
        unsetenv("OPENBLAS_NUM_THREADS");
    free(threads);
    return lib;
}

int blas_open(ddp_error_t *errp)
{
    if (sgemm)
        return 0;
    void *lib = load();
    if (!lib)
        return error_set(errp, DDP_E_SYSTEM, 0, "%s cannot be loaded: install the Debian package libopenblas0-pthread"
                         " (%s)", LIBRARY, dlerror());
    void (*set_threads)(int);
    __typeof__(cblas_sgemm) *f;
    *(void **)&set_threads = dlsym(lib, "openblas_set_num_threads");
    *(void **)&corename = dlsym(lib, "openblas_get_corename");
    *(void **)&f = dlsym(lib, "cblas_sgemm");
    if (!set_threads || !corename || !f) {
        dlclose(lib);
        return error_set(errp, DDP_E_SYSTEM, 0, "%s is not OpenBLAS with CBLAS: install the Debian package"
                         " libopenblas0-pthread", LIBRARY);
    }
    set_threads(1);
    sgemm = f;
    return 0;
}

const char *blas_core(void)
{
    return sgemm ? corename() : "none";
}

void blas_sgemm(int m, int n, int k, struct blas_in a, struct blas_in b, float beta, float *c, int ldc)
{
    sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans, m, n, k,
          1, a.data, a.ld, b.data, b.ld, beta, c, ldc);
}
