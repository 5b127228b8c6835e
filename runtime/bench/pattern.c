#include "runtime/bench/pattern.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The sums must be exact in bfloat16 too, which holds integers up to 256: values -1..1, 0 from rank 256 on. */
static int value_of(int rank, size_t i)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)rank * 0x9e3779b9u;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    return rank < 256 ? (int)((h ^ h >> 13) % 3) - 1 : 0;
}

static int combine(int a, int b, enum ddp_op op)
{
    if (op == DDP_SUM)
        return a + b;
    return op == DDP_MIN ? (a < b ? a : b) : (a > b ? a : b);
}

/* IEEE 754 binary16 of an integer of at most 11 bits. */
static uint16_t half_of(int x)
{
    unsigned size = (unsigned)abs(x), exponent = 0;
    if (!size)
        return 0;
    while (size >> (exponent + 1))
        exponent++;
    return (uint16_t)((x < 0) << 15 | (exponent + 15) << 10 | (size << (10 - exponent) & 0x3ff));
}

static uint16_t bfloat16_of(int x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void store(unsigned char *to, int x, enum ddp_dtype dtype)
{
    float f32 = (float)x;
    double f64 = x;
    int32_t i32 = x;
    int64_t i64 = x;
    uint16_t bf16 = bfloat16_of(x), f16 = half_of(x);
    const void *const from[DTYPE_COUNT] = {
        [DDP_F32] = &f32, [DDP_F64] = &f64, [DDP_BF16] = &bf16, [DDP_F16] = &f16, [DDP_I32] = &i32, [DDP_I64] = &i64,
    };
    memcpy(to, from[dtype], dtype_size(dtype));
}

void pattern_init(struct pattern *p, int rank, int size, enum ddp_dtype dtype, enum ddp_op op)
{
    p->elem_bytes = dtype_size(dtype);
    for (size_t i = 0; i < PATTERN_PERIOD; i++) {
        int all = value_of(0, i);
        for (int r = 1; r < size; r++)
            all = combine(all, value_of(r, i), op);
        store(p->in + i * p->elem_bytes, value_of(rank, i), dtype);
        store(p->want + i * p->elem_bytes, all, dtype);
    }
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void pattern_fill(const struct pattern *p, void *data, size_t n_elems)
{
    unsigned char *to = data;
    for (size_t i = 0; i < n_elems; i += PATTERN_PERIOD)
        memcpy(to + i * p->elem_bytes, p->in, smaller(PATTERN_PERIOD, n_elems - i) * p->elem_bytes);
}

size_t pattern_count_wrong(const struct pattern *p, const void *data, size_t n_elems)
{
    const unsigned char *got = data;
    size_t size = p->elem_bytes, n_wrong = 0;
    for (size_t i = 0; i < n_elems; i += PATTERN_PERIOD) {
        size_t n = smaller(PATTERN_PERIOD, n_elems - i);
        if (!memcmp(got + i * size, p->want, n * size))
            continue;
        for (size_t k = 0; k < n; k++)
            n_wrong += memcmp(got + (i + k) * size, p->want + k * size, size) != 0;
    }
    return n_wrong;
}
