/* safetensors.h - the head of a safetensors file (https://github.com/huggingface/safetensors, "Format"): 8 bytes, the
 * little-endian length of the JSON that follows; the JSON, an object of tensors {"dtype", "shape", "data_offsets"} and
 * "__metadata__"; then the tensors' bytes, without gaps. Pure. */
#ifndef DDP_RUNTIME_CKPT_SAFETENSORS_H
#define DDP_RUNTIME_CKPT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define ST_NAME_MAX 255
#define ST_DIMS_MAX 8
#define ST_HEAD_MAX ((size_t)100000000) /* of the JSON; the limit of the format's own reader */
#define ST_DATA_ALIGN 4096               /* our heads are padded with spaces so that the data begins at a multiple */

enum st_dtype { ST_F32, ST_F64, ST_BF16, ST_F16, ST_I64, ST_I32, ST_I16, ST_I8, ST_U8, ST_BOOL, ST_COUNT };
size_t st_dtype_size(enum st_dtype t);
const char *st_dtype_name(enum st_dtype t); /* "F32" */
int st_dtype_find(const char *name, enum st_dtype *ret); /* -1: no type has this name */

struct st_tensor {
    char name[ST_NAME_MAX + 1];
    enum st_dtype dtype;
    int ndim; /* 0: a scalar */
    uint64_t shape[ST_DIMS_MAX];
    uint64_t first, n_bytes; /* in the file's data, which begins after the head */
};

/* The tensor's bytes, from type and shape; -1: the product overflows, or type or shape is not possible. */
int st_bytes(const struct st_tensor *t, uint64_t *ret);

/* st_read_type: "dtype" and "shape" of a tensor in JSON, and the bytes that follow from them. st_make_shape: the shape
 * as JSON; NULL when memory is short. */
struct json_t;
int st_read_type(const struct json_t *tensor, struct st_tensor *ret);
struct json_t *st_make_shape(const struct st_tensor *t);

/* 1 to ST_NAME_MAX bytes of UTF-8, and not "__metadata__": else DDP_E_USAGE; DDP_E_SYSTEM: no memory. */
int st_check_name(const char *name, ddp_error_t *errp);

struct st_head {
    struct st_tensor *tensor; /* [n], by rising `first` */
    size_t n;
    uint64_t head_bytes; /* the 8 and the JSON: where the data begins */
    uint64_t data_bytes;
};

/* The head of a file that holds tensor[0..n) one after another in that order; `first` and n_bytes are ignored, and
 * follow from the shapes. "__metadata__" is {"format": "pt"}. The same tensors give the same bytes. malloc; the caller
 * frees. NULL: no memory, or more than ST_HEAD_MAX. */
char *st_encode(const struct st_tensor *tensor, size_t n, size_t *ret_bytes, ddp_error_t *errp);

/* How many bytes of the file st_decode needs, from its first 8; 0 with an error where these cannot begin a
 * safetensors file of file_bytes. */
size_t st_head_bytes(const unsigned char first[8], uint64_t file_bytes, ddp_error_t *errp);

/* Reads the head of a file of file_bytes, which may come from anyone: refuses a name that comes twice, a type that is
 * not in enum st_dtype, numbers that overflow, and tensors that overlap, leave a gap or do not end with the file.
 * Metadata must be strings. The caller frees *ret with st_clear. DDP_E_DATA. */
int st_decode(const char *head, size_t n, uint64_t file_bytes, struct st_head *ret, ddp_error_t *errp);
void st_clear(struct st_head *h); /* a zeroed struct is allowed */

#endif
