#include "runtime/ckpt/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/manifest_impl.h"
#include "runtime/ckpt/safetensors_impl.h"

#define AT(object, member, type, where)                                                                                \
    {object, member, type, offsetof(struct manifest_state, where), sizeof((struct manifest_state *)0)->where}

const struct manifest_field manifest_field[MANIFEST_FIELDS] = {
    AT(NULL, "step", FIELD_U64, step),
    AT(NULL, "n_skipped", FIELD_INT, n_skipped),
    AT(NULL, "world_size", FIELD_INT, world_size),
    AT(NULL, "n_nodes", FIELD_INT, n_nodes),
    AT(NULL, "n_threads", FIELD_INT, n_threads),
    AT(NULL, "n_runs", FIELD_INT, n_runs),
    AT(NULL, "n_failures", FIELD_INT, n_failures),
    AT(NULL, "trained_s", FIELD_SECONDS, trained_s),
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
    AT("window", "micro", FIELD_INT, window.micro),
    AT("window", "n_ranks", FIELD_INT, window.n_ranks),
};

/* ---- from files ---- */

/* A text that JSON can hold: what is not UTF-8 becomes "?". */
static void make_text(char *text, size_t size)
{
    text[size - 1] = 0;
    char *end = text + strlen(text);
    for (char *p = text; p < end;) {
        size_t n = json_character(p, end);
        if (n == 0)
            *p = '?';
        p += n ? n : 1;
    }
    memset(end, 0, (size_t)(text + size - end)); /* equal texts are equal bytes */
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
    if (!(s->trained_s >= 0 && s->trained_s < 1e9)) /* 30 years; not a NaN */
        return error_set(errp, DDP_E_USAGE, EINVAL, "manifest: trained_s is %g", s->trained_s);
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
    if (make_state(&m.state, errp) < 0)
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

/* ---- as text ---- */

static void add_field(struct json_text *t, const struct manifest_field *f, const struct manifest_state *s)
{
    const char *at = (const char *)s + f->offset;
    json_add(t, "%s\"%s\": ", f->object ? "" : "  ", f->name);
    switch (f->type) {
    case FIELD_U64: json_add(t, "%" PRIu64, *(const uint64_t *)at); break;
    case FIELD_INT: json_add(t, "%d", *(const int *)at); break;
    case FIELD_TEXT: json_add_string(t, at); break;
    case FIELD_SECONDS: { /* in millionths, whatever the locale's decimal point is */
        uint64_t us = (uint64_t)llround(*(const double *)at * 1e6);
        json_add(t, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
    }
    }
}

static void add_state(struct json_text *t, const struct manifest_state *s)
{
    const char *open = NULL;
    for (int i = 0; i < MANIFEST_FIELDS; i++) {
        const struct manifest_field *f = &manifest_field[i];
        if (f->object && f->object != open)
            json_add(t, "  \"%s\": {", f->object);
        open = f->object;
        add_field(t, f, s);
        bool is_last = open && (i + 1 == MANIFEST_FIELDS || manifest_field[i + 1].object != open);
        json_add(t, is_last ? "},\n" : open ? ", " : ",\n");
    }
}

char *manifest_encode(const struct manifest *m, size_t *ret_bytes)
{
    struct json_text t = {0};
    json_add(&t, "{\n  \"format\": \"" MANIFEST_FORMAT "\",\n  \"version\": %d,\n", MANIFEST_VERSION);
    add_state(&t, &m->state);
    json_add(&t, "  \"files\": [");
    for (size_t i = 0; i < m->n_files; i++)
        json_add(&t, "%s\n    {\"name\": \"%s\", \"bytes\": %" PRIu64 ", \"head_bytes\": %" PRIu64
                 ", \"checksum\": \"%016" PRIx64 "\"}", i ? "," : "", m->file[i].name, m->file[i].n_bytes,
                 m->file[i].head_bytes, m->file[i].checksum);
    json_add(&t, "\n  ],\n  \"tensors\": {");
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct files_tensor *at = &m->tensor[i].at;
        json_add(&t, "%s\n    ", i ? "," : "");
        json_add_string(&t, at->t.name);
        json_add(&t, ": {\"file\": %d, \"at\": %" PRIu64 ", ", at->file, at->at_bytes);
        st_add_type(&t, &at->t);
        json_add(&t, ", \"checksum\": \"%016" PRIx64 "\"}", m->tensor[i].checksum);
    }
    json_add(&t, "\n  }," MANIFEST_LAST);
    if (!t.is_short)
        json_add(&t, "\"%016" PRIx64 "\"\n}\n", checksum_bytes(t.p, t.n));
    *ret_bytes = t.n;
    return t.p;
}
