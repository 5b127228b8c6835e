/* layout.h - the parameters of a model: names, shapes, types and where each lies in the arena. Pure.
 *
 * The arena holds the tensors in registration order, each at a multiple of 64 bytes, with zero padding between, which
 * DDP_PAD_ROWS makes longer. Offsets depend on the layout alone, never on ranks or buckets; but where GPUs spread the
 * optimizer's state, zero_gpu.h moves the tensors further apart. */
#ifndef DDP_RUNTIME_GRADS_LAYOUT_H
#define DDP_RUNTIME_GRADS_LAYOUT_H

#include <stddef.h>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

#define LAYOUT_NAME_MAX 127
#define LAYOUT_DIMS_MAX 8
#define LAYOUT_ALIGN 64
#define LAYOUT_BYTES_MAX ((size_t)1 << 48) /* so that no multiple that is computed from it overflows */

struct layout_param {
    char name[LAYOUT_NAME_MAX + 1];
    enum ddp_dtype dtype;
    size_t shape[LAYOUT_DIMS_MAX];
    int ndim;
    unsigned flags;
    size_t n_elems, offset_bytes;
    size_t room_bytes; /* what it takes in the arena, padding included */
};

struct layout {
    struct layout_param *param;
    int n, room;
    size_t n_bytes; /* of the arena */
};

/* n_bytes, rounded up to where the next tensor may begin. */
static inline size_t layout_padded(size_t n_bytes)
{
    return (n_bytes + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
}

/* Appends a parameter; returns its index, or -1. A zeroed struct is an empty layout. */
int layout_add(struct layout *l, const char *name, enum ddp_dtype dtype, const size_t *shape, int ndim,
               unsigned flags, ddp_error_t *errp);
void layout_clear(struct layout *l);

/* The layout as text, one line per parameter ("wte f32 [256,128] flags 0\n"); malloc, the caller frees. NULL when
 * memory runs out. Two layouts are equal exactly when their texts are. */
char *layout_text(const struct layout *l);

/* For two texts that differ, of ranks a and b: fills *errp (DDP_E_LAYOUT) with the first parameter that differs (of a
 * long line the part that differs) and both ranks. Returns -1. */
int layout_explain(const char *text_a, int rank_a, const char *text_b, int rank_b, ddp_error_t *errp);

#endif
