/* dtype.h - element types and reduction operators, as numbers, names and sizes. */
#ifndef DDP_BASE_DTYPE_H
#define DDP_BASE_DTYPE_H

#include <stddef.h>

/* ddp.h, the installed header, holds the same lines: t/t0001-layering.t compares them. */
#ifndef DDP_DTYPE_DEFINED
#define DDP_DTYPE_DEFINED
/* begin ddp_dtype */
enum ddp_dtype { DDP_F32, DDP_F64, DDP_BF16, DDP_F16, DDP_I32, DDP_I64 };
enum ddp_op { DDP_SUM, DDP_MIN, DDP_MAX };
/* end ddp_dtype */
#endif

#define DTYPE_COUNT 6

size_t dtype_size(enum ddp_dtype t);      /* bytes of one element; 0 for an unknown type */
const char *dtype_name(enum ddp_dtype t); /* "f32"; "unknown" */
const char *op_name(enum ddp_op op);      /* "sum"; "unknown" */

#endif
