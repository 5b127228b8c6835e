#include "runtime/ckpt/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/bytes.h"
#include "runtime/ckpt/safetensors_impl.h"

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
        if (__builtin_mul_overflow(n, t->shape[i], &n))
            return -1;
    if (n > INT64_MAX) /* a file is not larger */
        return -1;
    *ret = n;
    return 0;
}

int st_check_name(const char *name, ddp_error_t *errp)
{
    size_t n = strnlen(name, ST_NAME_MAX + 1);
    if (n == 0 || n > ST_NAME_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "a tensor's name has 1 to %d bytes, not %zu", ST_NAME_MAX, n);
    if (!strcmp(name, METADATA))
        return error_set(errp, DDP_E_USAGE, EINVAL, "no tensor can be named " METADATA);
    for (size_t i = 0, k; i < n; i += k)
        if ((k = json_character(name + i, name + n)) == 0)
            return error_set(errp, DDP_E_USAGE, EINVAL, "the name of tensor \"%s\" is not UTF-8", name);
    return 0;
}

/* ---- writing ---- */

void st_add_type(struct json_text *t, const struct st_tensor *one)
{
    json_add(t, "\"dtype\":\"%s\",\"shape\":[", st_dtype_name(one->dtype));
    for (int i = 0; i < one->ndim; i++)
        json_add(t, i ? ",%" PRIu64 : "%" PRIu64, one->shape[i]);
    json_add(t, "]");
}

static void add_tensor(struct json_text *t, const struct st_tensor *one, uint64_t first, uint64_t n_bytes)
{
    json_add(t, ",");
    json_add_string(t, one->name);
    json_add(t, ":{");
    st_add_type(t, one);
    json_add(t, ",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", first, first + n_bytes);
}

static int add_all(struct json_text *t, const struct st_tensor *tensor, size_t n, ddp_error_t *errp)
{
    uint64_t first = 0, n_bytes;
    json_add(t, "{\"" METADATA "\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < n; i++) {
        if (st_check_name(tensor[i].name, errp) < 0)
            return -1;
        if (st_bytes(&tensor[i], &n_bytes) < 0 || n_bytes > INT64_MAX - first)
            return error_set(errp, DDP_E_USAGE, EOVERFLOW, "tensor %s: its type or shape is not possible in a file",
                             tensor[i].name);
        add_tensor(t, &tensor[i], first, n_bytes);
        first += n_bytes;
        if (t->n > ST_HEAD_MAX)
            return error_set(errp, DDP_E_USAGE, EFBIG, "the head of a safetensors file would be larger than %zu bytes",
                             ST_HEAD_MAX);
    }
    json_add(t, "}");
    return 0;
}

char *st_encode(const struct st_tensor *tensor, size_t n, size_t *ret_bytes, ddp_error_t *errp)
{
    struct json_text t = {0};
    json_add(&t, "%8s", ""); /* the length, at last */
    if (add_all(&t, tensor, n, errp) < 0) {
        free(t.p);
        return NULL;
    }
    json_add(&t, "%*s", (int)((ST_DATA_ALIGN - t.n % ST_DATA_ALIGN) % ST_DATA_ALIGN), "");
    if (t.is_short) {
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the head of a safetensors file");
        return NULL;
    }
    bytes_put32((unsigned char *)t.p, (uint32_t)(t.n - LENGTH_BYTES));
    bytes_put32((unsigned char *)t.p + 4, 0);
    *ret_bytes = t.n;
    return t.p;
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

int st_read_dtype(struct json *j, enum st_dtype *ret)
{
    char name[16];
    if (json_string(j, name, sizeof name) < 0 || st_dtype_find(name, ret) < 0)
        return json_refuse(j, "not a type that is known here");
    return 0;
}

int st_read_shape(struct json *j, struct st_tensor *t)
{
    bool first;
    int more;
    t->ndim = 0;
    if (json_array(j, &first) < 0)
        return -1;
    while ((more = json_item(j, &first)) == 1) {
        if (t->ndim == ST_DIMS_MAX)
            return json_refuse(j, "a tensor of too many dimensions");
        if (json_u64(j, INT64_MAX, &t->shape[t->ndim++]) < 0)
            return -1;
    }
    return more;
}

static int read_metadata(struct json *j)
{
    char key[ST_NAME_MAX + 1];
    bool first;
    int more;
    if (json_object(j, &first) < 0)
        return -1;
    while ((more = json_member(j, &first, key, sizeof key)) == 1)
        if (json_skip_string(j) < 0)
            return -1;
    return more;
}

static int read_offsets(struct json *j, uint64_t offset[2])
{
    bool first;
    for (int i = 0; i < 2; i++)
        if ((i == 0 && json_array(j, &first) < 0) || json_item(j, &first) != 1 ||
            json_u64(j, INT64_MAX, &offset[i]) < 0)
            return json_refuse(j, "data_offsets are not two numbers");
    return json_item(j, &first) == 0 ? 0 : json_refuse(j, "data_offsets are not two numbers");
}

/* One tensor's value; its name is set. */
static int read_tensor(struct json *j, struct st_tensor *t)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4, ALL = 7 };
    uint64_t offset[2], n_bytes;
    char key[ST_NAME_MAX + 1];
    int more, seen = 0;
    bool first;
    if (json_object(j, &first) < 0)
        return -1;
    while ((more = json_member(j, &first, key, sizeof key)) == 1) {
        int is = !strcmp(key, "dtype") ? DTYPE : !strcmp(key, "shape") ? SHAPE
                 : !strcmp(key, "data_offsets") ? OFFSETS : 0;
        if (seen & is)
            return json_refuse(j, "dtype, shape or data_offsets twice");
        seen |= is;
        int rc = is == DTYPE ? st_read_dtype(j, &t->dtype) : is == SHAPE ? st_read_shape(j, t)
                 : is == OFFSETS ? read_offsets(j, offset) : json_skip(j);
        if (rc < 0)
            return -1;
    }
    if (more < 0)
        return -1;
    if (seen != ALL)
        return json_refuse(j, "a tensor without dtype, shape or data_offsets");
    if (st_bytes(t, &n_bytes) < 0)
        return json_refuse(j, "a tensor too large for any file");
    if (offset[1] < offset[0] || offset[1] - offset[0] != n_bytes)
        return json_refuse(j, "data_offsets that do not fit type and shape");
    t->first = offset[0];
    t->n_bytes = n_bytes;
    return 0;
}

static int read_all(struct json *j, struct st_head *h)
{
    char key[ST_NAME_MAX + 1];
    bool first, has_metadata = false;
    size_t room = 0;
    int more;
    if (json_object(j, &first) < 0)
        return -1;
    while ((more = json_member(j, &first, key, sizeof key)) == 1) {
        if (!strcmp(key, METADATA)) {
            if (has_metadata)
                return json_refuse(j, METADATA " twice");
            has_metadata = true;
            if (read_metadata(j) < 0)
                return -1;
            continue;
        }
        if (key[0] == 0)
            return json_refuse(j, "a tensor without a name");
        if (array_grow((void **)&h->tensor, h->n, &room, sizeof *h->tensor) < 0)
            return json_refuse(j, "no memory for so many tensors");
        struct st_tensor *t = &h->tensor[h->n];
        memset(t, 0, sizeof *t);
        memcpy(t->name, key, strlen(key) + 1);
        if (read_tensor(j, t) < 0)
            return -1;
        h->n++;
    }
    return more < 0 ? -1 : json_end(j);
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

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *st_find_twice(const char **name, size_t n)
{
    if (n)
        qsort(name, n, sizeof *name, by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(name[i - 1], name[i]))
            return name[i];
    return NULL;
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

/* The tensors, sorted here, fill the data; no name is there twice. */
static int check_all(struct st_head *h, ddp_error_t *errp)
{
    uint64_t end = 0;
    const char **name = malloc((h->n + 1) * sizeof *name), *twice;
    if (!name)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the names of %zu tensors", h->n);
    for (size_t i = 0; i < h->n; i++)
        name[i] = h->tensor[i].name;
    twice = st_find_twice(name, h->n);
    free(name);
    if (twice)
        return error_set(errp, DDP_E_DATA, EINVAL, "two tensors are named %s", twice);
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
    struct json j;
    struct st_head h = {.head_bytes = n};
    if (n < LENGTH_BYTES)
        return error_set(errp, DDP_E_DATA, EINVAL, "not a safetensors file: %zu bytes", n);
    size_t wants = st_head_bytes((const unsigned char *)head, file_bytes, errp);
    if (wants == 0)
        return -1;
    if (wants != n)
        return error_set(errp, DDP_E_DATA, EINVAL, "the head has %zu bytes, not %zu", wants, n);
    h.data_bytes = file_bytes - n;
    json_begin(&j, head + LENGTH_BYTES, n - LENGTH_BYTES);
    if (read_all(&j, &h) < 0)
        json_fail(&j, "the head of a safetensors file", errp);
    else if (check_all(&h, errp) == 0) {
        *ret = h;
        return 0;
    }
    st_clear(&h);
    return -1;
}

void st_clear(struct st_head *h)
{
    free(h->tensor);
    *h = (struct st_head){0};
}
