/* double.c - A TEST DOUBLE of cuBLASLt, no cuBLASLt: a shared library of its own name, which the emulated build of
 * kernels/model/cuda/matmul.c opens. It multiplies by plain loops, with sums in double, on the emulated CUDA runtime's
 * streams, and takes only what matmul.c should ask for. It is stricter than cuBLASLt where that helps: an algorithm is
 * good only for the product that it was chosen for, operands and biases must be in device memory at multiples of 16
 * bytes, and it must have been told so, no matrix may reach beyond 2^31 - 1 elements, the workspace is overwritten.
 *
 *   BLASLTDOUBLE_FAIL=CALL:N:STATUS   the Nth call of create, heuristic or matmul fails so
 *   BLASLTDOUBLE_ROWS=N               the rows of every matrix, as matmul.h has them, are multiples of N elements;
 *                                     others are not supported
 *   BLASLTDOUBLE_TILES=WAVES:TILE,... so many algorithms are proposed, as those for compute capability 9.0 are, the
 *                                     first with so many waves [one, number 7, of no waves and no tile]
 *   BLASLTDOUBLE_BIAS=CALL            from now on call, heuristic or matmul, says of every product that has a bias
 *                                     that it is not supported; matmul only where the bias is not all that is
 *                                     added */
#include <cublasLt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cast.h"
#include "t/lib/cudaemu/script.h"

enum { MAGIC_HANDLE = 0xb1a5, NEEDED_WORKSPACE = 4096, ALIGN = 16 };

struct handle {
    int magic;
    struct handle *next;
};
struct desc {
    int32_t transa, transb, epilogue, bias_type;
    const void *bias;
};
struct layout {
    int32_t type;
    uint64_t rows, cols;
    int64_t ld;
};
struct pref {
    uint64_t workspace;
    uint32_t schemes, align[4]; /* of A, B, C, D */
};
/* What an algorithm was chosen for. */
struct chosen {
    uint64_t product; /* a hash of descriptor and layouts */
    uint64_t workspace;
    uint32_t tile;
};
_Static_assert(sizeof(struct chosen) <= sizeof(cublasLtMatmulAlgo_t), "it travels in the algorithm");

/* What BLASLTDOUBLE_FAIL says of the present call. */
static cublasStatus_t scripted(const char *call, int n)
{
    char name[32];
    int at, status;
    const char *text = getenv("BLASLTDOUBLE_FAIL");
    if (!text || sscanf(text, "%31[^:]:%d:%d", name, &at, &status) != 3 || strcmp(name, call) || at != n)
        return CUBLAS_STATUS_SUCCESS;
    return (cublasStatus_t)status;
}

static bool takes_no_bias(const char *call, const struct desc *d)
{
    const char *text = getenv("BLASLTDOUBLE_BIAS");
    return text && !strcmp(text, call) && d->epilogue == CUBLASLT_EPILOGUE_BIAS;
}

static struct handle *volatile all_handles;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle)
{
    static int n;
    cublasStatus_t rc = scripted("create", ++n);
    struct handle *h = rc ? NULL : calloc(1, sizeof *h);
    if (!h)
        return rc ? rc : CUBLAS_STATUS_ALLOC_FAILED;
    h->magic = MAGIC_HANDLE;
    h->next = all_handles; /* known to leak checkers: one is left to the process's end where its GPU has failed */
    all_handles = h;
    *lightHandle = (cublasLtHandle_t)h;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle)
{
    ((struct handle *)lightHandle)->magic = 0;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

static cublasStatus_t give(void *ret, const void *from, size_t n)
{
    void *p = malloc(n);
    if (!p)
        return CUBLAS_STATUS_ALLOC_FAILED;
    memcpy(p, from, n);
    memcpy(ret, &p, sizeof p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType_t type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    struct layout y = {(int32_t)type, rows, cols, ld};
    return ld < (int64_t)rows || !rows || !cols ? CUBLAS_STATUS_INVALID_VALUE : give(matLayout, &y, sizeof y);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout)
{
    free(matLayout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc, cublasComputeType_t computeType,
                                        cudaDataType_t scaleType)
{
    struct desc d = {.epilogue = CUBLASLT_EPILOGUE_DEFAULT, .bias_type = -1};
    if (computeType != CUBLAS_COMPUTE_32F || scaleType != CUDA_R_32F) /* others may round inputs to TF32 */
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return give(matmulDesc, &d, sizeof d);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc)
{
    free(matmulDesc);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set(void *to, size_t n, const void *buf, size_t n_buf)
{
    if (n != n_buf)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, buf, n);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc, cublasLtMatmulDescAttributes_t attr,
                                              const void *buf, size_t n)
{
    struct desc *d = (struct desc *)matmulDesc;
    switch ((int)attr) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(&d->transa, sizeof d->transa, buf, n);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(&d->transb, sizeof d->transb, buf, n);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(&d->epilogue, sizeof d->epilogue, buf, n);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(&d->bias, sizeof d->bias, buf, n);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(&d->bias_type, sizeof d->bias_type, buf, n);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    struct pref p = {0, CUBLASLT_REDUCTION_SCHEME_INPLACE, {256, 256, 256, 256}};
    return give(pref, &p, sizeof p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    free(pref);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr, const void *buf,
                                                    size_t n)
{
    struct pref *p = (struct pref *)pref;
    switch ((int)attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(&p->workspace, sizeof p->workspace, buf, n);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(&p->schemes, sizeof p->schemes, buf, n);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(&p->align[0], sizeof p->align[0], buf, n);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(&p->align[1], sizeof p->align[1], buf, n);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(&p->align[2], sizeof p->align[2], buf, n);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(&p->align[3], sizeof p->align[3], buf, n);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

static uint64_t mix(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

static uint64_t hash_layout(uint64_t hash, const struct layout *y)
{
    return mix(mix(mix(mix(hash, (uint64_t)y->type), y->rows), y->cols), (uint64_t)y->ld);
}

static uint64_t hash_product(const struct desc *d, const struct layout *a, const struct layout *b,
                             const struct layout *c)
{
    uint64_t hash = mix(mix(mix(1, (uint64_t)d->transa), (uint64_t)d->transb), (uint64_t)d->epilogue);
    return hash_layout(hash_layout(hash_layout(hash, a), b), c);
}

static bool is_in_range(const struct layout *y)
{
    return y->cols <= INT32_MAX && y->ld <= INT32_MAX && y->cols * (uint64_t)y->ld <= INT32_MAX;
}

/* What BLASLTDOUBLE_ROWS says. */
static bool is_in_tiles(const struct layout *y)
{
    const char *text = getenv("BLASLTDOUBLE_ROWS");
    return !text || (y->rows % strtoull(text, NULL, 10) == 0 && (uint64_t)y->ld % strtoull(text, NULL, 10) == 0);
}

static bool fits(const struct desc *d, const struct layout *a, const struct layout *b, const struct layout *c,
                 const struct layout *o)
{
    uint64_t m = d->transa ? a->cols : a->rows, ka = d->transa ? a->rows : a->cols;
    uint64_t kb = d->transb ? b->cols : b->rows, n = d->transb ? b->rows : b->cols;
    bool types = a->type == b->type && (o->type == a->type || o->type == CUDA_R_32F) &&
                 (a->type == CUDA_R_32F || a->type == CUDA_R_16BF || a->type == CUDA_R_16F);
    bool bias = d->epilogue == CUBLASLT_EPILOGUE_BIAS;
    return types && ka == kb && m == o->rows && n == o->cols && !memcmp(c, o, sizeof *o) && is_in_range(a) &&
           is_in_range(b) && is_in_range(o) &&
           (bias || d->epilogue == CUBLASLT_EPILOGUE_DEFAULT) && (!bias || (d->bias && d->bias_type == o->type));
}

/* What BLASLTDOUBLE_TILES says; how many. */
static int propose(cublasLtMatmulHeuristicResult_t *result, int most, struct chosen chosen)
{
    const char *text = getenv("BLASLTDOUBLE_TILES");
    char *at = NULL;
    int n = 0;
    float waves = text ? strtof(text, &at) : 0;
    do {
        chosen.tile = at && *at ? (uint32_t)strtoul(at + 1, &at, 10) : 0;
        memset(&result[n], 0, sizeof *result);
        memcpy(&result[n].algo, &chosen, sizeof chosen);
        result[n].workspaceSize = chosen.workspace;
        result[n].wavesCount = waves;
        n++;
    } while (n < most && at && *at == ',');
    return n;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
                                              cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                              cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                              cublasLtMatmulPreference_t preference, int requestedAlgoCount,
                                              cublasLtMatmulHeuristicResult_t *result, int *returnAlgoCount)
{
    static int n;
    const struct layout *a = (struct layout *)Adesc, *b = (struct layout *)Bdesc, *c = (struct layout *)Cdesc;
    const struct pref *p = (struct pref *)preference;
    cublasStatus_t rc = scripted("heuristic", ++n);
    if (rc)
        return rc;
    if (((struct handle *)lightHandle)->magic != MAGIC_HANDLE || requestedAlgoCount < 1 ||
        !fits((struct desc *)operationDesc, a, b, c, (struct layout *)Ddesc))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_in_tiles(a) || !is_in_tiles(b) || !is_in_tiles(c) ||
        takes_no_bias("heuristic", (struct desc *)operationDesc))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p->schemes & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE))
        return CUBLAS_STATUS_NOT_SUPPORTED; /* sums would be rounded on the way */
    for (int i = 0; i < 4; i++)
        if (p->align[i] != ALIGN)
            return CUBLAS_STATUS_NOT_SUPPORTED; /* it would not fit what comes */
    struct chosen chosen = {hash_product((struct desc *)operationDesc, a, b, c),
                            p->workspace < NEEDED_WORKSPACE ? 0 : NEEDED_WORKSPACE, 0};
    *returnAlgoCount = propose(result, requestedAlgoCount, chosen);
    return CUBLAS_STATUS_SUCCESS;
}

/* Of one without a tile: number 7. Of one with a tile: 66. One split, the rest 0. */
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr, void *buf,
                                                    size_t sizeInBytes, size_t *sizeWritten)
{
    bool is_half = attr == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
    struct chosen chosen;
    if (!algo || sizeInBytes != (is_half ? sizeof(uint16_t) : sizeof(uint32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&chosen, algo, sizeof chosen);
    uint32_t x = attr == CUBLASLT_ALGO_CONFIG_ID ? (chosen.tile ? 66 : 7)
                 : attr == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? 1
                 : attr == CUBLASLT_ALGO_CONFIG_TILE_ID ? chosen.tile : 0;
    memcpy(buf, &x, sizeInBytes);
    *sizeWritten = sizeInBytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* A product on its way. */
struct work {
    struct desc d;
    struct layout a, b, out;
    const void *in_a, *in_b, *in_c;
    void *to, *workspace;
    float alpha, beta;
};

static float load(const void *p, int32_t type, uint64_t i)
{
    float x;
    if (type == CUDA_R_32F)
        return ((const float *)p)[i];
    (type == CUDA_R_16F ? kernel_load_f16 : kernel_load_bf16)(&x, (const uint16_t *)p + i, 1);
    return x;
}

static void store(void *p, int32_t type, uint64_t i, float x)
{
    if (type == CUDA_R_32F)
        ((float *)p)[i] = x;
    else
        (type == CUDA_R_16F ? kernel_store_f16 : kernel_store_bf16)((uint16_t *)p + i, &x, 1);
}

/* The rows of op(a), or the columns of op(b): [n, k] without gaps. */
static float *gather(const void *p, const struct layout *y, bool columns_are_k, uint64_t n, uint64_t k)
{
    float *all = malloc(n * k * sizeof *all);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t j = 0; j < k; j++)
            all[i * k + j] = load(p, y->type, columns_are_k ? i + j * (uint64_t)y->ld : j + i * (uint64_t)y->ld);
    return all;
}

/* Of a row with as many columns, each summed in order: several sums at a time, as one waits for its last addition.
 * Where fewer columns are left, the first stands for the others. */
enum { COLUMNS = 4 };
static void dot(double sum[COLUMNS], const float *row, const float *column, uint64_t k, uint64_t n_columns)
{
    const float *b[COLUMNS];
    for (uint64_t c = 0; c < COLUMNS; c++)
        b[c] = c < n_columns ? column + c * k : column;
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (uint64_t l = 0; l < k; l++) {
        double x = row[l];
        s0 += x * b[0][l];
        s1 += x * b[1][l];
        s2 += x * b[2][l];
        s3 += x * b[3][l];
    }
    memcpy(sum, (double[]){s0, s1, s2, s3}, COLUMNS * sizeof *sum);
}

/* out[i, j] */
static void put(const struct work *w, double sum, uint64_t i, uint64_t j)
{
    uint64_t at = i + j * (uint64_t)w->out.ld;
    sum = w->alpha * sum + (w->beta != 0 ? w->beta * (double)load(w->in_c, w->out.type, at) : 0);
    if (w->d.epilogue == CUBLASLT_EPILOGUE_BIAS)
        sum += load(w->d.bias, w->d.bias_type, i);
    store(w->to, w->out.type, at, (float)sum);
}

static void run(void *arg)
{
    struct work *w = arg;
    uint64_t m = w->out.rows, n = w->out.cols, k = w->d.transa ? w->a.rows : w->a.cols;
    float *a = gather(w->in_a, &w->a, !w->d.transa, m, k), *b = gather(w->in_b, &w->b, w->d.transb != 0, n, k);
    memset(w->workspace, 0xff, w->workspace ? NEEDED_WORKSPACE : 0);
    for (uint64_t j = 0; j < n; j += COLUMNS)
        for (uint64_t i = 0; i < m; i++) {
            double sum[COLUMNS];
            dot(sum, a + i * k, b + j * k, k, n - j);
            for (uint64_t c = 0; c < COLUMNS && j + c < n; c++)
                put(w, sum[c], i, j + c);
        }
    free(a);
    free(b);
    free(w);
}

static bool holds(const void *p, const struct layout *y)
{
    size_t n = ((size_t)y->ld * (y->cols - 1) + y->rows) * (y->type == CUDA_R_32F ? 4 : 2);
    return (uintptr_t)p % ALIGN == 0 && cudaemu_is_device(p, n);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t Adesc, const void *B, cublasLtMatrixLayout_t Bdesc,
                              const void *beta, const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspaceSizeInBytes, cudaStream_t stream)
{
    static int n;
    struct chosen chosen;
    struct work w = {*(struct desc *)computeDesc, *(struct layout *)Adesc, *(struct layout *)Bdesc,
                     *(struct layout *)Ddesc, A, B, C, D, workspace, 0, 0};
    cublasStatus_t rc = scripted("matmul", ++n);
    memcpy(&chosen, algo, sizeof chosen);
    memcpy(&w.alpha, alpha, sizeof w.alpha);
    memcpy(&w.beta, beta, sizeof w.beta);
    if (rc)
        return rc;
    if (((struct handle *)lightHandle)->magic != MAGIC_HANDLE ||
        !fits(&w.d, &w.a, &w.b, (struct layout *)Cdesc, &w.out) ||
        chosen.product != hash_product(&w.d, &w.a, &w.b, &w.out) || workspaceSizeInBytes < chosen.workspace ||
        !holds(A, &w.a) || !holds(B, &w.b) || !holds(C, &w.out) || !holds(D, &w.out) || (uintptr_t)workspace % 256 ||
        (w.d.epilogue == CUBLASLT_EPILOGUE_BIAS &&
         ((uintptr_t)w.d.bias % ALIGN || !cudaemu_is_device(w.d.bias, w.out.rows))))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (takes_no_bias("matmul", &w.d) && w.beta != 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!chosen.workspace)
        w.workspace = NULL;
    else if (!cudaemu_is_device(workspace, chosen.workspace))
        return CUBLAS_STATUS_INVALID_VALUE;
    struct work *queued = malloc(sizeof *queued);
    if (!queued)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *queued = w;
    if (cudaemu_enqueue(stream, run, queued) == 0)
        return CUBLAS_STATUS_SUCCESS;
    free(queued);
    return CUBLAS_STATUS_EXECUTION_FAILED;
}
