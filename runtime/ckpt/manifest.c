#include "runtime/ckpt/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/manifest_impl.h"

#define AT(object, member, type, where)                                                                                \
    {object, member, type, offsetof(struct manifest_state, where), sizeof((struct manifest_state *)0)->where, false}
#define AT_LATER(object, member, type, where)                                                                          \
    {object, member, type, offsetof(struct manifest_state, where), sizeof((struct manifest_state *)0)->where, true}

const struct manifest_field manifest_field[MANIFEST_FIELDS] = {
    AT(NULL, "step", FIELD_U64, step),
    AT(NULL, "n_skipped", FIELD_INT, n_skipped),
    AT(NULL, "world_size", FIELD_INT, world_size),
    AT(NULL, "n_nodes", FIELD_INT, n_nodes),
    AT(NULL, "n_threads", FIELD_INT, n_threads),
    AT(NULL, "n_runs", FIELD_INT, n_runs),
    AT(NULL, "n_failures", FIELD_INT, n_failures),
    AT(NULL, "trained_s", FIELD_REAL, trained_s),
    AT(NULL, "reason", FIELD_TEXT, reason),
    AT(NULL, "saved_at", FIELD_TEXT, saved_at),
    AT(NULL, "software", FIELD_TEXT, software),
    AT(NULL, "cpu", FIELD_TEXT, cpu),
    AT(NULL, "kernels", FIELD_TEXT, kernels),
    AT(NULL, "products", FIELD_TEXT, products),
    AT(NULL, "optimizer", FIELD_TEXT, optimizer),
    AT("data", "n_samples", FIELD_U64, data.n_samples),
    AT("data", "seed", FIELD_U64, data.seed),
    AT("data", "epoch", FIELD_U64, data.epoch),
    AT("data", "cursor", FIELD_U64, data.cursor),
    AT("data", "batch", FIELD_U64, data.batch),
    AT("data", "accum", FIELD_INT, data.accum),
    AT("data", "shards", FIELD_INT, data.shards),
    AT("data", "order", FIELD_TEXT, data.order),
    AT_LATER("notes", "data", FIELD_TEXT, noted_data),
    AT("window", "micro", FIELD_INT, cut.micro),
    AT("window", "n_ranks", FIELD_INT, cut.n_ranks),
    AT_LATER("sums", "scale", FIELD_REAL, cut.scale),
    AT_LATER("loss_scale", "scale", FIELD_REAL, loss_scale.scale),
    AT_LATER("loss_scale", "n_good", FIELD_INT, loss_scale.n_good),
    AT_LATER("summation", "over", FIELD_TEXT, summed_over),
};

/* ---- from files ---- */

/* A text that JSON can hold: what is not ASCII becomes "?" where it is not UTF-8. */
static void make_text(char *text, size_t size)
{
    text[size - 1] = 0;
    json_t *value = json_string(text);
    for (char *p = text; !value && *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    json_decref(value);
}

static int make_state(struct manifest_state *s, ddp_error_t *errp)
{
    for (int i = 0; i < MANIFEST_FIELDS; i++) {
        const struct manifest_field *f = &manifest_field[i];
        char *at = (char *)s + f->offset;
        if (f->type == FIELD_TEXT)
            make_text(at, f->size);
        if (f->type == FIELD_INT && *(int *)at < 0)
            return error_set(errp, DDP_E_USAGE, EINVAL, "manifest: %s is negative", f->name);
    }
    if (!(s->trained_s >= 0 && s->trained_s < 1e12)) /* not a NaN */
        return error_set(errp, DDP_E_USAGE, EINVAL, "manifest: trained_s is %g", s->trained_s);
    if (!(s->loss_scale.scale >= 0 && s->loss_scale.scale < 1e40))
        return error_set(errp, DDP_E_USAGE, EINVAL, "manifest: loss_scale is %g", s->loss_scale.scale);
    return 0;
}

/* Heads are smaller (safetensors.h). */
static int check_small(const struct files *f, ddp_error_t *errp)
{
    for (int i = 0; i < f->n_small; i++)
        if (f->small[i].n_bytes > MANIFEST_HEAD_BYTES_MAX)
            return error_set(errp, DDP_E_USAGE, EFBIG, "%s has %zu bytes, more than the %d MiB that are read back: "
                             "make tensors of what is large in it", f->small[i].name, f->small[i].n_bytes,
                             MANIFEST_HEAD_MIB_MAX);
    return 0;
}

static void make_files(struct manifest *m, const struct files *f)
{
    for (int i = 0; i < f->n_files; i++) {
        struct manifest_file *to = &m->file[m->n_files++];
        *to = (struct manifest_file){.n_bytes = f->file[i].n_bytes, .head_bytes = f->file[i].head_bytes};
        memcpy(to->name, f->file[i].name, sizeof to->name);
        to->checksum = checksum_bytes(f->file[i].head, f->file[i].head_bytes);
    }
    for (int i = 0; i < f->n_small; i++) {
        struct manifest_file *to = &m->file[m->n_files++];
        *to = (struct manifest_file){.n_bytes = f->small[i].n_bytes, .head_bytes = f->small[i].n_bytes};
        memcpy(to->name, f->small[i].name, sizeof to->name);
        to->checksum = checksum_bytes(f->small[i].text, f->small[i].n_bytes);
    }
}

int manifest_make(struct manifest *ret, const struct files *f, const uint64_t *checksum,
                  const struct manifest_state *state, ddp_error_t *errp)
{
    struct manifest m = {.state = *state};
    if (make_state(&m.state, errp) < 0 || check_small(f, errp) < 0)
        return -1;
    m.file = calloc((size_t)f->n_files + (size_t)f->n_small + 1, sizeof *m.file);
    m.tensor = calloc(f->n_tensors + 1, sizeof *m.tensor);
    if (!m.file || !m.tensor) {
        manifest_clear(&m);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for a checkpoint's manifest");
    }
    make_files(&m, f);
    for (; m.n_tensors < f->n_tensors; m.n_tensors++)
        m.tensor[m.n_tensors] = (struct manifest_tensor){f->tensor[m.n_tensors], checksum[m.n_tensors]};
    *ret = m;
    return 0;
}

void manifest_clear(struct manifest *m)
{
    free(m->file);
    free(m->tensor);
    *m = (struct manifest){0};
}

/* ---- as text: a line for each member, file and tensor ---- */

struct out {
    FILE *f;
    bool failed; /* memory was short */
};

/* Writes "NAME": VALUE (name NULL: VALUE), and takes value. */
static void add(struct out *out, const char *before, const char *name, json_t *value)
{
    json_t *key = json_string(name ? name : "");
    fputs(before, out->f);
    if (name) {
        out->failed |= json_dumpf(key, out->f, JSON_ENCODE_ANY) < 0;
        fputs(": ", out->f);
    }
    out->failed |= json_dumpf(value, out->f, JSON_ENCODE_ANY) < 0;
    json_decref(key);
    json_decref(value);
}

static json_t *field_value(const struct manifest_field *f, const struct manifest_state *s)
{
    const char *at = (const char *)s + f->offset;
    switch (f->type) {
    case FIELD_U64: return members_make_u64(*(const uint64_t *)at);
    case FIELD_INT: return json_integer(*(const int *)at);
    case FIELD_REAL: return json_real(*(const double *)at);
    case FIELD_TEXT: break;
    }
    return json_string(at);
}

/* The fields in object `name`, as one value. */
static json_t *object_value(struct out *out, const char *name, const struct manifest_state *s)
{
    json_t *object = json_object();
    for (int i = 0; i < MANIFEST_FIELDS; i++) {
        const struct manifest_field *f = &manifest_field[i];
        if (f->object && !strcmp(f->object, name))
            out->failed |= json_object_set_new(object, f->name, field_value(f, s)) < 0;
    }
    return object;
}

static void add_state(struct out *out, const struct manifest_state *s)
{
    const char *done = "";
    for (int i = 0; i < MANIFEST_FIELDS; i++) {
        const struct manifest_field *f = &manifest_field[i];
        if (!f->object)
            add(out, ",\n  ", f->name, field_value(f, s));
        else if (strcmp(f->object, done))
            add(out, ",\n  ", done = f->object, object_value(out, f->object, s));
    }
}

static json_t *file_value(const struct manifest_file *f)
{
    return json_pack("{s:s,s:I,s:I,s:o}", "name", f->name, "bytes", (json_int_t)f->n_bytes, "head_bytes",
                     (json_int_t)f->head_bytes, "checksum", members_make_checksum(f->checksum));
}

static json_t *tensor_value(const struct manifest_tensor *t)
{
    return json_pack("{s:i,s:I,s:s,s:o,s:o}", "file", t->at.file, "at", (json_int_t)t->at.at_bytes, "dtype",
                     st_dtype_name(t->at.t.dtype), "shape", st_make_shape(&t->at.t), "checksum",
                     members_make_checksum(t->checksum));
}

static void add_all(struct out *out, const struct manifest *m)
{
    add(out, "{\n  ", "format", json_string(MANIFEST_FORMAT));
    add(out, ",\n  ", "version", json_integer(MANIFEST_VERSION));
    add_state(out, &m->state);
    fputs(",\n  \"files\": [", out->f);
    for (size_t i = 0; i < m->n_files; i++)
        add(out, i ? ",\n    " : "\n    ", NULL, file_value(&m->file[i]));
    fputs("\n  ],\n  \"tensors\": {", out->f);
    for (size_t i = 0; i < m->n_tensors; i++)
        add(out, i ? ",\n    " : "\n    ", m->tensor[i].at.t.name, tensor_value(&m->tensor[i]));
    fputs("\n  }," MANIFEST_LAST, out->f);
}

char *manifest_encode(const struct manifest *m, size_t *ret_bytes)
{
    char *text = NULL;
    size_t n = 0;
    struct out out = {.f = open_memstream(&text, &n)};
    if (!out.f)
        return NULL;
    add_all(&out, m);
    out.failed |= fflush(out.f) != 0;
    if (!out.failed)
        fprintf(out.f, "\"%016" PRIx64 "\"\n}\n", checksum_bytes(text, n));
    out.failed |= ferror(out.f) != 0;
    if (fclose(out.f) != 0 || out.failed) {
        free(text);
        return NULL;
    }
    *ret_bytes = n;
    return text;
}
