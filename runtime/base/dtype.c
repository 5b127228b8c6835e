#include "runtime/base/dtype.h"

static const struct {
    const char *name;
    size_t size;
} types[DTYPE_COUNT] = {
    [DDP_F32] = {"f32", 4},   [DDP_F64] = {"f64", 8}, [DDP_BF16] = {"bf16", 2},
    [DDP_F16] = {"f16", 2}, [DDP_I32] = {"i32", 4}, [DDP_I64] = {"i64", 8},
};

size_t dtype_size(enum ddp_dtype t)
{
    return (unsigned)t < DTYPE_COUNT ? types[t].size : 0;
}

const char *dtype_name(enum ddp_dtype t)
{
    return (unsigned)t < DTYPE_COUNT ? types[t].name : "unknown";
}

const char *op_name(enum ddp_op op)
{
    static const char *const names[] = {"sum", "min", "max"};
    return (unsigned)op < 3 ? names[op] : "unknown";
}
