#include "runtime/ckpt/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json_limit.h"
#include "runtime/ckpt/manifest.h"
#include "runtime/ckpt/members.h"

#define FILE_COUNT_MAX 99999

bool files_is_plain_name(const char *name)
{
    size_t n = strnlen(name, FILES_NAME_MAX + 1);
    return n > 0 && n <= FILES_NAME_MAX && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int no_memory(ddp_error_t *errp)
{
    return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the list of a checkpoint's files");
}

/* ---- which tensor lies in which file ---- */

/* Numbers the files of the tensors that were added last, from `from` on; returns how many there are, or -1. */
static int fill_files(struct files *f, size_t from, uint64_t max_bytes, ddp_error_t *errp)
{
    uint64_t in_file = 0;
    int n = 0;
    for (size_t i = from; i < f->n_tensors; i++) {
        struct files_tensor *t = &f->tensor[i];
        if (st_check_name(t->t.name, errp) < 0)
            return -1;
        if (st_bytes(&t->t, &t->t.n_bytes) < 0)
            return error_set(errp, DDP_E_USAGE, EOVERFLOW, "tensor %s: its type or shape is not possible in a file",
                             t->t.name);
        if (i == from || t->t.n_bytes > max_bytes || in_file > max_bytes - t->t.n_bytes) {
            in_file = 0;
            if (n++ == FILE_COUNT_MAX)
                return error_set(errp, DDP_E_USAGE, EFBIG, "more than %d files of %" PRIu64 " bytes: make them larger",
                                 FILE_COUNT_MAX, max_bytes);
        }
        t->t.first = in_file;
        t->file = f->n_files + n - 1;
        in_file += t->t.n_bytes;
    }
    return n;
}

/* The head of file i, whose tensors are [from, to). */
static int make_head(struct files *f, int i, size_t from, size_t to, ddp_error_t *errp)
{
    struct files_file *file = &f->file[i];
    struct st_tensor *in = malloc((to - from) * sizeof *in);
    if (!in)
        return no_memory(errp);
    for (size_t k = from; k < to; k++)
        in[k - from] = f->tensor[k].t;
    file->head = st_encode(in, to - from, &file->head_bytes, errp);
    free(in);
    if (!file->head)
        return -1;
    for (size_t k = from; k < to; k++)
        f->tensor[k].at_bytes = file->head_bytes + f->tensor[k].t.first;
    file->n_bytes = f->tensor[to - 1].at_bytes + f->tensor[to - 1].t.n_bytes;
    return 0;
}

static int make_files(struct files *f, const struct files_group *g, size_t from, int n, ddp_error_t *errp)
{
    struct files_file *file = realloc(f->file, (size_t)(f->n_files + n) * sizeof *file);
    if (!file)
        return no_memory(errp);
    f->file = file;
    memset(file + f->n_files, 0, (size_t)n * sizeof *file);
    for (int i = f->n_files, k = 1; k <= n; i++, k++) {
        size_t to = from;
        int len = snprintf(file[i].name, sizeof file[i].name, "%s-%05d-of-%05d.safetensors", g->name, k, n);
        if (len > FILES_NAME_MAX || !files_is_plain_name(file[i].name))
            return error_set(errp, DDP_E_USAGE, EINVAL, "\"%s\" cannot be part of a file's name", g->name);
        f->n_files = i + 1;
        while (to < f->n_tensors && f->tensor[to].file == i)
            to++;
        if (make_head(f, i, from, to, errp) < 0)
            return -1;
        from = to;
    }
    return 0;
}

/* ---- the index ---- */

static int add_small(struct files *f, const char *name, char *text, size_t n, ddp_error_t *errp)
{
    struct files_small *small = realloc(f->small, (size_t)(f->n_small + 1) * sizeof *small);
    if (!small)
        return no_memory(errp);
    f->small = small;
    small += f->n_small++;
    snprintf(small->name, sizeof small->name, "%s", name);
    small->text = text;
    small->n_bytes = n;
    return 0;
}

static char *index_text(const struct files *f, size_t from)
{
    uint64_t total = 0;
    json_t *map = json_object();
    for (size_t i = from; i < f->n_tensors; i++) {
        total += f->tensor[i].t.n_bytes;
        if (json_object_set_new(map, f->tensor[i].t.name, json_string(f->file[f->tensor[i].file].name)) < 0) {
            json_decref(map);
            return NULL;
        }
    }
    json_t *root = json_pack("{s:{s:o},s:o}", "metadata", "total_size", members_make_u64(total), "weight_map", map);
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return text;
}

static int make_index(struct files *f, const char *group, size_t from, ddp_error_t *errp)
{
    char name[FILES_NAME_MAX + 1];
    if (snprintf(name, sizeof name, "%s.safetensors.index.json", group) > FILES_NAME_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "\"%s\" is too long for a file's name", group);
    char *text = index_text(f, from);
    if (!text)
        return no_memory(errp);
    if (add_small(f, name, text, strlen(text), errp) == 0)
        return 0;
    free(text);
    return -1;
}

/* ---- all ---- */

static int add_group(struct files *f, const struct files_group *g, uint64_t max_bytes, ddp_error_t *errp)
{
    size_t from = f->n_tensors;
    for (size_t i = 0; i < g->n; i++)
        f->tensor[f->n_tensors++].t = g->tensor[i];
    int n = fill_files(f, from, max_bytes, errp);
    if (n <= 0)
        return n;
    return make_files(f, g, from, n, errp) < 0 ? -1 : make_index(f, g->name, from, errp);
}

/* The first name of `name` that is there twice. */
static int check_names(const char **name, size_t n, ddp_error_t *errp)
{
    const char *twice = members_twice(name, n);
    return twice ? error_set(errp, DDP_E_USAGE, EEXIST, "%s is there twice: name it otherwise", twice) : 0;
}

static int check_tensor_names(const struct files *f, ddp_error_t *errp)
{
    const char **name = malloc((f->n_tensors + 1) * sizeof *name);
    if (!name)
        return no_memory(errp);
    for (size_t i = 0; i < f->n_tensors; i++)
        name[i] = f->tensor[i].t.name;
    int rc = check_names(name, f->n_tensors, errp);
    free(name);
    return rc < 0 ? error_prefix(errp, "tensor") : 0;
}

static int make_groups(struct files *f, const struct files_group *group, int n_groups, uint64_t max_bytes,
                       ddp_error_t *errp)
{
    size_t n = 0;
    for (int i = 0; i < n_groups; i++) {
        n += group[i].n;
        for (int k = 0; k < i; k++)
            if (!strcmp(group[i].name, group[k].name))
                return error_set(errp, DDP_E_USAGE, EEXIST, "two groups of tensors are named %s", group[i].name);
    }
    f->tensor = calloc(n + 1, sizeof *f->tensor);
    if (!f->tensor)
        return no_memory(errp);
    for (int i = 0; i < n_groups; i++)
        if (add_group(f, &group[i], max_bytes, errp) < 0)
            return -1;
    return check_tensor_names(f, errp);
}

int files_make(struct files *ret, const struct files_group *group, int n_groups, uint64_t max_bytes,
               ddp_error_t *errp)
{
    struct files f = {0};
    size_t n = 0;
    for (int g = 0; g < n_groups; g++)
        n += group[g].n;
    if (n > JSON_TENSORS_MAX)
        return error_set(errp, DDP_E_USAGE, E2BIG, "%zu tensors of values and moments are more than a checkpoint "
                         "holds, %u: declare fewer, larger parameters", n, JSON_TENSORS_MAX);
    if (make_groups(&f, group, n_groups, max_bytes, errp) < 0) {
        files_clear(&f);
        return -1;
    }
    *ret = f;
    return 0;
}

void files_clear(struct files *f)
{
    for (int i = 0; i < f->n_files; i++)
        free(f->file[i].head);
    for (int i = 0; i < f->n_small; i++)
        free(f->small[i].text);
    free(f->tensor);
    free(f->file);
    free(f->small);
    *f = (struct files){0};
}

static bool is_taken(const struct files *f, const char *name)
{
    for (int i = 0; i < f->n_files; i++)
        if (!strcmp(f->file[i].name, name))
            return true;
    size_t n = strlen(name), tail = strlen(".safetensors.index.json");
    return !strcmp(name, MANIFEST_NAME) || (n > tail && !strcmp(name + n - tail, ".safetensors.index.json"));
}

int files_check_name(const char *name, ddp_error_t *errp)
{
    return files_is_plain_name(name) ? 0 : error_set(errp, DDP_E_USAGE, EINVAL, "\"%s\" is not a plain file name: "
                                                     "letters, digits and ._-", name);
}

int files_attach(struct files *f, const char *name, const char *text, ddp_error_t *errp)
{
    if (files_check_name(name, errp) < 0)
        return -1;
    if (is_taken(f, name))
        return error_set(errp, DDP_E_USAGE, EEXIST, "a checkpoint has a file %s of its own: name it otherwise", name);
    char *copy = strdup(text);
    if (!copy)
        return no_memory(errp);
    for (int i = 0; i < f->n_small; i++) {
        if (strcmp(f->small[i].name, name))
            continue;
        free(f->small[i].text);
        f->small[i].text = copy;
        f->small[i].n_bytes = strlen(copy);
        return 0;
    }
    if (add_small(f, name, copy, strlen(copy), errp) == 0)
        return 0;
    free(copy);
    return -1;
}
