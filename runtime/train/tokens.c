#include "runtime/train/tokens.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/descriptors.h"
#include "runtime/base/hash.h"
#include "runtime/base/io.h"
#include "runtime/base/num.h"

struct file {
    char *path;
    int fd;
    uint64_t n_bytes;
    uint64_t first, count; /* its place in the whole */
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
        io_close(t->file[i].fd);
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

bool tokens_are_shards(const tokens_t *t)
{
    return t->are_shards;
}

void tokens_describe(const tokens_t *t, char *ret, size_t size)
{
    uint64_t n_bytes = 0, hash = HASH_START;
    for (const struct file *f = t->file; f < t->file + t->n_files; f++) {
        const char *slash = strrchr(f->path, '/');
        hash = hash_step(hash_step(hash, hash_text(slash ? slash + 1 : f->path)), f->n_bytes);
        n_bytes += f->n_bytes;
    }
    snprintf(ret, size, "%zu file%s of %" PRIu64 " bytes, %016" PRIx64, t->n_files, PLURAL(t->n_files), n_bytes,
             hash);
}

static bool is_shard_name(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".bin");
}

/* A file that is cut while it is read gives an error here; through a mapping it would be a signal. */
static int read_at(const struct file *f, void *buf, size_t n, uint64_t offset, ddp_error_t *errp)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(f->fd, (char *)buf + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(errp, "%s: cannot be read at byte offset %" PRIu64, f->path, offset + done);
        if (got == 0)
            return error_set(errp, DDP_E_DATA, 0, "%s: ends at byte offset %" PRIu64 ", but had %" PRIu64 " bytes when "
                             "it was opened: training data must not be cut while it is in use", f->path, offset + done,
                             f->n_bytes);
        done += (size_t)got;
    }
    return 0;
}

static int check_shard(struct file *f, ddp_error_t *errp)
{
    int32_t header[3]; /* magic, version, tokens */
    if (f->n_bytes < SHARD_HEADER_BYTES)
        return error_set(errp, DDP_E_DATA, 0, "%s: truncated: %" PRIu64 " bytes, but a token shard begins with a header"
                         " of %d: make the shard again", f->path, f->n_bytes, SHARD_HEADER_BYTES);
    if (read_at(f, header, sizeof header, 0, errp) < 0)
        return -1;
    if (header[0] != SHARD_MAGIC)
        return error_set(errp, DDP_E_DATA, 0, "%s: not a token shard (magic %" PRId32 ", not %d): rename it, without"
                         " .bin, to train on its bytes", f->path, header[0], SHARD_MAGIC);
    if (header[1] != SHARD_VERSION)
        return error_set(errp, DDP_E_DATA, 0, "%s: token shard of version %" PRId32 ", only version %d (16-bit tokens)"
                         " can be read: make the shard again", f->path, header[1], SHARD_VERSION);
    int32_t n = header[2];
    uint64_t held = (f->n_bytes - SHARD_HEADER_BYTES) / 2;
    if (n <= 0)
        return error_set(errp, DDP_E_DATA, 0, "%s: empty: its header says %" PRId32 " tokens: leave it out of --data",
                         f->path, n);
    if ((uint64_t)n == held && f->n_bytes % 2)
        return error_set(errp, DDP_E_DATA, 0, "%s: ends within a token: make the shard again", f->path);
    if ((uint64_t)n != held)
        return error_set(errp, DDP_E_DATA, 0, "%s: %s: its header says %" PRId32 " tokens, the file holds %" PRIu64
                         ": make the shard again", f->path, (uint64_t)n > held ? "truncated" : "too long", n, held);
    f->count = (uint64_t)n;
    return 0;
}

/* Every file stays open. */
static int open_file(struct file *f, ddp_error_t *errp)
{
    struct stat st;
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    f->fd = open(f->path, flags);
    if (f->fd < 0 && errno == EMFILE && descriptors_reserve(1))
        f->fd = open(f->path, flags);
    if (f->fd < 0 && errno == EMFILE)
        return error_set(errp, DDP_E_SYSTEM, EMFILE, "data: %s: more files than a process may open here: raise "
                         "ulimit -n, or join files", f->path);
    if (f->fd < 0 || fstat(f->fd, &st) < 0) {
        error_errno(errp, "%s: cannot be read", f->path);
        return error_prefix(errp, "data");
    }
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return error_set(errp, DDP_E_DATA, 0, "%s: %s: leave it out of --data", f->path,
                         st.st_size == 0 && S_ISREG(st.st_mode) ? "empty" : "not a regular file");
    f->n_bytes = (uint64_t)st.st_size;
    return 0;
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
    *f = (struct file){.path = path, .fd = -1, .first = first};
    if (t->n_files > 1 && is_shard != t->are_shards)
        return error_set(errp, DDP_E_DATA, 0, "%s is %s, but %s is %s: train on one kind at a time", path,
                         is_shard ? "a token shard" : "bytes", t->file[0].path, is_shard ? "bytes" : "a token shard");
    t->are_shards = is_shard;
    if (open_file(f, errp) < 0)
        return -1;
    if (is_shard)
        return check_shard(f, errp);
    f->count = f->n_bytes;
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

/* Of the file's token i. */
static uint64_t byte_offset(const tokens_t *t, uint64_t i)
{
    return t->are_shards ? SHARD_HEADER_BYTES + 2 * i : i;
}

static int beyond(const tokens_t *t, const struct file *f, uint64_t i, int32_t token, size_t vocab, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_DATA, 0, "%s: token %" PRId32 " at byte offset %" PRIu64 " is beyond the vocabulary of"
                     " %zu: %s --vocab %" PRId32 "%s", f->path, token, byte_offset(t, i), vocab,
                     t->are_shards ? "use" : "bytes need", t->are_shards ? token + 1 : 256,
                     t->are_shards ? " or more, the tokenizer's" : "");
}

/* The part of [first, first + n) that lies in the file of `first`, as [*ret_at, *ret_at + returned) in that file. */
static size_t part_in_file(const tokens_t *t, uint64_t first, size_t n, const struct file **ret_file, uint64_t *ret_at)
{
    const struct file *f = file_at(t, first);
    uint64_t left = f->count - (first - f->first);
    *ret_file = f;
    *ret_at = first - f->first;
    return n < left ? n : (size_t)left;
}

static int32_t wide_token(const unsigned char *bytes)
{
    uint16_t token;
    memcpy(&token, bytes, sizeof token);
    return token;
}

/* The file's bytes go to the end of ret and become tokens from its beginning on, which never passes what is not read
 * yet: token i ends at 4i + 4, bytes of token i + 1 begin at (4 - width) n + width (i + 1). */
static int copy_part(const tokens_t *t, const struct file *f, uint64_t at, size_t n, size_t vocab, int32_t *ret,
                     ddp_error_t *errp)
{
    size_t width = t->are_shards ? 2 : 1;
    unsigned char *bytes = (unsigned char *)ret + (sizeof *ret - width) * n;
    if (read_at(f, bytes, width * n, byte_offset(t, at), errp) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        int32_t token = width == 2 ? wide_token(bytes + 2 * i) : bytes[i];
        if ((size_t)token >= vocab)
            return beyond(t, f, at + i, token, vocab, errp);
        ret[i] = token;
    }
    return 0;
}

static int check_range(const tokens_t *t, uint64_t first, size_t n, ddp_error_t *errp)
{
    uint64_t count = tokens_count(t);
    if (first <= count && n <= count - first)
        return 0;
    return error_set(errp, DDP_E_USAGE, ERANGE, "%zu tokens from %" PRIu64 " on: there are %" PRIu64, n, first, count);
}

int tokens_copy(const tokens_t *t, uint64_t first, size_t n, size_t vocab, int32_t *ret, ddp_error_t *errp)
{
    if (check_range(t, first, n, errp) < 0)
        return -1;
    for (size_t k; n > 0; n -= k, first += k, ret += k) {
        const struct file *f;
        uint64_t at;
        k = part_in_file(t, first, n, &f, &at);
        if (copy_part(t, f, at, k, vocab, ret, errp) < 0)
            return -1;
    }
    return 0;
}

void tokens_ahead(const tokens_t *t, uint64_t first, size_t n)
{
    if (check_range(t, first, n, NULL) < 0)
        return;
    for (size_t k; n > 0; n -= k, first += k) {
        const struct file *f;
        uint64_t at;
        k = part_in_file(t, first, n, &f, &at);
        posix_fadvise(f->fd, (off_t)byte_offset(t, at), (off_t)(t->are_shards ? 2 * k : k), POSIX_FADV_WILLNEED);
    }
}
