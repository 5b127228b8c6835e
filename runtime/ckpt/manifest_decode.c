#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json_limit.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/manifest_impl.h"

static const char what[] = MANIFEST_NAME;

/* ---- before anything else is believed ---- */

static int check_sum(const char *text, size_t n, ddp_error_t *errp)
{
    const size_t last = strlen(MANIFEST_LAST);
    bool ends = n > last + MANIFEST_TAIL_BYTES;
    const char *tail = ends ? text + n - MANIFEST_TAIL_BYTES : text;
    char sum[32];
    if (!ends || memcmp(tail - last, MANIFEST_LAST, last))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s does not end with its checksum: it is truncated, or no manifest",
                         what);
    snprintf(sum, sizeof sum, "\"%016" PRIx64 "\"\n}\n", checksum_bytes(text, (size_t)(tail - text)));
    if (memcmp(tail, sum, MANIFEST_TAIL_BYTES))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s does not have its own checksum: it was damaged", what);
    return 0;
}

static int check_version(const json_t *root, ddp_error_t *errp)
{
    char format[64];
    uint64_t version;
    if (members_text(json_object_get(root, "format"), format, sizeof format) < 0 || strcmp(format, MANIFEST_FORMAT))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s is not of a " MANIFEST_FORMAT, what);
    if (members_u64(json_object_get(root, "version"), UINT64_MAX, &version) < 0)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s lacks version", what);
    if (version != MANIFEST_VERSION)
        return error_set(errp, DDP_E_DATA, ENOTSUP, "%s has version %" PRIu64 ", this software reads %d: use the one "
                         "that wrote it, or a newer one", what, version, MANIFEST_VERSION);
    return 0;
}

/* ---- members ---- */

static int read_field(const json_t *value, const struct manifest_field *f, struct manifest_state *s)
{
    char *at = (char *)s + f->offset;
    switch (f->type) {
    case FIELD_U64: return members_u64(value, UINT64_MAX, (uint64_t *)at);
    case FIELD_INT: return members_int(value, (int *)at);
    case FIELD_TEXT: return members_text(value, at, f->size);
    case FIELD_REAL: break;
    }
    *(double *)at = json_number_value(value);
    return json_is_number(value) && *(double *)at >= 0 ? 0 : -1;
}

static int read_state(const json_t *root, struct manifest_state *s, ddp_error_t *errp)
{
    for (int i = 0; i < MANIFEST_FIELDS; i++) {
        const struct manifest_field *f = &manifest_field[i];
        const json_t *object = f->object ? json_object_get(root, f->object) : root;
        if (f->is_later && !object)
            continue;
        if (read_field(json_object_get(object, f->name), f, s) < 0)
            return error_set(errp, DDP_E_DATA, EINVAL, "%s: no %s%s%s, or not one that is possible", what,
                             f->object ? f->object : "", f->object ? "." : "", f->name);
    }
    return 0;
}

static int read_file(const json_t *value, struct manifest_file *f)
{
    if (members_text(json_object_get(value, "name"), f->name, sizeof f->name) < 0 ||
        members_u64(json_object_get(value, "bytes"), INT64_MAX, &f->n_bytes) < 0 ||
        members_u64(json_object_get(value, "head_bytes"), f->n_bytes, &f->head_bytes) < 0 ||
        members_checksum(json_object_get(value, "checksum"), &f->checksum) < 0)
        return -1;
    return files_is_plain_name(f->name) && strcmp(f->name, MANIFEST_NAME) ? 0 : -1;
}

static int read_tensor(const char *name, const json_t *value, struct manifest_tensor *t)
{
    if (name[0] == 0 || strlen(name) > ST_NAME_MAX)
        return -1;
    memcpy(t->at.t.name, name, strlen(name) + 1);
    return members_int(json_object_get(value, "file"), &t->at.file) < 0 ||
           members_u64(json_object_get(value, "at"), INT64_MAX, &t->at.at_bytes) < 0 ||
           st_read_type(value, &t->at.t) < 0 ||
           members_checksum(json_object_get(value, "checksum"), &t->checksum) < 0 ? -1 : 0;
}

static int read_lists(const json_t *root, struct manifest *m, ddp_error_t *errp)
{
    const json_t *files = json_object_get(root, "files");
    json_t *tensors = json_object_get(root, "tensors"), *value;
    const char *name;
    if (!json_is_array(files) || !json_is_object(tensors))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s lacks files or tensors", what);
    if (json_object_size(tensors) > JSON_TENSORS_MAX)
        return error_set(errp, DDP_E_DATA, E2BIG, "%s lists more than %u tensors", what, JSON_TENSORS_MAX);
    m->file = calloc(json_array_size(files) + 1, sizeof *m->file);
    m->tensor = calloc(json_object_size(tensors) + 1, sizeof *m->tensor);
    if (!m->file || !m->tensor)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for what %s lists", what);
    for (; m->n_files < json_array_size(files); m->n_files++)
        if (read_file(json_array_get(files, m->n_files), &m->file[m->n_files]) < 0)
            return error_set(errp, DDP_E_DATA, EINVAL, "%s: file %zu lacks name, bytes, head_bytes or checksum, or has "
                             "one that is not possible", what, m->n_files);
    json_object_foreach(tensors, name, value) {
        if (read_tensor(name, value, &m->tensor[m->n_tensors]) < 0)
            return error_set(errp, DDP_E_DATA, EINVAL, "%s: tensor %s lacks file, at, dtype, shape or checksum, or has "
                             "one that is not possible", what, name);
        m->n_tensors++;
    }
    return 0;
}

/* ---- what it says, held together ---- */

/* Tensors are the members of one object: none is there twice. */
static int check_names(const struct manifest *m, ddp_error_t *errp)
{
    const char *twice, **name = malloc((m->n_files + 1) * sizeof *name);
    if (!name)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the names in %s", what);
    for (size_t i = 0; i < m->n_files; i++)
        name[i] = m->file[i].name;
    twice = members_twice(name, m->n_files);
    free(name);
    return twice ? error_set(errp, DDP_E_DATA, EINVAL, "%s names %s twice", what, twice) : 0;
}

static int by_place(const void *a, const void *b)
{
    const struct files_tensor *x = &(*(struct manifest_tensor *const *)a)->at;
    const struct files_tensor *y = &(*(struct manifest_tensor *const *)b)->at;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->at_bytes != y->at_bytes)
        return x->at_bytes < y->at_bytes ? -1 : 1;
    return x->t.n_bytes < y->t.n_bytes ? -1 : x->t.n_bytes > y->t.n_bytes;
}

/* tensor[0..n) by rising place: those of each file fill it. */
static int check_places(struct manifest *m, struct manifest_tensor **tensor, ddp_error_t *errp)
{
    size_t k = 0;
    for (size_t i = 0; i < m->n_files; i++) {
        uint64_t end = m->file[i].head_bytes;
        for (; k < m->n_tensors && (size_t)tensor[k]->at.file == i; k++) {
            struct files_tensor *at = &tensor[k]->at;
            if (at->at_bytes != end || at->t.n_bytes > INT64_MAX - end)
                return error_set(errp, DDP_E_DATA, EINVAL, "%s: tensor %s begins at byte %" PRIu64 " of %s, not at %"
                                 PRIu64, what, at->t.name, at->at_bytes, m->file[i].name, end);
            at->t.first = end - m->file[i].head_bytes;
            end += at->t.n_bytes;
        }
        if (end != m->file[i].n_bytes)
            return error_set(errp, DDP_E_DATA, EINVAL, "%s: %s has %" PRIu64 " bytes, its tensors end at %" PRIu64,
                             what, m->file[i].name, m->file[i].n_bytes, end);
    }
    if (k < m->n_tensors)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s: tensor %s lies in file %d of %zu", what, tensor[k]->at.t.name,
                         tensor[k]->at.file, m->n_files);
    return 0;
}

static int check_tensors(struct manifest *m, ddp_error_t *errp)
{
    struct manifest_tensor **tensor = malloc((m->n_tensors + 1) * sizeof *tensor);
    if (!tensor)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the tensors in %s", what);
    for (size_t i = 0; i < m->n_tensors; i++)
        tensor[i] = &m->tensor[i];
    if (m->n_tensors)
        qsort(tensor, m->n_tensors, sizeof *tensor, by_place);
    int rc = check_places(m, tensor, errp);
    free(tensor);
    return rc;
}

static int decode(json_t *root, struct manifest *m, ddp_error_t *errp)
{
    return check_version(root, errp) < 0 || read_state(root, &m->state, errp) < 0 || read_lists(root, m, errp) < 0 ||
           check_names(m, errp) < 0 || check_tensors(m, errp) < 0 ? -1 : 0;
}

int manifest_decode(const char *text, size_t n, struct manifest *ret, ddp_error_t *errp)
{
    struct manifest m = {0};
    if (n > MANIFEST_BYTES_MAX)
        return error_set(errp, DDP_E_DATA, EFBIG, "%s is larger than any manifest, %d MiB", what, MANIFEST_MIB_MAX);
    if (check_sum(text, n, errp) < 0)
        return -1;
    json_t *root = members_read(text, n, what, errp);
    if (!root)
        return -1;
    int rc = decode(root, &m, errp);
    json_decref(root);
    if (rc < 0)
        manifest_clear(&m);
    else
        *ret = m;
    return rc;
}
