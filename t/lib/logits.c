/* logits FOLDER OUT TOKEN... - the logits of a checkpoint's GPT-2 for a sequence as long as its context, by the
 * trainer's own model; OUT gets context x vocabulary float32. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/reader.h"
#include "runtime/train/model_impl.h"

static ddp_error_t e;

static void check(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "logits: %s: %s\n", what, e.text);
    exit(1);
}

static struct model_config read_config(const char *folder)
{
    char path[FOLDER_PATH_MAX];
    struct model_config c = {0};
    json_int_t layers = 0, width = 0, heads = 0, context = 0, vocab = 0;
    snprintf(path, sizeof path, "%s/config.json", folder);
    json_t *root = json_load_file(path, 0, NULL);
    check(json_unpack(root, "{s:I,s:I,s:I,s:I,s:I}", "n_layer", &layers, "n_embd", &width, "n_head", &heads,
                      "n_positions", &context, "vocab_size", &vocab) == 0, path);
    json_decref(root);
    c = (struct model_config){(size_t)layers, (size_t)width, (size_t)heads, (size_t)context, (size_t)vocab, false};
    return c;
}

static void *read_tensor(const char *folder, const struct manifest *m, const struct loop_param *p, size_t n, int *fd)
{
    uint64_t sum = 0;
    size_t t = 0;
    while (t < m->n_tensors && strcmp(m->tensor[t].at.t.name, p->name))
        t++;
    check(t < m->n_tensors && m->tensor[t].at.t.dtype == ST_F32 && m->tensor[t].at.t.n_bytes == n * sizeof(float),
          p->name);
    float *value = malloc(n * sizeof *value);
    check(value && reader_read(folder, m, t, 0, n * sizeof *value, value, &sum, fd, &e) == 0, p->name);
    check(sum == m->tensor[t].checksum, "checksum");
    return value;
}

static void bind(model_t *model, const char *folder)
{
    struct manifest m;
    size_t n_params;
    const struct loop_param *p = model_params(model, &n_params);
    struct ddp_param *tensor = calloc(n_params, sizeof *tensor);
    check(tensor && reader_open(folder, &m, &e) == 0, folder);
    int *fd = malloc((m.n_files + 1) * sizeof *fd);
    for (size_t i = 0; i < m.n_files; i++)
        fd[i] = -1;
    for (size_t i = 0; i < n_params; i++) {
        tensor[i].n_elems = p[i].shape[0] * p[i].shape[1];
        tensor[i].value = read_tensor(folder, &m, &p[i], tensor[i].n_elems, fd);
    }
    check(model_bind(model, tensor, &e) == 0, "model");
    reader_close_files(fd, m.n_files);
    manifest_clear(&m);
    free(fd);
    free(tensor);
}

int main(int argc, char **argv)
{
    double loss;
    if (argc < 4)
        return fprintf(stderr, "usage: logits FOLDER OUT TOKEN...\n"), 2;
    struct model_config c = read_config(argv[1]);
    model_t *model = model_create(&c, 1, &e);
    int32_t *token = calloc(c.context + 1, sizeof *token); /* the last one is only a target */
    check(model && token && (size_t)argc == 3 + c.context, "as many tokens as the context has");
    for (size_t i = 0; i < c.context; i++)
        token[i] = (int32_t)strtol(argv[3 + i], NULL, 10);
    bind(model, argv[1]);
    model_evaluate(model, token, 1, &loss);
    check(model->logits_rows >= c.context, "the logits are there at once");
    FILE *out = fopen(argv[2], "wb");
    check(out && fwrite(model->logits, sizeof(float), c.context * c.vocab, out) == c.context * c.vocab &&
          fclose(out) == 0, argv[2]);
    for (size_t i = 0; i < model->n_params; i++)
        free(value(model, i));
    model_destroy(model);
    free(token);
    return 0;
}
