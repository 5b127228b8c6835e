#include "t/lib/ckptfolder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/reader.h"

static void check(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

struct st_tensor ckptfolder_tensor(const char *name, enum st_dtype dtype, int ndim, const uint64_t *shape)
{
    struct st_tensor t = {.dtype = dtype, .ndim = ndim};
    snprintf(t.name, sizeof t.name, "%s", name);
    for (int i = 0; i < ndim; i++)
        t.shape[i] = shape[i];
    return t;
}

void *ckptfolder_data(const struct files *f, size_t t)
{
    const struct st_tensor *one = &f->tensor[t].t;
    unsigned char *data = malloc(one->n_bytes + 4);
    uint32_t x = (uint32_t)t * 2654435761u + 1;
    check(data != NULL, "malloc");
    for (size_t i = 0; i < one->n_bytes; i += 4) {
        float number;
        x = x * 1664525 + 1013904223;
        number = (float)(int32_t)x / 4294967296.0f;
        memcpy(data + i, one->dtype == ST_F32 ? (void *)&number : (void *)&x, 4);
    }
    return data;
}

static FILE *create(const char *path, const char *name)
{
    char whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", path, name);
    FILE *file = fopen(whole, "w");
    check(file != NULL, whole);
    return file;
}

static void put(FILE *file, const void *data, size_t n)
{
    check(fwrite(data, 1, n, file) == n, "write");
}

void ckptfolder_write(const char *path, const struct files *f, const struct manifest_state *state)
{
    uint64_t *sum = calloc(f->n_tensors + 1, sizeof *sum);
    struct manifest m;
    ddp_error_t e;
    size_t n, t = 0;
    check(sum && (mkdir(path, 0755) == 0 || errno == EEXIST), path);
    for (int i = 0; i < f->n_files; i++) {
        FILE *file = create(path, f->file[i].name);
        put(file, f->file[i].head, f->file[i].head_bytes);
        for (; t < f->n_tensors && f->tensor[t].file == i; t++) {
            void *data = ckptfolder_data(f, t);
            put(file, data, f->tensor[t].t.n_bytes);
            sum[t] = checksum_blocks(data, f->tensor[t].t.n_bytes, 0);
            free(data);
        }
        check(fclose(file) == 0, "close");
    }
    for (int i = 0; i < f->n_small; i++) {
        FILE *file = create(path, f->small[i].name);
        put(file, f->small[i].text, f->small[i].n_bytes);
        check(fclose(file) == 0, "close");
    }
    check(manifest_make(&m, f, sum, state, &e) == 0, "manifest_make");
    char *text = manifest_encode(&m, &n);
    FILE *file = create(path, MANIFEST_NAME);
    put(file, text, n);
    check(fclose(file) == 0, "close");
    free(text);
    manifest_clear(&m);
    free(sum);
}

int ckptfolder_verify(const char *path, ddp_error_t *errp)
{
    struct manifest m;
    if (reader_open(path, &m, errp) < 0)
        return -1;
    int rc = reader_verify(path, &m, errp);
    manifest_clear(&m);
    return rc;
}

void ckptfolder_model(struct files *ret, uint64_t max_bytes)
{
    static const struct {
        const char *name;
        int ndim;
        uint64_t shape[2];
    } model[] = {{"wte.weight", 2, {257, 32}}, {"wpe.weight", 2, {16, 32}}, {"h.0.ln_1.weight", 1, {32, 0}},
                 {"h.0.mlp.c_fc.weight", 2, {32, 128}}, {"ln_f.bias", 1, {32, 0}}};
    enum { N = sizeof model / sizeof *model };
    struct st_tensor value[N], moment[2 * N];
    ddp_error_t e;
    for (int i = 0; i < N; i++) {
        char name[64];
        value[i] = ckptfolder_tensor(model[i].name, ST_F32, model[i].ndim, model[i].shape);
        snprintf(name, sizeof name, "%s.exp_avg", model[i].name);
        moment[i] = ckptfolder_tensor(name, ST_F32, model[i].ndim, model[i].shape);
        snprintf(name, sizeof name, "%s.exp_avg_sq", model[i].name);
        moment[N + i] = ckptfolder_tensor(name, ST_F32, model[i].ndim, model[i].shape);
    }
    struct files_group group[] = {{"model", value, N}, {"optimizer", moment, 2 * N}};
    check(files_make(ret, group, 2, max_bytes, &e) == 0, "files_make");
    check(files_attach(ret, "config.json", "{\"model_type\": \"gpt2\"}\n", &e) == 0, "files_attach");
}
