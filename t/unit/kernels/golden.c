/* The bits of libddp's arithmetic, as recorded: the same on every processor and vector width. t/unit/kernels/reduce.c
 * and optim.c hold it to definitions, which say nothing of the last bit everywhere. */
#include "t/unit/unit.h"

#include <stdbool.h>

#include "kernels/cast.h"
#include "kernels/fold.h"
#include "kernels/optim.h"
#include "kernels/reduce.h"
#include "runtime/base/hash.h"
#include "t/lib/golden.h"

enum { N = 5003, MAX_IN = 13 };

static const struct golden recorded[] = {
    {"load_bf16", 0xae864f38855e2325},
    {"load_f16", 0xa29fcd307f1d2325},
    {"store_bf16", 0x030fad0ec7f42325},
    {"store_f16", 0x851210e1c394e325},
    {"f16_scaled", 0x7107c60a048ddcca},
    {"sum_f32", 0x66b15618cdc5b3c8},
    {"min_f32", 0x58ecfd79933cb1cc},
    {"max_f32", 0x07061805177d6e6b},
    {"sum_f64", 0xff2b2d97d0a5db78},
    {"min_f64", 0x92c21e1fdee3e428},
    {"max_f64", 0xa73d410a0774546d},
    {"sum_bf16", 0x1da8d9cfc66eea85},
    {"min_bf16", 0x67f443622283ea85},
    {"max_bf16", 0xb5e12b91088dea85},
    {"sum_f16", 0xcf88605b21356a85},
    {"min_f16", 0xfb119f1dccedaa85},
    {"max_f16", 0xddcf29203a878a85},
    {"sum_i32", 0x20bb968a69d79119},
    {"min_i32", 0x87fc427ddd885478},
    {"max_i32", 0xaf95067776792e6b},
    {"sum_i64", 0x5dd0a65ecbbf3bb1},
    {"min_i64", 0xdf645e274e2acd9d},
    {"max_i64", 0x4ab1ee996f989533},
    {"sum_squares", 0xf33f6237aa3ebd0a},
    {"fold", 0x639ee9d05ea62bc0},
    {"adamw", 0x572dbe1549aa9eac},
    {"sgd", 0x9aaafacaad65d312},
};

static void check(const char *name, uint64_t sum)
{
    golden_check(recorded, sizeof recorded / sizeof *recorded, name, sum);
}

/* Every 16-bit number there is, as float32. */
static void check_load(const char *name, kernel_cast_f *load)
{
    enum { ALL = 1 << 16 };
    uint16_t *in = malloc(ALL * sizeof *in);
    float *out = malloc(ALL * sizeof *out);
    for (int i = 0; i < ALL; i++)
        in[i] = (uint16_t)i;
    load(out, in, ALL);
    check(name, golden_f32(HASH_START, out, ALL));
    free(in);
    free(out);
}

static void check_store(const char *name, kernel_cast_f *store, kernel_cast_f *load)
{
    enum { MANY = 1 << 18 };
    float *in = malloc(MANY * sizeof *in);
    uint16_t *out = malloc(MANY * sizeof *out);
    golden_any(in, MANY, 7);
    for (int i = 0; i < MANY; i += 2) /* also near what float16 has */
        in[i] = in[i + 1] > -1e30f && in[i + 1] < 1e30f ? in[i] * 0x1p-100f : in[i];
    golden_even(in, MANY / 4, 8);
    store(out, in, MANY);
    load(in, out, MANY); /* so that NaNs are found */
    check(name, golden_f32(HASH_START, in, MANY));
    free(in);
    free(out);
}

static void casts(void **state)
{
    (void)state;
    float x[N], y[N];
    uint16_t half[N];
    check_load("load_bf16", kernel_load_bf16);
    check_load("load_f16", kernel_load_f16);
    check_store("store_bf16", kernel_store_bf16, kernel_load_bf16);
    check_store("store_f16", kernel_store_f16, kernel_load_f16);
    golden_even(x, N, 9);
    kernel_store_f16_scaled(half, x, 1000.7f, N);
    kernel_load_f16_scaled(y, half, 0.3f, N);
    check("f16_scaled", golden_f32(HASH_START, y, N));
}

union element { /* an array of any type */
    float f32[N];
    double f64[N];
    int32_t i32[N];
    int64_t i64[N];
    uint16_t half[N];
};

static void fill(union element *x, enum ddp_dtype dtype, uint64_t seed, bool is_any)
{
    float f[N];
    (is_any ? golden_any : golden_even)(f, N, seed);
    for (size_t i = 0; i < N; i++) {
        if (dtype == DDP_F64)
            x->f64[i] = (double)f[i] * (1 + golden_draw(&seed) * 0x1p-40);
        else if (dtype == DDP_I64)
            x->i64[i] = (int64_t)((uint64_t)golden_draw(&seed) << 32 | golden_draw(&seed));
        else if (dtype == DDP_I32)
            x->i32[i] = (int32_t)golden_draw(&seed);
    }
    if (dtype == DDP_F32)
        memcpy(x->f32, f, sizeof f);
    if (dtype == DDP_BF16)
        kernel_store_bf16(x->half, f, N);
    if (dtype == DDP_F16)
        kernel_store_f16(x->half, f, N);
}

static uint64_t sum_of(uint64_t sum, const union element *x, enum ddp_dtype dtype)
{
    float f[N];
    if (dtype == DDP_F64)
        return golden_f64(sum, x->f64, N);
    if (dtype == DDP_I32 || dtype == DDP_I64)
        return golden_bytes(sum, x, N * dtype_size(dtype));
    if (dtype == DDP_BF16)
        kernel_load_bf16(f, x->half, N);
    if (dtype == DDP_F16)
        kernel_load_f16(f, x->half, N);
    return golden_f32(sum, dtype == DDP_F32 ? x->f32 : f, N);
}

/* 1 to 13 arrays into one, and into all in place, as the ranks of a node do; with an absent one; both kinds of
 * numbers. */
static uint64_t reductions_of(enum ddp_dtype dtype, enum ddp_op op)
{
    union element *x = calloc(MAX_IN + 1, sizeof *x);
    uint64_t sum = HASH_START;
    for (int n_in = 1; n_in <= MAX_IN; n_in++)
        for (int way = 0; way < 6; way++) {
            const void *in[MAX_IN];
            void *out[MAX_IN];
            bool is_in_place = way % 3 == 1;
            for (int k = 0; k < n_in; k++) {
                fill(&x[k], dtype, (uint64_t)(1000 * n_in + 10 * way + k + 1), way < 3);
                in[k] = way % 3 == 2 && k == n_in / 2 && n_in > 1 ? NULL : &x[k];
                out[k] = &x[k];
            }
            if (!is_in_place)
                out[0] = &x[MAX_IN];
            kernel_reduce_tree(out, is_in_place ? n_in : 1, in, n_in, N, dtype, op);
            sum = sum_of(sum, out[0], dtype);
            if (is_in_place)
                sum = sum_of(sum, out[n_in - 1], dtype);
        }
    free(x);
    return sum;
}

static void reductions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum ddp_dtype dtype;
    } types[] = {{"f32", DDP_F32}, {"f64", DDP_F64}, {"bf16", DDP_BF16},
                 {"f16", DDP_F16}, {"i32", DDP_I32}, {"i64", DDP_I64}};
    static const char *const ops[] = {[DDP_SUM] = "sum", [DDP_MIN] = "min", [DDP_MAX] = "max"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int op = 0; op < 3; op++) {
            char name[32];
            snprintf(name, sizeof name, "%s_%s", ops[op], types[t].name);
            check(name, reductions_of(types[t].dtype, (enum ddp_op)op));
        }
}

static void sums_of_squares_and_folds(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 8, 9, 100, 4095, NORM_BLOCK};
    static float x[4][N];
    const float *in[] = {x[0], x[1], x[2], x[3]};
    float out[N];
    double squares[7];
    for (int k = 0; k < 4; k++)
        golden_even(x[k], N, (uint64_t)k + 21);
    for (int k = 0; k < 7; k++)
        squares[k] = kernel_block_sum_squares(x[0] + k, sizes[k]);
    check("sum_squares", golden_f64(HASH_START, squares, 7));
    uint64_t sum = HASH_START;
    for (int n = 1; n <= 4; n++) {
        kernel_fold(out, in, n, N);
        sum = golden_f32(sum, out, N);
    }
    check("fold", sum);
}

/* Powers and schedules are the optimizer's (libm): here they are given. */
static void check_rule(const struct optim_rule *rule)
{
    static float value[N], grad[N], first[N], second[N];
    float *moment[] = {first, second};
    golden_even(value, N, 31);
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    for (int step = 1; step <= 20; step++) {
        struct optim_args a = {.lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f,
                               .bias1 = 1 - 1.0f / (float)(step + 1), .bias2 = 1 - 1.0f / (float)(2 * step + 1),
                               .grad_scale = 0.37f};
        golden_even(grad, N, (uint64_t)step + 40);
        rule->step(value, moment, grad, N, &a);
    }
    check(rule->name, golden_f32(golden_f32(golden_f32(HASH_START, value, N), first, N), second, N));
}

static void optimizers(void **state)
{
    (void)state;
    const struct optim_rule *const rules[] = {OPTIM_RULES};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        check_rule(rules[i]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(casts),
    cmocka_unit_test(reductions),
    cmocka_unit_test(sums_of_squares_and_folds),
    cmocka_unit_test(optimizers),
};
UNIT_MAIN(tests)
