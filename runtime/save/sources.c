#include "runtime/save/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"
#include "runtime/ckpt/index.h"
#include "runtime/ckpt/reader.h"

#define ONE_NAME "model.safetensors"

/* ---- a file ---- */

static int read_at(const struct source *s, void *ret, size_t n, uint64_t at, ddp_error_t *errp)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = pread(s->fd, (char *)ret + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return error_errno(errp, "cannot read %s", s->path);
        if (k == 0)
            return error_set(errp, DDP_E_DATA, EBADMSG, "%s is shorter than it was", s->path);
        done += (size_t)k;
    }
    return 0;
}

int source_read(const struct source_tensor *t, void *ret, size_t n, uint64_t at, ddp_error_t *errp)
{
    return read_at(t->in, ret, n, t->in->head.head_bytes + t->t->first + at, errp);
}

static int read_head(struct source *s, ddp_error_t *errp)
{
    uint64_t size;
    unsigned char first[8];
    s->fd = io_open_file(s->path, &size, errp);
    if (s->fd < 0)
        return -1;
    if (size < sizeof first)
        return error_set(errp, DDP_E_DATA, EBADMSG, "%s is no safetensors file: it has %llu bytes", s->path,
                         (unsigned long long)size);
    if (read_at(s, first, sizeof first, 0, errp) < 0)
        return -1;
    size_t n = st_head_bytes(first, size, errp);
    char *head = n ? malloc(n) : NULL;
    if (!n)
        return error_prefix(errp, "%s", s->path);
    if (!head)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the head of %s, %zu bytes", s->path, n);
    int rc = read_at(s, head, n, 0, errp);
    if (rc == 0 && st_decode(head, n, size, &s->head, errp) < 0)
        rc = error_prefix(errp, "%s", s->path);
    free(head);
    return rc;
}

static int add_file(struct sources *all, const char *path, ddp_error_t *errp)
{
    struct source **file = realloc(all->file, (all->n + 1) * sizeof *file), *s = calloc(1, sizeof *s);
    if (file)
        all->file = file;
    if (!file || !s) {
        free(s);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu files", all->n + 1);
    }
    s->fd = -1;
    all->file[all->n++] = s;
    if (strlen(path) >= sizeof s->path)
        return error_set(errp, DDP_E_USAGE, ENAMETOOLONG, "%.100s...: the path is too long", path);
    strcpy(s->path, path);
    return read_head(s, errp);
}

/* ---- which files ---- */

static int add_indexed(struct sources *all, const char *dir, const struct index *x, ddp_error_t *errp)
{
    char path[FOLDER_PATH_MAX];
    for (size_t i = 0; i < x->n; i++) {
        if (i && !strcmp(x->entry[i].file, x->entry[i - 1].file))
            continue;
        if (folder_path(path, dir, x->entry[i].file, errp) < 0)
            return -1;
        if (access(path, F_OK) < 0 && errno == ENOENT)
            return error_set(errp, DDP_E_DATA, ENOENT, "%.150s is missing, which " INDEX_NAME " names: fetch that "
                             "file, too", path);
        if (add_file(all, path, errp) < 0)
            return -1;
    }
    return 0;
}

static const char *name_of(const struct source *s)
{
    const char *slash = strrchr(s->path, '/');
    return slash ? slash + 1 : s->path;
}

static int by_name(const void *a, const void *b)
{
    const struct source_tensor *x = a, *y = b;
    return strcmp(x->t->name, y->t->name);
}

/* One list of all files' tensors. */
static int list_tensors(struct sources *all, ddp_error_t *errp)
{
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        n += all->file[i]->head.n;
    all->tensor = calloc(n + 1, sizeof *all->tensor);
    if (!all->tensor)
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < all->n; i++)
        for (size_t t = 0; t < all->file[i]->head.n; t++)
            all->tensor[all->n_tensors++] = (struct source_tensor){&all->file[i]->head.tensor[t], all->file[i]};
    qsort(all->tensor, n, sizeof *all->tensor, by_name);
    for (size_t i = 1; i < n; i++)
        if (by_name(&all->tensor[i - 1], &all->tensor[i]) == 0)
            return error_set(errp, DDP_E_DATA, EEXIST, "tensor %.60s is in %.80s and in %.60s: take out the file that "
                             "is not of this model", all->tensor[i].t->name, all->tensor[i - 1].in->path,
                             name_of(all->tensor[i].in));
    return 0;
}

static int check_index(const struct sources *all, const char *dir, const struct index *x, ddp_error_t *errp)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct source_tensor *t = sources_find(all, x->entry[i].tensor);
        if (!t || strcmp(name_of(t->in), x->entry[i].file) != 0)
            return error_set(errp, DDP_E_DATA, ENOENT, "%.100s/%.60s has no tensor %.60s, which " INDEX_NAME " says it "
                             "has", dir, x->entry[i].file, x->entry[i].tensor);
    }
    return 0;
}

static int open_indexed(struct sources *all, const char *dir, ddp_error_t *errp)
{
    char path[FOLDER_PATH_MAX];
    struct index x = {0};
    size_t n;
    if (folder_path(path, dir, INDEX_NAME, errp) < 0)
        return -1;
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return error_set(errp, DDP_E_DATA, ENOENT, "%.120s has no " ONE_NAME " and no " INDEX_NAME ": name a folder "
                         "that has, or the file itself", dir);
    char *text = io_read_file(path, MANIFEST_BYTES_MAX, &n, errp);
    int rc = text && index_decode(text, n, path, &x, errp) == 0 && add_indexed(all, dir, &x, errp) == 0 &&
             list_tensors(all, errp) == 0 ? check_index(all, dir, &x, errp) : -1;
    index_clear(&x);
    free(text);
    return rc;
}

static int open_one(struct sources *all, const char *path, ddp_error_t *errp)
{
    return add_file(all, path, errp) < 0 ? -1 : list_tensors(all, errp);
}

static int open_folder(struct sources *all, const char *dir, ddp_error_t *errp)
{
    char one[FOLDER_PATH_MAX];
    struct stat st;
    ddp_error_t why;
    if (folder_path(one, dir, ONE_NAME, errp) < 0)
        return -1;
    int rc = stat(one, &st) < 0 && errno == ENOENT ? open_indexed(all, dir, errp) : open_one(all, one, errp);
    if (rc == 0 && folder_has_manifest(AT_FDCWD, dir) && reader_open(dir, &all->manifest, &why) < 0)
        return error_set(errp, why.domain, why.code, "%.180s; or, if its " MANIFEST_NAME " is another program's, move "
                         "that away", why.text);
    return rc;
}

int sources_open(struct sources *ret, const char *path, ddp_error_t *errp)
{
    struct stat st;
    *ret = (struct sources){0};
    if (stat(path, &st) < 0)
        return error_errno(errp, "cannot read %s", path);
    return S_ISDIR(st.st_mode) ? open_folder(ret, path, errp) : open_one(ret, path, errp);
}

void sources_close(struct sources *s)
{
    for (size_t i = 0; i < s->n; i++) {
        io_close(s->file[i]->fd);
        st_clear(&s->file[i]->head);
        free(s->file[i]);
    }
    free(s->file);
    free(s->tensor);
    manifest_clear(&s->manifest);
    *s = (struct sources){0};
}

static int compare_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct source_tensor *)tensor)->t->name);
}

const struct source_tensor *sources_find(const struct sources *s, const char *name)
{
    return s->n_tensors ? bsearch(name, s->tensor, s->n_tensors, sizeof *s->tensor, compare_name) : NULL;
}
