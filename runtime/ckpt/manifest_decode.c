#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/manifest_impl.h"
#include "runtime/ckpt/safetensors_impl.h"

struct decoder {
    struct json j;
    struct manifest m;
    size_t file_room, tensor_room;
    uint64_t seen; /* bit i: manifest_field[i] was read; then the bits below */
};

enum { SEEN_FILES = MANIFEST_FIELDS, SEEN_TENSORS, SEEN_FORMAT, SEEN_VERSION };

static const char what[] = MANIFEST_NAME;

/* ---- members ---- */

static int read_checksum(struct json *j, uint64_t *ret)
{
    char hex[17];
    uint64_t v = 0;
    if (json_string(j, hex, sizeof hex) < 0 || strlen(hex) != 16 || strspn(hex, "0123456789abcdef") != 16)
        return json_refuse(j, "a checksum that is not 16 hexadecimal digits");
    for (const char *p = hex; *p; p++)
        v = v << 4 | (uint64_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
    *ret = v;
    return 0;
}

static int read_int(struct json *j, int *ret)
{
    uint64_t v;
    if (json_u64(j, INT_MAX, &v) < 0)
        return -1;
    *ret = (int)v;
    return 0;
}

static int mark(struct decoder *d, int bit)
{
    if (d->seen >> bit & 1)
        return json_refuse(&d->j, "a member that is there twice");
    d->seen |= (uint64_t)1 << bit;
    return 0;
}

static int read_field(struct decoder *d, int i)
{
    const struct manifest_field *f = &manifest_field[i];
    char *at = (char *)&d->m.state + f->offset;
    uint64_t us;
    if (mark(d, i) < 0)
        return -1;
    switch (f->type) {
    case FIELD_U64: return json_u64(&d->j, UINT64_MAX, (uint64_t *)at);
    case FIELD_INT: return read_int(&d->j, (int *)at);
    case FIELD_TEXT: return json_string(&d->j, at, f->size);
    case FIELD_SECONDS:
        if (json_millionths(&d->j, &us) < 0)
            return -1;
        *(double *)at = (double)us / 1e6;
    }
    return 0;
}

/* The field of that name; -1: nobody knows it. */
static int find_field(const char *object, const char *name)
{
    for (int i = 0; i < MANIFEST_FIELDS; i++) {
        const struct manifest_field *f = &manifest_field[i];
        if (!strcmp(f->name, name) && (object ? f->object && !strcmp(f->object, object) : !f->object))
            return i;
    }
    return -1;
}

static bool is_object(const char *name)
{
    for (int i = 0; i < MANIFEST_FIELDS; i++)
        if (manifest_field[i].object && !strcmp(manifest_field[i].object, name))
            return true;
    return false;
}

static int read_object(struct decoder *d, const char *object)
{
    char key[ST_NAME_MAX + 1];
    bool first;
    int more;
    if (json_object(&d->j, &first) < 0)
        return -1;
    while ((more = json_member(&d->j, &first, key, sizeof key)) == 1) {
        int i = find_field(object, key);
        if ((i < 0 ? json_skip(&d->j) : read_field(d, i)) < 0)
            return -1;
    }
    return more;
}

static int read_file(struct json *j, struct manifest_file *f)
{
    enum { NAME = 1, BYTES = 2, HEAD = 4, SUM = 8, ALL = 15 };
    char key[ST_NAME_MAX + 1];
    int more, seen = 0, rc;
    bool first;
    if (json_object(j, &first) < 0)
        return -1;
    while ((more = json_member(j, &first, key, sizeof key)) == 1) {
        int is = !strcmp(key, "name") ? NAME : !strcmp(key, "bytes") ? BYTES : !strcmp(key, "head_bytes") ? HEAD
                 : !strcmp(key, "checksum") ? SUM : 0;
        if (seen & is)
            return json_refuse(j, "a member of a file that is there twice");
        seen |= is;
        switch (is) {
        case NAME: rc = json_string(j, f->name, sizeof f->name); break;
        case BYTES: rc = json_u64(j, INT64_MAX, &f->n_bytes); break;
        case HEAD: rc = json_u64(j, INT64_MAX, &f->head_bytes); break;
        case SUM: rc = read_checksum(j, &f->checksum); break;
        default: rc = json_skip(j);
        }
        if (rc < 0)
            return -1;
    }
    if (more < 0)
        return -1;
    if (seen != ALL || f->head_bytes > f->n_bytes)
        return json_refuse(j, "a file without name, bytes, head_bytes or checksum, or smaller than its head");
    return files_is_plain_name(f->name) && strcmp(f->name, MANIFEST_NAME) ? 0 : json_refuse(j, "a file of such a name");
}

static int read_files(struct decoder *d)
{
    struct manifest *m = &d->m;
    bool first;
    int more;
    if (json_array(&d->j, &first) < 0)
        return -1;
    while ((more = json_item(&d->j, &first)) == 1) {
        if (array_grow((void **)&m->file, m->n_files, &d->file_room, sizeof *m->file) < 0)
            return json_refuse(&d->j, "no memory for so many files");
        memset(&m->file[m->n_files], 0, sizeof *m->file);
        if (read_file(&d->j, &m->file[m->n_files]) < 0)
            return -1;
        m->n_files++;
    }
    return more;
}

static int read_tensor(struct json *j, struct manifest_tensor *t)
{
    enum { FILE_NO = 1, AT = 2, DTYPE = 4, SHAPE = 8, SUM = 16, ALL = 31 };
    char key[ST_NAME_MAX + 1];
    int more, seen = 0, rc;
    bool first;
    if (json_object(j, &first) < 0)
        return -1;
    while ((more = json_member(j, &first, key, sizeof key)) == 1) {
        int is = !strcmp(key, "file") ? FILE_NO : !strcmp(key, "at") ? AT : !strcmp(key, "dtype") ? DTYPE
                 : !strcmp(key, "shape") ? SHAPE : !strcmp(key, "checksum") ? SUM : 0;
        if (seen & is)
            return json_refuse(j, "a member of a tensor that is there twice");
        seen |= is;
        switch (is) {
        case FILE_NO: rc = read_int(j, &t->at.file); break;
        case AT: rc = json_u64(j, INT64_MAX, &t->at.at_bytes); break;
        case DTYPE: rc = st_read_dtype(j, &t->at.t.dtype); break;
        case SHAPE: rc = st_read_shape(j, &t->at.t); break;
        case SUM: rc = read_checksum(j, &t->checksum); break;
        default: rc = json_skip(j);
        }
        if (rc < 0)
            return -1;
    }
    if (more < 0)
        return -1;
    if (seen != ALL)
        return json_refuse(j, "a tensor without file, at, dtype, shape or checksum");
    return st_bytes(&t->at.t, &t->at.t.n_bytes) == 0 ? 0 : json_refuse(j, "a tensor too large for any file");
}

static int read_tensors(struct decoder *d)
{
    struct manifest *m = &d->m;
    char key[ST_NAME_MAX + 1];
    bool first;
    int more;
    if (json_object(&d->j, &first) < 0)
        return -1;
    while ((more = json_member(&d->j, &first, key, sizeof key)) == 1) {
        if (key[0] == 0)
            return json_refuse(&d->j, "a tensor without a name");
        if (array_grow((void **)&m->tensor, m->n_tensors, &d->tensor_room, sizeof *m->tensor) < 0)
            return json_refuse(&d->j, "no memory for so many tensors");
        struct manifest_tensor *t = &m->tensor[m->n_tensors];
        memset(t, 0, sizeof *t);
        memcpy(t->at.t.name, key, strlen(key) + 1);
        if (read_tensor(&d->j, t) < 0)
            return -1;
        m->n_tensors++;
    }
    return more;
}

static int read_member(struct decoder *d, const char *key)
{
    if (!strcmp(key, "files"))
        return mark(d, SEEN_FILES) < 0 ? -1 : read_files(d);
    if (!strcmp(key, "tensors"))
        return mark(d, SEEN_TENSORS) < 0 ? -1 : read_tensors(d);
    if (is_object(key))
        return read_object(d, key);
    int i = find_field(NULL, key);
    return i < 0 ? json_skip(&d->j) : read_field(d, i);
}

static int read_all(struct decoder *d, int read(struct decoder *, const char *))
{
    char key[ST_NAME_MAX + 1];
    bool first;
    int more;
    if (json_object(&d->j, &first) < 0)
        return -1;
    while ((more = json_member(&d->j, &first, key, sizeof key)) == 1)
        if (read(d, key) < 0)
            return -1;
    return more < 0 ? -1 : json_end(&d->j);
}

/* ---- before anything else is believed: the checksum, then format and version ---- */

static int check_sum(const char *text, size_t n, ddp_error_t *errp)
{
    struct json j;
    uint64_t sum;
    const size_t last = strlen(MANIFEST_LAST);
    bool ends = n > last + MANIFEST_TAIL_BYTES && n <= MANIFEST_BYTES_MAX;
    const char *tail = ends ? text + n - MANIFEST_TAIL_BYTES : text;
    if (!ends || memcmp(tail - last, MANIFEST_LAST, last) || memcmp(text + n - 3, "\n}\n", 3))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s does not end with its checksum: it is truncated, or no manifest",
                         what);
    json_begin(&j, tail, MANIFEST_TAIL_BYTES - 3);
    if (read_checksum(&j, &sum) < 0 || sum != checksum_bytes(text, (size_t)(tail - text)))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s does not have its own checksum: it was damaged", what);
    return 0;
}

static int read_kind(struct decoder *d, const char *key)
{
    char format[64];
    uint64_t version;
    if (!strcmp(key, "format")) {
        if (mark(d, SEEN_FORMAT) < 0 || json_string(&d->j, format, sizeof format) < 0)
            return -1;
        return strcmp(format, MANIFEST_FORMAT) ? json_refuse(&d->j, "not a checkpoint of slurm-ddp") : 0;
    }
    if (strcmp(key, "version"))
        return json_skip(&d->j);
    if (mark(d, SEEN_VERSION) < 0 || json_u64(&d->j, UINT64_MAX, &version) < 0)
        return -1;
    return version == MANIFEST_VERSION ? 0 : json_refuse(&d->j, "of a version that this software does not read, "
                                                                "use the one that wrote it or a newer one,");
}

/* ---- what it says, held together ---- */

static int check_members(const struct decoder *d, ddp_error_t *errp)
{
    for (int i = 0; i < MANIFEST_FIELDS; i++)
        if (!(d->seen >> i & 1))
            return error_set(errp, DDP_E_DATA, EINVAL, "%s lacks %s", what, manifest_field[i].name);
    if (!(d->seen >> SEEN_FILES & 1) || !(d->seen >> SEEN_TENSORS & 1))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s lacks files or tensors", what);
    return 0;
}

static int check_names(const struct manifest *m, ddp_error_t *errp)
{
    const char *twice, **name = malloc((m->n_files + m->n_tensors + 1) * sizeof *name);
    if (!name)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the names in %s", what);
    for (size_t i = 0; i < m->n_files; i++)
        name[i] = m->file[i].name;
    twice = st_find_twice(name, m->n_files);
    for (size_t i = 0; i < m->n_tensors; i++)
        name[i] = m->tensor[i].at.t.name;
    if (!twice)
        twice = st_find_twice(name, m->n_tensors);
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

int manifest_decode(const char *text, size_t n, struct manifest *ret, ddp_error_t *errp)
{
    struct decoder d = {0};
    if (check_sum(text, n, errp) < 0)
        return -1;
    json_begin(&d.j, text, n);
    if (read_all(&d, read_kind) < 0)
        return json_fail(&d.j, what, errp);
    if (!(d.seen >> SEEN_FORMAT & 1) || !(d.seen >> SEEN_VERSION & 1))
        return error_set(errp, DDP_E_DATA, EINVAL, "%s lacks format or version", what);
    json_begin(&d.j, text, n);
    if (read_all(&d, read_member) < 0)
        json_fail(&d.j, what, errp);
    else if (check_members(&d, errp) == 0 && check_names(&d.m, errp) == 0 && check_tensors(&d.m, errp) == 0) {
        *ret = d.m;
        return 0;
    }
    manifest_clear(&d.m);
    return -1;
}
