#include "runtime/save/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/cast.h"
#include "runtime/base/io.h"
#include "runtime/ckpt/checksum.h"
#include "runtime/ckpt/folder.h"
#include "runtime/ckpt/reader.h"
#include "runtime/ckpt/safetensors.h"
#include "runtime/save/save.h"

#define CHUNK_ELEMS ((size_t)1 << 20) /* whole blocks of checksum.h */

struct source {
    int fd;
    char path[FOLDER_PATH_MAX];
    struct st_head head;
};

struct sources {
    struct source **file;
    size_t n;
    struct manifest manifest; /* of a checkpoint: what is read is held against its checksums; else of no tensors */
};

/* n bytes at `at`, whole. */
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

static int read_head(struct source *s, ddp_error_t *errp)
{
    struct stat st;
    unsigned char first[8];
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &st) < 0)
        return error_errno(errp, "cannot read %s", s->path);
    uint64_t size = (uint64_t)st.st_size;
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

static int add_source(struct sources *all, const char *path, ddp_error_t *errp)
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

/* model.safetensors, model-00001-of-00002.safetensors, ... */
static int add_model_file(void *ctx, const char *dir, const char *name, ddp_error_t *errp)
{
    static const char end[] = ".safetensors";
    char path[FOLDER_PATH_MAX];
    size_t n = strlen(name);
    if (strncmp(name, "model", 5) != 0 || n < sizeof end || strcmp(name + n - (sizeof end - 1), end) != 0)
        return 0;
    return folder_path(path, dir, name, errp) < 0 ? -1 : add_source(ctx, path, errp);
}

static int open_sources(struct sources *all, const char *dir, ddp_error_t *errp)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return error_errno(errp, "cannot read %s", dir);
    if (!S_ISDIR(st.st_mode))
        return add_source(all, dir, errp);
    if (folder_each(dir, add_model_file, all, errp) < 0)
        return -1;
    ddp_error_t why;
    if (folder_has_manifest(AT_FDCWD, dir) && reader_open(dir, &all->manifest, &why) < 0)
        return error_set(errp, why.domain, why.code, "%.180s; or, if its " MANIFEST_NAME " is another program's, move "
                         "that away", why.text);
    return all->n ? 0 : error_set(errp, DDP_E_USAGE, ENOENT, "%.180s has no model*.safetensors", dir);
}

static void close_sources(struct sources *all)
{
    for (size_t i = 0; i < all->n; i++) {
        io_close(all->file[i]->fd);
        st_clear(&all->file[i]->head);
        free(all->file[i]);
    }
    free(all->file);
    manifest_clear(&all->manifest);
}

static const struct st_tensor *find(const struct sources *all, const char *name, const struct source **ret)
{
    for (size_t i = 0; i < all->n; i++)
        for (size_t t = 0; t < all->file[i]->head.n; t++)
            if (!strcmp(all->file[i]->head.tensor[t].name, name)) {
                *ret = all->file[i];
                return &all->file[i]->head.tensor[t];
            }
    return NULL;
}

/* What a chunk goes through: bytes of the file's type, then values. */
struct chunk {
    float value[CHUNK_ELEMS];
    uint16_t raw[CHUNK_ELEMS];
};

/* From bytes of the file's type. *sum is that of the values' blocks. */
static int read_values(struct save *save, const struct source *s, const struct st_tensor *t, float *to, size_t n_elems,
                       struct chunk *c, uint64_t *sum, ddp_error_t *errp)
{
    size_t size = st_dtype_size(t->dtype);
    *sum = 0;
    for (size_t at = 0, n; at < n_elems; at += n) {
        n = n_elems - at < CHUNK_ELEMS ? n_elems - at : CHUNK_ELEMS;
        float *value = arena_staging(&save->state->arena, to + at, c->value);
        void *here = t->dtype == ST_F32 ? (void *)value : c->raw;
        if (read_at(s, here, n * size, s->head.head_bytes + t->first + at * size, errp) < 0)
            return -1;
        if (t->dtype == ST_F16)
            kernel_load_f16(value, c->raw, n);
        else if (t->dtype == ST_BF16)
            kernel_load_bf16(value, c->raw, n);
        *sum += checksum_blocks(value, n * sizeof *value, at * sizeof *value / CKPT_BLOCK_BYTES);
        if (arena_write(&save->state->arena, to + at, value, n * sizeof *value, errp) < 0)
            return -1;
    }
    return 0;
}

static int check(const struct layout_param *p, const struct st_tensor *t, const struct source *s, ddp_error_t *errp)
{
    if (t->dtype != ST_F32 && t->dtype != ST_F16 && t->dtype != ST_BF16)
        return error_set(errp, DDP_E_LAYOUT, ENOTSUP, "%.100s: %s is of type %s: F32, F16 and BF16 can be loaded",
                         s->path, t->name, st_dtype_name(t->dtype));
    bool is_same = t->ndim == p->ndim;
    for (int i = 0; is_same && i < p->ndim; i++)
        is_same = t->shape[i] == p->shape[i];
    if (is_same)
        return 0;
    char shape[2][80];
    for (int k = 0; k < 2; k++) {
        size_t n = 0;
        shape[k][0] = 0;
        for (int i = 0; i < (k ? p->ndim : t->ndim) && n < sizeof shape[k]; i++)
            n += (size_t)snprintf(shape[k] + n, sizeof shape[k] - n, "%s%llu", i ? "," : "",
                                  (unsigned long long)(k ? p->shape[i] : t->shape[i]));
    }
    return error_set(errp, DDP_E_LAYOUT, EINVAL, "%.80s: %.60s is [%s], not [%s]: start with the options of that model",
                     s->path, t->name, shape[0], shape[1]);
}

static int check_sum(const struct manifest *m, const char *dir, const char *name, uint64_t sum, ddp_error_t *errp)
{
    for (size_t t = 0; t < m->n_tensors; t++)
        if (!strcmp(m->tensor[t].at.t.name, name))
            return sum == m->tensor[t].checksum ? 0 : reader_explain_sum(dir, m, t, errp);
    return 0;
}

/* Parameter id, if this rank is the one that reads it; all ranks check all names and shapes. */
static int load_one(struct save *save, const char *dir, const struct sources *all, int id, const char *prefix,
                    struct chunk *chunk, ddp_error_t *errp)
{
    const struct layout_param *p = &save->state->layout.param[id];
    float *value = save->state->arena.values + p->offset_bytes / sizeof(float);
    const struct source *s;
    uint64_t sum;
    char name[ST_NAME_MAX + 1];
    const struct st_tensor *t = find(all, p->name, &s);
    snprintf(name, sizeof name, "%.100s.%s", prefix ? prefix : "", p->name);
    if (!t && prefix)
        t = find(all, name, &s);
    if (!t)
        return error_set(errp, DDP_E_LAYOUT, ENOENT,
                         "%.100s has no tensor %.100s: start with the options of that model", all->file[0]->path,
                         p->name);
    if (check(p, t, s, errp) < 0)
        return -1;
    if (id % save->team->me.size != save->team->me.rank)
        return 0;
    return read_values(save, s, t, value, p->n_elems, chunk, &sum, errp) < 0 ||
           check_sum(&all->manifest, dir, p->name, sum, errp) < 0 ? -1 : 0;
}

static int load_own(struct save *save, const char *dir, const char *prefix, ddp_error_t *errp)
{
    struct sources all = {0};
    struct chunk *chunk = malloc(sizeof *chunk);
    int rc =
        chunk ? open_sources(&all, dir, errp) : error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory to load %.100s", dir);
    for (int id = 0; rc == 0 && id < save->state->layout.n; id++)
        rc = load_one(save, dir, &all, id, prefix, chunk, errp);
    close_sources(&all);
    free(chunk);
    return rc;
}

int load_values(struct save *save, const char *dir, const char *prefix, ddp_error_t *errp)
{
    struct state *st = save->state;
    ddp_error_t why = {0}, told;
    checkpoint_wait_copied(save);
    load_own(save, dir, prefix, &why);
    if (checkpoint_agree(save, &why, &told, errp) < 0)
        return -1;
    if (told.code && errp)
        *errp = told;
    for (int id = 0; !told.code && id < st->layout.n; id++) {
        const struct layout_param *p = &st->layout.param[id];
        char *value = (char *)st->arena.values + p->offset_bytes;
        if (arena_bcast(&st->arena, value, p->n_elems * sizeof(float), id % save->team->me.size, errp) < 0)
            return team_break(save->team);
    }
    if (!told.code && arena_round(&st->arena, errp) < 0)
        return team_break(save->team);
    return told.code ? -1 : 0;
}
