#include "runtime/ckpt/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ckpt/files.h"
#include "runtime/ckpt/members.h"

static int by_file(const void *a, const void *b)
{
    const struct index_entry *x = a, *y = b;
    return strcmp(x->file, y->file);
}

static int read_map(const char *what, struct index *x, ddp_error_t *errp)
{
    json_t *map = json_object_get(x->json, "weight_map"), *file;
    const char *tensor;
    if (json_object_size(map) == 0)
        return error_set(errp, DDP_E_DATA, EINVAL, "%s has no weight_map that says which file holds a tensor", what);
    x->entry = calloc(json_object_size(map), sizeof *x->entry);
    if (!x->entry)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu tensors", json_object_size(map));
    json_object_foreach(map, tensor, file) {
        if (!json_is_string(file) || !files_is_plain_name(json_string_value(file)))
            return error_set(errp, DDP_E_DATA, EINVAL, "%s: the file of tensor %.60s is not the name of one in the "
                             "same folder", what, tensor);
        x->entry[x->n++] = (struct index_entry){tensor, json_string_value(file)};
    }
    qsort(x->entry, x->n, sizeof *x->entry, by_file);
    return 0;
}

int index_decode(const char *text, size_t n, const char *what, struct index *ret, ddp_error_t *errp)
{
    struct index x = {.json = members_read(text, n, what, errp)};
    if (!x.json || read_map(what, &x, errp) < 0) {
        index_clear(&x);
        return -1;
    }
    *ret = x;
    return 0;
}

void index_clear(struct index *x)
{
    free(x->entry);
    json_decref(x->json);
    *x = (struct index){0};
}
