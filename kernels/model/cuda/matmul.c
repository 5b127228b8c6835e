/* matmul.c - see matmul.h. cuBLASLt's matrices are column-major: what is row-major [rows, cols] here is its
 * [cols, rows], so out = a b becomes out^T = b^T a^T: its A is our b, its B our a, and a bias of n elements runs down
 * its rows, as CUBLASLT_EPILOGUE_BIAS wants it. */
#include "kernels/model/cuda/matmul.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/model/cuda/bias.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#ifndef CUBLASLT_LIBRARY /* tests have a double of it elsewhere */
#define CUBLASLT_LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)
#endif
#define PLANS_MAX 64
#define ALIGN 16 /* bytes; cuBLASLt assumes 256 unless it is told less */
#define PROPOSALS 8
#define TILE_176x128 201   /* as CUDA 13's header has it; older ones lack the name */
#define WGMMA_ALGORITHM 66 /* the CUBLASLT_ALGO_CONFIG_ID of 13.1's kernels for compute capability 9.0 */

static struct {
    void *handle; /* stays open */
    __typeof__(cublasLtCreate) *create;
    __typeof__(cublasLtDestroy) *destroy;
    __typeof__(cublasLtGetVersion) *version;
    __typeof__(cublasLtGetStatusName) *status_name;
    __typeof__(cublasLtMatmul) *matmul;
    __typeof__(cublasLtMatmulAlgoGetHeuristic) *heuristic;
    __typeof__(cublasLtMatmulAlgoConfigGetAttribute) *algo_get;
    __typeof__(cublasLtMatmulDescCreate) *desc_create;
    __typeof__(cublasLtMatmulDescDestroy) *desc_destroy;
    __typeof__(cublasLtMatmulDescSetAttribute) *desc_set;
    __typeof__(cublasLtMatrixLayoutCreate) *layout_create;
    __typeof__(cublasLtMatrixLayoutDestroy) *layout_destroy;
    __typeof__(cublasLtMatmulPreferenceCreate) *pref_create;
    __typeof__(cublasLtMatmulPreferenceDestroy) *pref_destroy;
    __typeof__(cublasLtMatmulPreferenceSetAttribute) *pref_set;
} lib;

static const struct symbol {
    const char *name;
    void *at;
} symbols[] = {
    {"cublasLtCreate", &lib.create},
    {"cublasLtDestroy", &lib.destroy},
    {"cublasLtGetVersion", &lib.version},
    {"cublasLtGetStatusName", &lib.status_name},
    {"cublasLtMatmul", &lib.matmul},
    {"cublasLtMatmulAlgoGetHeuristic", &lib.heuristic},
    {"cublasLtMatmulAlgoConfigGetAttribute", &lib.algo_get},
    {"cublasLtMatmulDescCreate", &lib.desc_create},
    {"cublasLtMatmulDescDestroy", &lib.desc_destroy},
    {"cublasLtMatmulDescSetAttribute", &lib.desc_set},
    {"cublasLtMatrixLayoutCreate", &lib.layout_create},
    {"cublasLtMatrixLayoutDestroy", &lib.layout_destroy},
    {"cublasLtMatmulPreferenceCreate", &lib.pref_create},
    {"cublasLtMatmulPreferenceDestroy", &lib.pref_destroy},
    {"cublasLtMatmulPreferenceSetAttribute", &lib.pref_set},
};

struct plan {
    struct cuda_matmul key;   /* see key_of */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, out; /* of our names */
    cublasLtMatmulAlgo_t algo;
    size_t workspace_bytes; /* that it uses */
    bool bias_is_apart; /* no algorithm takes it along: out holds it before the product is added */
};

struct cuda_blas {
    cublasLtHandle_t lt;
    void *workspace;
    size_t workspace_bytes;
    char name[48];
    struct plan plan[PLANS_MAX];
    int n_plans;
};

/* Where the loader looks, and where the build's toolkit lies. */
static void *open_library(void)
{
    void *handle = dlopen(CUBLASLT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
#ifdef CUBLASLT_FOLDER
    handle = handle ? handle : dlopen(CUBLASLT_FOLDER "/" CUBLASLT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
#endif
    return handle;
}

static int load(ddp_error_t *errp)
{
    if (lib.handle)
        return 0;
    void *handle = open_library();
    if (!handle)
        return error_set(errp, DDP_E_USAGE, ENOENT, "matrix products on a GPU need " CUBLASLT_LIBRARY ", which is not "
                         "there: install libcublas-%d-%d, or put its folder into LD_LIBRARY_PATH", CUBLAS_VER_MAJOR,
                         CUBLAS_VER_MINOR);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol) {
            dlclose(handle);
            return error_set(errp, DDP_E_USAGE, ENOSYS, CUBLASLT_LIBRARY " lacks %s: install libcublas-%d-%d",
                             symbols[i].name, CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR);
        }
        memcpy(symbols[i].at, &symbol, sizeof symbol);
    }
    lib.handle = handle;
    return 0;
}

/* " of [M, K] x [K, N] TYPE"; nothing where there is no product. Returns buf. */
static const char *name_of(const struct cuda_matmul *s, char *buf, size_t size)
{
    snprintf(buf, size, "%s", "");
    if (s)
        snprintf(buf, size, " of [%zu, %zu] x [%zu, %zu] %s", s->m, s->k, s->k, s->n, dtype_name(s->in));
    return buf;
}

static int fail(cublasStatus_t rc, const char *call, const struct cuda_matmul *s, ddp_error_t *errp)
{
    char what[128];
    return error_set(errp, DDP_E_SYSTEM, EIO, "%s%s: %s%s", call, name_of(s, what, sizeof what), lib.status_name(rc),
                     rc == CUBLAS_STATUS_NOT_INITIALIZED || rc == CUBLAS_STATUS_ALLOC_FAILED
                         ? ": the GPU's memory may be full: take a smaller --batch"
                         : "");
}

cuda_blas_t *cuda_blas_create(void *workspace, size_t workspace_bytes, ddp_error_t *errp)
{
    if (load(errp) < 0)
        return NULL;
    cuda_blas_t *b = calloc(1, sizeof *b);
    if (!b) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for cuBLASLt");
        return NULL;
    }
    cublasStatus_t rc = lib.create(&b->lt);
    if (rc != CUBLAS_STATUS_SUCCESS) {
        fail(rc, "cublasLtCreate", NULL, errp);
        free(b);
        return NULL;
    }
    unsigned v = (unsigned)lib.version();
    snprintf(b->name, sizeof b->name, "cuBLASLt %u.%u.%u", v / 10000, v / 100 % 100, v % 100);
    b->workspace = workspace;
    b->workspace_bytes = workspace_bytes;
    return b;
}

static void plan_free(struct plan *p)
{
    if (p->desc)
        lib.desc_destroy(p->desc);
    if (p->a)
        lib.layout_destroy(p->a);
    if (p->b)
        lib.layout_destroy(p->b);
    if (p->out)
        lib.layout_destroy(p->out);
    memset(p, 0, sizeof *p);
}

static void forget(cuda_blas_t *b)
{
    while (b->n_plans > 0)
        plan_free(&b->plan[--b->n_plans]);
}

void cuda_blas_destroy(cuda_blas_t *b, bool leaves_gpu)
{
    int saved = errno;
    if (b) {
        forget(b);
        if (!leaves_gpu)
            lib.destroy(b->lt);
        free(b);
    }
    errno = saved;
}

const char *cuda_blas_name(const cuda_blas_t *b)
{
    return b->name;
}

static cudaDataType_t type_of(enum ddp_dtype t)
{
    return t == DDP_BF16 ? CUDA_R_16BF : t == DDP_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* Of a matrix that is stored row-major [rows, cols]. */
static cublasStatus_t lay_out(cublasLtMatrixLayout_t *ret, enum ddp_dtype t, size_t rows, size_t cols)
{
    return lib.layout_create(ret, type_of(t), cols, rows, (int64_t)cols);
}

static cublasStatus_t lay_out_all(struct plan *p)
{
    const struct cuda_matmul *s = &p->key;
    cublasStatus_t rc = lay_out(&p->a, s->in, s->a_transposed ? s->k : s->m, s->a_transposed ? s->m : s->k);
    rc = rc ? rc : lay_out(&p->b, s->in, s->b_transposed ? s->n : s->k, s->b_transposed ? s->k : s->n);
    return rc ? rc : lay_out(&p->out, s->out, s->m, s->n);
}

static cublasStatus_t set_bias(const struct plan *p, const void *bias)
{
    return lib.desc_set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

static cublasStatus_t describe(struct plan *p, const void *bias)
{
    const struct cuda_matmul *s = &p->key;
    cublasOperation_t op_a = s->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    int32_t bias_type = (int32_t)type_of(s->out);
    cublasStatus_t rc = lib.desc_create(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    rc = rc ? rc : lib.desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
    rc = rc ? rc : lib.desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
    if (rc || !bias)
        return rc;
    rc = lib.desc_set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    rc = rc ? rc : lib.desc_set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type);
    return rc ? rc : set_bias(p, bias);
}

/* Limits on the choice: the workspace, alignments, and that sums stay float32 until they are complete. */
static cublasStatus_t prefer(cublasLtMatmulPreference_t pref, size_t workspace_bytes)
{
    uint64_t bytes = workspace_bytes;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, align = ALIGN;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t n;
    } all[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align, sizeof align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align, sizeof align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align, sizeof align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align, sizeof align},
    };
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof all / sizeof *all && !rc; i++)
        rc = lib.pref_set(pref, all[i].what, all[i].value, all[i].n);
    return rc;
}

/* A number of the algorithm's; 0: it has none of that name. */
static unsigned number_of(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t what)
{
    uint16_t half = 0; /* the cluster's */
    uint32_t x = 0;
    size_t written;
    bool is_half = what == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
    cublasStatus_t rc = is_half ? lib.algo_get(algo, what, &half, sizeof half, &written)
                                : lib.algo_get(algo, what, &x, sizeof x, &written);
    return rc ? 0 : half + x;
}

/* The proposal to take: cuBLASLt's first, but for products of few summands that fill the GPU many times over. It
 * counts products, and proposes large tiles, one to a multiprocessor, which idles while their sums go out. Smaller
 * tiles share one: sums of the one go out while the other multiplies. On an H200, of GPT-2 124M's products at 65536
 * rows, 768 x 768 with a bias and a residual takes 0.153 ms instead of 0.281, 768 x 3072 takes 0.386 ms instead of
 * 0.433, 768 x 50304 (32768 rows) 3.36 ms instead of 3.53; 3072 x 768 without a bias is slower in tiles below
 * 128 x 160, 50304 x 768 in any smaller ones. */
static int proposal_of(const struct plan *p, const cublasLtMatmulHeuristicResult_t *proposal, int n)
{
    unsigned tile = p->key.bias ? CUBLASLT_MATMUL_TILE_128x128 : CUBLASLT_MATMUL_TILE_128x160;
    int found = 0;
    if (p->key.in == DDP_F32 || p->key.k > 4096 || proposal->wavesCount < 8)
        return 0;
    for (int i = 0; i < n; i++) {
        unsigned has = number_of(&proposal[i].algo, CUBLASLT_ALGO_CONFIG_TILE_ID);
        if (proposal[i].state != CUBLAS_STATUS_SUCCESS ||
            number_of(&proposal[i].algo, CUBLASLT_ALGO_CONFIG_ID) != WGMMA_ALGORITHM ||
            number_of(&proposal[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1)
            continue;
        if (has == tile)
            return i;
        if (has == TILE_176x128 && !p->key.bias)
            found = i;
    }
    return found;
}

static cublasStatus_t choose(const cuda_blas_t *b, struct plan *p)
{
    cublasLtMatmulPreference_t pref = NULL;
    cublasLtMatmulHeuristicResult_t proposal[PROPOSALS] = {{.state = CUBLAS_STATUS_NOT_SUPPORTED}};
    int n = 0, i;
    cublasStatus_t rc = lib.pref_create(&pref);
    rc = rc ? rc : prefer(pref, b->workspace_bytes);
    rc = rc ? rc : lib.heuristic(b->lt, p->desc, p->b, p->a, p->out, p->out, pref, PROPOSALS, proposal, &n);
    rc = rc ? rc : n > 0 ? proposal->state : CUBLAS_STATUS_NOT_SUPPORTED;
    if (pref)
        lib.pref_destroy(pref);
    i = rc ? 0 : proposal_of(p, proposal, n);
    p->algo = proposal[i].algo;
    p->workspace_bytes = proposal[i].workspaceSize;
    return rc;
}

static cublasStatus_t make_plan(const cuda_blas_t *b, struct plan *p, const void *bias)
{
    cublasStatus_t rc = lay_out_all(p);
    rc = rc ? rc : describe(p, bias);
    return rc ? rc : choose(b, p);
}

static cublasStatus_t set_bias_apart(const cuda_blas_t *b, struct plan *p)
{
    struct cuda_matmul key = p->key;
    plan_free(p);
    p->key = key;
    p->bias_is_apart = true;
    return make_plan(b, p, NULL);
}

/* All that the choice of an algorithm depends on, compared by its bytes: every gap is zeroed, and pointers say only
 * whether they are there. */
static struct cuda_matmul key_of(const struct cuda_matmul *s)
{
    struct cuda_matmul k;
    memset(&k, 0, sizeof k);
    k.m = s->m, k.n = s->n, k.k = s->k;
    k.in = s->in, k.out = s->out;
    k.a_transposed = s->a_transposed, k.b_transposed = s->b_transposed, k.accumulate = s->accumulate;
    k.bias = s->bias ? &lib : NULL, k.add = s->add ? &lib : NULL;
    return k;
}

static int is_impossible(const struct cuda_matmul *s)
{
    bool is_16_bit = s->in == DDP_BF16 || s->in == DDP_F16;
    bool types = (s->in == DDP_F32 || is_16_bit) && (s->out == s->in || s->out == DDP_F32);
    return !types || !s->m || !s->n || !s->k || (s->accumulate && (s->bias || s->add));
}

static int check_sizes(const struct cuda_matmul *s, ddp_error_t *errp)
{
    const struct {
        const char *name;
        size_t rows, cols;
    } all[] = {{"out", s->m, s->n}, {"a", s->m, s->k}, {"b", s->k, s->n}};
    char what[128];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].rows > CUDA_MATMUL_ELEMS_MAX / all[i].cols)
            return error_set(errp, DDP_E_USAGE, EOVERFLOW, "cuda_matmul%s: %s has more than %zu elements, beyond which "
                             "cuBLASLt fails: take a smaller --batch", name_of(s, what, sizeof what), all[i].name,
                             CUDA_MATMUL_ELEMS_MAX);
    return 0;
}

/* What a kernel reads 16 bytes at a time faults elsewhere, which takes the whole context with it. */
static int check_aligned(const void *out, const void *a, const void *b, const struct cuda_matmul *s, ddp_error_t *errp)
{
    const struct {
        const char *name;
        const void *at;
    } all[] = {{"out", out}, {"a", a}, {"b", b}, {"bias", s->bias}, {"add", s->add}};
    char what[128];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((uintptr_t)all[i].at % ALIGN)
            return error_set(errp, DDP_E_USAGE, EINVAL, "cuda_matmul%s: %s begins at %p, and must at a multiple of %d "
                             "bytes: lay it there, as cudaMalloc lays what it gives", name_of(s, what, sizeof what),
                             all[i].name, all[i].at, ALIGN);
    return 0;
}

/* NULL: there is none. */
static const struct plan *find_plan(const cuda_blas_t *b, const struct cuda_matmul *key)
{
    for (int i = 0; i < b->n_plans; i++)
        if (!memcmp(&b->plan[i].key, key, sizeof *key))
            return &b->plan[i];
    return NULL;
}

/* The plan for this product, made where there is none. NULL: *errp. */
static struct plan *plan_for(cuda_blas_t *b, const struct cuda_matmul *s, ddp_error_t *errp)
{
    struct cuda_matmul key = key_of(s);
    const struct plan *found = find_plan(b, &key);
    if (found)
        return &b->plan[found - b->plan];
    if (b->n_plans == PLANS_MAX)
        forget(b);
    struct plan *p = &b->plan[b->n_plans];
    p->key = key;
    cublasStatus_t rc = make_plan(b, p, s->bias);
    rc = rc == CUBLAS_STATUS_NOT_SUPPORTED && s->bias ? set_bias_apart(b, p) : rc;
    if (rc) {
        fail(rc, "cublasLtMatmulAlgoGetHeuristic", s, errp);
        plan_free(p);
        return NULL;
    }
    b->n_plans++;
    return p;
}

static cublasStatus_t multiply(const cuda_blas_t *blas, const struct plan *p, void *out, const void *a, const void *b,
                               const struct cuda_matmul *s, void *stream)
{
    bool is_apart = s->bias && p->bias_is_apart;
    const void *c = s->add && !is_apart ? s->add : out;
    float one = 1, beta = s->accumulate || s->add || is_apart ? 1 : 0;
    cublasStatus_t rc = s->bias && !is_apart ? set_bias(p, s->bias) : CUBLAS_STATUS_SUCCESS;
    if (is_apart && cuda_bias_rows(out, s->add, s->bias, s->m, s->n, s->out, stream) != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return rc ? rc : lib.matmul(blas->lt, p->desc, &one, b, p->b, a, p->a, &beta, c, p->out, out, p->out, &p->algo,
                                blas->workspace, blas->workspace_bytes, (cudaStream_t)stream);
}

int cuda_matmul(cuda_blas_t *blas, void *out, const void *a, const void *b, const struct cuda_matmul *s, void *stream,
                ddp_error_t *errp)
{
    if (is_impossible(s))
        return fail(CUBLAS_STATUS_INVALID_VALUE, "cuda_matmul", s, errp);
    if (check_aligned(out, a, b, s, errp) < 0 || check_sizes(s, errp) < 0)
        return -1;
    struct plan *p = plan_for(blas, s, errp);
    if (!p)
        return -1;
    cublasStatus_t rc = multiply(blas, p, out, a, b, s, stream);
    if (rc == CUBLAS_STATUS_NOT_SUPPORTED && s->bias && !p->bias_is_apart) { /* it was chosen without knowing beta */
        rc = set_bias_apart(blas, p);
        rc = rc ? rc : multiply(blas, p, out, a, b, s, stream);
        if (rc)
            forget(blas); /* p may be half made */
    }
    return rc ? fail(rc, "cublasLtMatmul", s, errp) : 0;
}

const char *cuda_matmul_algorithm(const cuda_blas_t *b, const struct cuda_matmul *s, char *buf, size_t size)
{
    struct cuda_matmul key = key_of(s);
    const struct plan *p = find_plan(b, &key);
    snprintf(buf, size, "%s", "");
    if (p)
        snprintf(buf, size, "id %u tile %u stages %u cluster %u split-k %u workspace %zu%s",
                 number_of(&p->algo, CUBLASLT_ALGO_CONFIG_ID), number_of(&p->algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
                 number_of(&p->algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                 number_of(&p->algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
                 number_of(&p->algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), p->workspace_bytes,
                 p->bias_is_apart ? " bias apart" : "");
    return buf;
}
