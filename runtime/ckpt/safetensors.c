#include "runtime/ckpt/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/ckpt/members.h"

#define METADATA "__metadata__"
#define LENGTH_BYTES 8

static const struct {
    const char *name;
    size_t size;
} types[ST_COUNT] = {
    [ST_F32] = {"F32", 4}, [ST_F64] = {"F64", 8}, [ST_BF16] = {"BF16", 2}, [ST_F16] = {"F16", 2},
    [ST_I64] = {"I64", 8}, [ST_I32] = {"I32", 4}, [ST_I16] = {"I16", 2},   [ST_I8] = {"I8", 1},
    [ST_U8] = {"U8", 1},   [ST_BOOL] = {"BOOL", 1},
};

size_t st_dtype_size(enum st_dtype t)
{
    return (unsigned)t < ST_COUNT ? types[t].size : 0;
}

const char *st_dtype_name(enum st_dtype t)
{
    return (unsigned)t < ST_COUNT ? types[t].name : "unknown";
}

int st_dtype_find(const char *name, enum st_dtype *ret)
{
    for (int i = 0; i < ST_COUNT; i++)
        if (!strcmp(name, types[i].name))
            return *ret = (enum st_dtype)i, 0;
    return -1;
}

int st_bytes(const struct st_tensor *t, uint64_t *ret)
{
    uint64_t n = st_dtype_size(t->dtype);
    if (n == 0 || t->ndim < 0 || t->ndim > ST_DIMS_MAX)
        return -1;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > INT64_MAX || __builtin_mul_overflow(n, t->shape[i], &n) || n > INT64_MAX)
            return -1;
    *ret = n;
    return 0;
}

int st_read_type(const json_t *tensor, struct st_tensor *ret)
{
    const json_t *dtype = json_object_get(tensor, "dtype"), *shape = json_object_get(tensor, "shape");
    if (!json_is_string(dtype) || st_dtype_find(json_string_value(dtype), &ret->dtype) < 0)
        return -1;
    if (!json_is_array(shape) || json_array_size(shape) > ST_DIMS_MAX)
        return -1;
    ret->ndim = (int)json_array_size(shape);
    for (int i = 0; i < ret->ndim; i++)
        if (members_u64(json_array_get(shape, (size_t)i), INT64_MAX, &ret->shape[i]) < 0)
            return -1;
    return st_bytes(ret, &ret->n_bytes);
}

json_t *st_make_shape(const struct st_tensor *t)
{
    json_t *shape = json_array();
    for (int i = 0; shape && i < t->ndim; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)t->shape[i])) < 0) {
            json_decref(shape);
            shape = NULL;
        }
    return shape;
}

int st_check_name(const char *name, ddp_error_t *errp)
{
    size_t n = strnlen(name, ST_NAME_MAX + 1);
    if (n == 0 || n > ST_NAME_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "a tensor's name has 1 to %d bytes, not %zu", ST_NAME_MAX, n);
    if (!strcmp(name, METADATA))
        return error_set(errp, DDP_E_USAGE, EINVAL, "no tensor can be named " METADATA);
    errno = 0;
    json_t *text = json_string(name);
    if (!text && errno == ENOMEM)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the name of tensor \"%s\"", name);
    if (!text)
        return error_set(errp, DDP_E_USAGE, EILSEQ, "the name of tensor \"%s\" is not UTF-8", name);
    json_decref(text);
    return 0;
}

/* ---- writing ---- */

static int add_tensor(json_t *root, const struct st_tensor *t, uint64_t *end, ddp_error_t *errp)
{
    uint64_t n_bytes;
    if (st_check_name(t->name, errp) < 0)
        return -1;
    if (json_object_get(root, t->name))
        return error_set(errp, DDP_E_USAGE, EEXIST, "two tensors are named %s", t->name);
    if (st_bytes(t, &n_bytes) < 0 || n_bytes > INT64_MAX - *end)
        return error_set(errp, DDP_E_USAGE, EOVERFLOW, "tensor %s: its type or shape is not possible in a file",
                         t->name);
    json_t *one = json_pack("{s:s,s:o,s:[I,I]}", "dtype", st_dtype_name(t->dtype), "shape", st_make_shape(t),
                            "data_offsets", (json_int_t)*end, (json_int_t)(*end + n_bytes));
    *end += n_bytes;
    if (json_object_set_new(root, t->name, one) < 0)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the head of a safetensors file");
    return 0;
}

/* The JSON with its length before it, and spaces after it. */
static char *make_head(const json_t *root, size_t *ret_bytes, ddp_error_t *errp)
{
    char *json = json_dumps(root, JSON_COMPACT), *head = NULL;
    size_t n = json ? strlen(json) : 0, all = (LENGTH_BYTES + n + ST_DATA_ALIGN - 1) / ST_DATA_ALIGN * ST_DATA_ALIGN;
    if (all - LENGTH_BYTES > ST_HEAD_MAX)
        error_set(errp, DDP_E_USAGE, EFBIG, "the head of a safetensors file would have more than %zu bytes",
                  ST_HEAD_MAX);
    else if (!json || !(head = malloc(all)))
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the head of a safetensors file");
    if (head) {
        bytes_put32((unsigned char *)head, (uint32_t)(all - LENGTH_BYTES));
        bytes_put32((unsigned char *)head + 4, 0);
        memcpy(head + LENGTH_BYTES, json, n);
        memset(head + LENGTH_BYTES + n, ' ', all - LENGTH_BYTES - n);
        *ret_bytes = all;
    }
    free(json);
    return head;
}

char *st_encode(const struct st_tensor *tensor, size_t n, size_t *ret_bytes, ddp_error_t *errp)
{
    uint64_t end = 0;
    size_t i = 0;
    char *head = NULL;
    json_t *root = json_pack("{s:{s:s}}", METADATA, "format", "pt");
    if (!root)
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the head of a safetensors file");
    else
        for (; i < n && add_tensor(root, &tensor[i], &end, errp) == 0; i++)
            ;
    if (root && i == n)
        head = make_head(root, ret_bytes, errp);
    json_decref(root);
    return head;
}

/* ---- reading ---- */

size_t st_head_bytes(const unsigned char first[8], uint64_t file_bytes, ddp_error_t *errp)
{
    uint64_t n = bytes_get32(first) | (uint64_t)bytes_get32(first + 4) << 32;
    if (n < 2 || n > ST_HEAD_MAX || file_bytes < LENGTH_BYTES || n > file_bytes - LENGTH_BYTES) {
        error_set(errp, DDP_E_DATA, EINVAL,
                  "not a safetensors file, or truncated: a head of %" PRIu64 " bytes in a file of %" PRIu64, n,
                  file_bytes);
        return 0;
    }
    return (size_t)n + LENGTH_BYTES;
}

static const char what[] = "the head of a safetensors file";

static int read_metadata(const json_t *metadata, ddp_error_t *errp)
{
    const char *key;
    json_t *value;
    if (metadata && !json_is_object(metadata))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: " METADATA " is not an object", what);
    json_object_foreach((json_t *)metadata, key, value)
        if (!json_is_string(value))
            return error_set(errp, DDP_E_DATA, EINVAL, "%s: " METADATA " holds what is not a string", what);
    return 0;
}

static int read_tensor(const char *name, const json_t *value, struct st_tensor *t, ddp_error_t *errp)
{
    const json_t *offsets = json_object_get(value, "data_offsets");
    uint64_t end;
    if (name[0] == 0 || strlen(name) > ST_NAME_MAX)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: a tensor's name has %zu bytes, not 1 to %d", what, strlen(name),
                         ST_NAME_MAX);
    memcpy(t->name, name, strlen(name) + 1);
    if (st_read_type(value, t) < 0)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: tensor %s: no type and shape that are known and possible", what,
                         name);
    if (json_array_size(offsets) != 2 || members_u64(json_array_get(offsets, 0), INT64_MAX, &t->first) < 0 ||
        members_u64(json_array_get(offsets, 1), INT64_MAX, &end) < 0)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: tensor %s: data_offsets are not two numbers", what, name);
    if (end < t->first || end - t->first != t->n_bytes)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: tensor %s: data_offsets do not fit type and shape", what, name);
    return 0;
}

static int read_all(json_t *root, struct st_head *h, ddp_error_t *errp)
{
    const char *key;
    json_t *value;
    if (read_metadata(json_object_get(root, METADATA), errp) < 0)
        return -1;
    h->tensor = calloc(json_object_size(root) + 1, sizeof *h->tensor);
    if (!h->tensor)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu tensors", json_object_size(root));
    json_object_foreach(root, key, value) {
        if (!strcmp(key, METADATA))
            continue;
        if (read_tensor(key, value, &h->tensor[h->n], errp) < 0)
            return -1;
        h->n++;
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* What is in order, as our own heads are, stays as it is: empty tensors, too, which begin where the next one does. */
static void sort(struct st_head *h)
{
    size_t i = 1;
    while (i < h->n && (h->tensor[i - 1].first < h->tensor[i].first ||
                        (h->tensor[i - 1].first == h->tensor[i].first && h->tensor[i - 1].n_bytes == 0)))
        i++;
    if (i < h->n)
        qsort(h->tensor, h->n, sizeof *h->tensor, by_place);
}

/* The tensors, sorted here, fill the data. */
static int check_all(struct st_head *h, ddp_error_t *errp)
{
    uint64_t end = 0;
    sort(h);
    for (size_t i = 0; i < h->n; end += h->tensor[i++].n_bytes)
        if (h->tensor[i].first != end)
            return error_set(errp, DDP_E_DATA, EINVAL, "tensor %s begins at byte %" PRIu64 " of the data, not at %"
                             PRIu64, h->tensor[i].name, h->tensor[i].first, end);
    if (end != h->data_bytes)
        return error_set(errp, DDP_E_DATA, EINVAL, "the tensors have %" PRIu64 " bytes, the file has %" PRIu64
                         " after its head", end, h->data_bytes);
    return 0;
}

int st_decode(const char *head, size_t n, uint64_t file_bytes, struct st_head *ret, ddp_error_t *errp)
{
    struct st_head h = {.head_bytes = n};
    if (n < LENGTH_BYTES)
        return error_set(errp, DDP_E_DATA, EINVAL, "not a safetensors file: %zu bytes", n);
    size_t wants = st_head_bytes((const unsigned char *)head, file_bytes, errp);
    if (wants == 0)
        return -1;
    if (wants != n)
        return error_set(errp, DDP_E_DATA, EINVAL, "the head has %zu bytes, not %zu", wants, n);
    h.data_bytes = file_bytes - n;
    json_t *root = members_read(head + LENGTH_BYTES, n - LENGTH_BYTES, what, errp);
    if (!root)
        return -1;
    int rc = read_all(root, &h, errp) < 0 ? -1 : check_all(&h, errp);
    json_decref(root);
    if (rc < 0)
        st_clear(&h);
    else
        *ret = h;
    return rc;
}

void st_clear(struct st_head *h)
{
    free(h->tensor);
    *h = (struct st_head){0};
}
