#include "runtime/train/tokens.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/io.h"

struct file {
    char *path;
    void *map;
    size_t map_bytes;
    const unsigned char *data; /* the first token, in map */
    uint64_t first, count;     /* its place in the whole */
};

struct tokens {
    struct file *file;
    size_t n_files;
    bool are_shards; /* tokens of two bytes */
};

void tokens_close(tokens_t *t)
{
    int saved = errno;
    for (size_t i = 0; t && i < t->n_files; i++) {
        if (t->file[i].map)
            munmap(t->file[i].map, t->file[i].map_bytes);
        free(t->file[i].path);
    }
    if (t)
        free(t->file);
    free(t);
    errno = saved;
}

uint64_t tokens_count(const tokens_t *t)
{
    const struct file *last = t->n_files ? &t->file[t->n_files - 1] : NULL;
    return last ? last->first + last->count : 0;
}

static bool is_shard_name(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".bin");
}

static int32_t header_word(const struct file *f, size_t i)
{
    int32_t word;
    memcpy(&word, (const char *)f->map + i * sizeof word, sizeof word);
    return word;
}

static int check_shard(struct file *f, ddp_error_t *errp)
{
    if (f->map_bytes < SHARD_HEADER_BYTES)
        return error_set(errp, DDP_E_DATA, 0, "%s: truncated: %zu bytes, but a token shard begins with a header of %d:"
                         " make the shard again", f->path, f->map_bytes, SHARD_HEADER_BYTES);
    if (header_word(f, 0) != SHARD_MAGIC)
        return error_set(errp, DDP_E_DATA, 0, "%s: not a token shard (magic %" PRId32 ", not %d): rename it, without"
                         " .bin, to train on its bytes", f->path, header_word(f, 0), SHARD_MAGIC);
    if (header_word(f, 1) != SHARD_VERSION)
        return error_set(errp, DDP_E_DATA, 0, "%s: token shard of version %" PRId32 ", only version %d (16-bit tokens)"
                         " can be read: make the shard again", f->path, header_word(f, 1), SHARD_VERSION);
    int32_t n = header_word(f, 2);
    uint64_t held = (f->map_bytes - SHARD_HEADER_BYTES) / 2;
    if (n <= 0)
        return error_set(errp, DDP_E_DATA, 0, "%s: empty: its header says %" PRId32 " tokens: leave it out of --data",
                         f->path, n);
    if ((uint64_t)n != held || f->map_bytes % 2)
        return error_set(errp, DDP_E_DATA, 0, "%s: %s: its header says %" PRId32 " tokens, the file holds %" PRIu64
                         ": make the shard again", f->path, (uint64_t)n > held ? "truncated" : "too long", n, held);
    f->data = (const unsigned char *)f->map + SHARD_HEADER_BYTES;
    f->count = (uint64_t)n;
    return 0;
}

static int map_file(struct file *f, ddp_error_t *errp)
{
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        error_errno(errp, "%s: cannot be read", f->path);
        io_close(fd);
        return error_prefix(errp, "data");
    }
    if (!S_ISREG(st.st_mode) || st.st_size == 0) {
        io_close(fd);
        return error_set(errp, DDP_E_DATA, 0, "%s: %s: leave it out of --data", f->path,
                         st.st_size == 0 && S_ISREG(st.st_mode) ? "empty" : "not a regular file");
    }
    f->map_bytes = (size_t)st.st_size;
    f->map = mmap(NULL, f->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (f->map == MAP_FAILED) {
        f->map = NULL;
        error_errno(errp, "%s: cannot be mapped", f->path);
    }
    io_close(fd);
    return f->map ? 0 : -1;
}

/* Takes path over. */
static int add_file_take(tokens_t *t, char *path, ddp_error_t *errp)
{
    struct file *grown = path ? realloc(t->file, (t->n_files + 1) * sizeof *grown) : NULL;
    if (!grown) {
        free(path);
        return error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the list of data files");
    }
    t->file = grown;
    bool is_shard = is_shard_name(path);
    uint64_t first = tokens_count(t);
    struct file *f = &t->file[t->n_files++];
    *f = (struct file){.path = path, .first = first};
    if (t->n_files > 1 && is_shard != t->are_shards)
        return error_set(errp, DDP_E_DATA, 0, "%s is %s, but %s is %s: train on one kind at a time", path,
                         is_shard ? "a token shard" : "bytes", t->file[0].path, is_shard ? "bytes" : "a token shard");
    t->are_shards = is_shard;
    if (map_file(f, errp) < 0)
        return -1;
    if (is_shard)
        return check_shard(f, errp);
    f->data = f->map;
    f->count = f->map_bytes;
    return 0;
}

static char *join(const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", dir, name);
    return path;
}

/* alphasort follows the locale; every rank must have one order. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_folder(tokens_t *t, const char *dir, ddp_error_t *errp)
{
    struct dirent **entry;
    size_t before = t->n_files;
    int rc = 0, n = scandir(dir, &entry, NULL, by_name);
    if (n < 0)
        return error_errno(errp, "data: %s: cannot be listed", dir);
    for (int i = 0; i < n; i++) {
        struct stat st;
        char *path = rc == 0 ? join(dir, entry[i]->d_name) : NULL;
        if (rc == 0 && (!path || (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)))
            rc = add_file_take(t, path, errp);
        else
            free(path);
        free(entry[i]);
    }
    free(entry);
    if (rc == 0 && t->n_files == before)
        rc = error_set(errp, DDP_E_DATA, 0, "%s: no regular file with anything in it: name other files or folders with"
                       " --data", dir);
    return rc;
}

static int add(tokens_t *t, const char *path, ddp_error_t *errp)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return add_folder(t, path, errp);
    return add_file_take(t, strdup(path), errp);
}

tokens_t *tokens_open(const char *const *path, size_t n, ddp_error_t *errp)
{
    tokens_t *t = calloc(1, sizeof *t);
    if (!t)
        error_set(errp, DDP_E_SYSTEM, ENOMEM, "no memory for the list of data files");
    for (size_t i = 0; t && i < n; i++)
        if (add(t, path[i], errp) < 0) {
            tokens_close(t);
            return NULL;
        }
    return t;
}

/* The file that holds token i. */
static const struct file *file_at(const tokens_t *t, uint64_t i)
{
    size_t low = 0, high = t->n_files;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (t->file[mid].first <= i)
            low = mid;
        else
            high = mid;
    }
    return &t->file[low];
}

static int beyond(const tokens_t *t, const struct file *f, uint64_t i, int32_t token, size_t vocab, ddp_error_t *errp)
{
    uint64_t offset = t->are_shards ? SHARD_HEADER_BYTES + 2 * i : i;
    return error_set(errp, DDP_E_DATA, 0, "%s: token %" PRId32 " at byte offset %" PRIu64 " is beyond the vocabulary of"
                     " %zu: use --vocab %" PRId32 " or more", f->path, token, offset, vocab, token + 1);
}

static int32_t wide_token(const struct file *f, uint64_t i)
{
    uint16_t token;
    memcpy(&token, f->data + i * sizeof token, sizeof token);
    return token;
}

int tokens_copy(const tokens_t *t, uint64_t first, size_t n, size_t vocab, int32_t *ret, ddp_error_t *errp)
{
    while (n > 0) {
        const struct file *f = file_at(t, first);
        uint64_t at = first - f->first, left = f->count - at;
        size_t k = n < left ? n : (size_t)left;
        for (size_t i = 0; i < k; i++) {
            int32_t token = t->are_shards ? wide_token(f, at + i) : f->data[at + i];
            if ((size_t)token >= vocab)
                return beyond(t, f, at + i, token, vocab, errp);
            ret[i] = token;
        }
        ret += k;
        first += k;
        n -= k;
    }
    return 0;
}
