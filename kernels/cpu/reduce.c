/* The tree is walked once per block of BLOCK elements, whose partial results stay in the first-level cache. */
#include "kernels/reduce.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cast.h"
#include "kernels/cpu/dispatch.h"

enum { BLOCK = 512 };

typedef union {
    float f32[BLOCK];
    double f64[BLOCK];
    int32_t i32[BLOCK];
    int64_t i64[BLOCK];
} block_t;

typedef void pair_f(void *restrict out, const void *a, const void *b, size_t n);
typedef void quad_f(void *restrict out, const void *const *in, size_t n);

#define DEFINE_PAIR(name, type, expr)                                                                                  \
    CPU_DISPATCH static void name(void *restrict out, const void *va, const void *vb, size_t n)                        \
    {                                                                                                                  \
        type *restrict o = out;                                                                                        \
        const type *pa = va, *pb = vb;                                                                                 \
        for (size_t i = 0; i < n; i++) {                                                                               \
            type a = pa[i], b = pb[i];                                                                                 \
            o[i] = (expr);                                                                                             \
        }                                                                                                              \
    }

/* b != b: a NaN on either side stays. */
DEFINE_PAIR(sum_f32, float, a + b)
DEFINE_PAIR(min_f32, float, b < a || b != b ? b : a)
DEFINE_PAIR(max_f32, float, b > a || b != b ? b : a)
DEFINE_PAIR(sum_f64, double, a + b)
DEFINE_PAIR(min_f64, double, b < a || b != b ? b : a)
DEFINE_PAIR(max_f64, double, b > a || b != b ? b : a)
DEFINE_PAIR(sum_i32, int32_t, (int32_t)((uint32_t)a + (uint32_t)b))
DEFINE_PAIR(min_i32, int32_t, b < a ? b : a)
DEFINE_PAIR(max_i32, int32_t, b > a ? b : a)
DEFINE_PAIR(sum_i64, int64_t, (int64_t)((uint64_t)a + (uint64_t)b))
DEFINE_PAIR(min_i64, int64_t, b < a ? b : a)
DEFINE_PAIR(max_i64, int64_t, b > a ? b : a)

#define DEFINE_QUAD(name, type)                                                                                        \
    CPU_DISPATCH static void name(void *restrict out, const void *const *in, size_t n)                                 \
    {                                                                                                                  \
        type *restrict o = out;                                                                                        \
        const type *a = in[0], *b = in[1], *c = in[2], *d = in[3];                                                     \
        for (size_t i = 0; i < n; i++)                                                                                 \
            o[i] = (a[i] + b[i]) + (c[i] + d[i]);                                                                      \
    }

DEFINE_QUAD(quad_f32, float)
DEFINE_QUAD(quad_f64, double)

struct kind {
    pair_f *pair[3];     /* by enum ddp_op */
    quad_f *sum4;        /* NULL: none */
    kernel_cast_f *load; /* to what sums are made in; NULL: the type itself */
    kernel_cast_f *store;
};

static const struct kind kinds[DTYPE_COUNT] = {
    [DDP_F32] = {{sum_f32, min_f32, max_f32}, quad_f32, NULL, NULL},
    [DDP_F64] = {{sum_f64, min_f64, max_f64}, quad_f64, NULL, NULL},
    [DDP_BF16] = {{sum_f32, min_f32, max_f32}, quad_f32, kernel_load_bf16, kernel_store_bf16},
    [DDP_F16] = {{sum_f32, min_f32, max_f32}, quad_f32, kernel_load_f16, kernel_store_f16},
    [DDP_I32] = {{sum_i32, min_i32, max_i32}, NULL, NULL, NULL},
    [DDP_I64] = {{sum_i64, min_i64, max_i64}, NULL, NULL, NULL},
};

struct walk {
    const struct kind *kind;
    enum ddp_op op;
    size_t at_bytes, n; /* the block: where it starts in every input, its elements */
};

/* ---- the common sums, straight from all inputs to all outputs ----
 *
 * In place or not: element i of every array is read before element i of any is written, so that iterations do not
 * depend on each other (NO_DEPENDENCE) although arrays may be the same. */
#if defined(__clang__)
#define NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_DEPENDENCE _Pragma("GCC ivdep")
#endif

typedef void fused_f(void *const *out, const void *const *in, size_t n);

#define DEFINE_SUMS(type, suffix)                                                                                      \
    CPU_DISPATCH static void sum2to1_##suffix(void *const *out, const void *const *in, size_t n)                       \
    {                                                                                                                  \
        const type *a = in[0], *b = in[1];                                                                             \
        type *p = out[0];                                                                                              \
        NO_DEPENDENCE                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            p[i] = a[i] + b[i];                                                                                        \
    }                                                                                                                  \
    CPU_DISPATCH static void sum2to2_##suffix(void *const *out, const void *const *in, size_t n)                       \
    {                                                                                                                  \
        const type *a = in[0], *b = in[1];                                                                             \
        type *p = out[0], *q = out[1];                                                                                 \
        NO_DEPENDENCE                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            p[i] = q[i] = a[i] + b[i];                                                                                 \
    }                                                                                                                  \
    CPU_DISPATCH static void sum4to1_##suffix(void *const *out, const void *const *in, size_t n)                       \
    {                                                                                                                  \
        const type *a = in[0], *b = in[1], *c = in[2], *d = in[3];                                                     \
        type *p = out[0];                                                                                              \
        NO_DEPENDENCE                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            p[i] = (a[i] + b[i]) + (c[i] + d[i]);                                                                      \
    }                                                                                                                  \
    CPU_DISPATCH static void sum4to2_##suffix(void *const *out, const void *const *in, size_t n)                       \
    {                                                                                                                  \
        const type *a = in[0], *b = in[1], *c = in[2], *d = in[3];                                                     \
        type *p = out[0], *q = out[1];                                                                                 \
        NO_DEPENDENCE                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            p[i] = q[i] = (a[i] + b[i]) + (c[i] + d[i]);                                                               \
    }                                                                                                                  \
    CPU_DISPATCH static void sum4to4_##suffix(void *const *out, const void *const *in, size_t n)                       \
    {                                                                                                                  \
        const type *a = in[0], *b = in[1], *c = in[2], *d = in[3];                                                     \
        type *p = out[0], *q = out[1], *r = out[2], *s = out[3];                                                       \
        NO_DEPENDENCE                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            p[i] = q[i] = r[i] = s[i] = (a[i] + b[i]) + (c[i] + d[i]);                                                 \
    }                                                                                                                  \
    CPU_DISPATCH static void sum8to8_##suffix(void *const *out, const void *const *in, size_t n)                       \
    {                                                                                                                  \
        const type *a = in[0], *b = in[1], *c = in[2], *d = in[3], *e = in[4], *f = in[5], *g = in[6], *h = in[7];     \
        type *p = out[0], *q = out[1], *r = out[2], *s = out[3], *t = out[4], *u = out[5], *v = out[6], *w = out[7];   \
        NO_DEPENDENCE                                                                                                  \
        for (size_t i = 0; i < n; i++)                                                                                 \
            p[i] = q[i] = r[i] = s[i] = t[i] = u[i] = v[i] = w[i] =                                                    \
                ((a[i] + b[i]) + (c[i] + d[i])) + ((e[i] + f[i]) + (g[i] + h[i]));                                     \
    }

DEFINE_SUMS(float, f32)
DEFINE_SUMS(double, f64)

static fused_f *find_fused(int n_out, const void *const *in, int n_in, enum ddp_dtype dtype, enum ddp_op op)
{
    static const struct {
        int n_in, n_out;
        fused_f *f[2];
    } all[] = {{2, 1, {sum2to1_f32, sum2to1_f64}},
               {2, 2, {sum2to2_f32, sum2to2_f64}},
               {4, 1, {sum4to1_f32, sum4to1_f64}},
               {4, 2, {sum4to2_f32, sum4to2_f64}},
               {4, 4, {sum4to4_f32, sum4to4_f64}},
               {8, 8, {sum8to8_f32, sum8to8_f64}}};
    if (op != DDP_SUM || (dtype != DDP_F32 && dtype != DDP_F64))
        return NULL;
    for (int k = 0; k < n_in; k++)
        if (!in[k])
            return NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].n_in == n_in && all[i].n_out == n_out)
            return all[i].f[dtype == DDP_F64];
    return NULL;
}

static int largest_power_below(int n)
{
    int m = 1;
    while (m * 2 < n)
        m *= 2;
    return m;
}

/* One input's block in the type that sums are made in: itself, or converted into buf. NULL: absent. */
static const void *leaf(const struct walk *w, const void *in, block_t *buf)
{
    if (!in)
        return NULL;
    const void *p = (const char *)in + w->at_bytes;
    if (!w->kind->load)
        return p;
    w->kind->load(buf, p, w->n);
    return buf;
}

static bool is_quad(const struct walk *w, const void *const *in, int n)
{
    return n == 4 && w->op == DDP_SUM && w->kind->sum4 && !w->kind->load && in[0] && in[1] && in[2] && in[3];
}

/* T over in[0..n). The result lies in buf or, when nothing had to be computed, where an input lies. */
static const void *tree(const struct walk *w, const void *const *in, int n, block_t *buf)
{
    if (n == 1)
        return leaf(w, in[0], buf);
    if (is_quad(w, in, n)) {
        const void *at[4];
        for (int k = 0; k < 4; k++)
            at[k] = (const char *)in[k] + w->at_bytes;
        w->kind->sum4(buf, at, w->n);
        return buf;
    }
    int m = largest_power_below(n);
    block_t left, right;
    const void *a = tree(w, in, m, &left), *b = tree(w, in + m, n - m, &right);
    if (a && b) {
        w->kind->pair[w->op](buf, a, b, w->n);
        return buf;
    }
    const void *only = a ? a : b;
    if (only == &left || only == &right) {
        memcpy(buf, only, sizeof *buf);
        return buf;
    }
    return only;
}

void kernel_reduce_tree(void *const *out, int n_out, const void *const *in, int n_in, size_t n_elems,
                        enum ddp_dtype dtype, enum ddp_op op)
{
    struct walk w = {.kind = &kinds[dtype], .op = op};
    fused_f *fused = find_fused(n_out, in, n_in, dtype, op);
    if (fused) {
        fused(out, in, n_elems);
        return;
    }
    size_t size = dtype_size(dtype);
    for (size_t at = 0; at < n_elems; at += BLOCK) {
        block_t buf, rounded;
        w.at_bytes = at * size;
        w.n = n_elems - at < BLOCK ? n_elems - at : BLOCK;
        const void *result = tree(&w, in, n_in, &buf);
        if (w.kind->store) {
            w.kind->store(&rounded, result, w.n);
            result = &rounded;
        }
        for (int j = 0; j < n_out; j++) {
            char *to = (char *)out[j] + w.at_bytes;
            if (to != result)
                memcpy(to, result, w.n * size);
        }
    }
}
