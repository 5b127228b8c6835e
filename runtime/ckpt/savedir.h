/* savedir.h - a folder that checkpoints are written to and removed from, held by its descriptor.
 *
 * Checkpoints may lie where others can write: in a project's folder, on a scratch disk. So whatever is written, renamed
 * or removed is reached from an open descriptor (openat, renameat, unlinkat), never by a path, which could lead
 * elsewhere at the next call. No link is followed to write or remove: an entry that is a link or another user's is
 * left as it is, and the error names it. Reading (reader.h) goes by paths.
 *
 * "Own" is what belongs to this user (geteuid), or to the owner that the file system shows for what this user makes
 * there: exports that squash users show another. */
#ifndef DDP_RUNTIME_CKPT_SAVEDIR_H
#define DDP_RUNTIME_CKPT_SAVEDIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/folder.h"

/* What a job has found when it first opened its folder of checkpoints. */
struct savedir_known {
    ino_t inode;
    uid_t uid; /* of what this user makes there */
};

struct savedir {
    int fd;                     /* -1: closed */
    struct savedir_known known; /* also in the folders below it */
    bool is_exposed;            /* walk.h */
    char path[FOLDER_PATH_MAX]; /* for messages */
};

/* Opens the folder of checkpoints by walk.h's rules for links; where `known` is not NULL, it must be that one still.
 * savedir_close closes. savedir_create makes what is missing of the path. */
int savedir_open(struct savedir *ret, const char *path, const struct savedir_known *known, ddp_error_t *errp);
int savedir_create(struct savedir *ret, const char *path, ddp_error_t *errp);

/* Whether others could harm what lies there: false, or true with a text (NULL: none is wanted) that says who, what they
 * could do, and the cure. is_strict: also where they could put another folder in its place. */
bool savedir_is_shared(const struct savedir *dir, bool is_strict, char *ret, size_t size);

/* Makes the folder `name`, and learns what dir->known.uid is from it; sees the one that another rank has made. */
int savedir_probe(struct savedir *dir, const char *name, ddp_error_t *errp);
int savedir_see(struct savedir *dir, const char *name, ddp_error_t *errp);

/* Opens the folder `name` in dir, which must be own and no link; savedir_make makes it (0755) unless it is there. */
int savedir_enter(struct savedir *ret, const struct savedir *dir, const char *name, ddp_error_t *errp);
int savedir_make(struct savedir *ret, const struct savedir *dir, const char *name, ddp_error_t *errp);

void savedir_close(struct savedir *dir); /* preserves errno; a closed one is allowed */

/* Opens or makes (0644) the file `name` for writing: a regular file, own, with no other name. The descriptor, or -1. */
int savedir_open_file(const struct savedir *dir, const char *name, ddp_error_t *errp);

/* As folder_each. */
int savedir_each(const struct savedir *dir, folder_f *f, void *ctx, ddp_error_t *errp);

int savedir_rename(const struct savedir *dir, const char *from, const char *to, ddp_error_t *errp);

/* One that is not there is removed. */
int savedir_remove_file(const struct savedir *dir, const char *name, ddp_error_t *errp);

/* Removes a checkpoint's folder, its manifest first and durably: what is left of it at any moment is no checkpoint. One
 * that is not there is removed. 1: it was left, as *errp says: it is a link, another user's, or, in a folder that
 * others can write to, without a manifest and with what no checkpoint holds: something else, perhaps, moved there. */
int savedir_remove(const struct savedir *dir, const char *name, ddp_error_t *errp);

/* Is there a manifest in the folder `name` that is own and no link? */
bool savedir_has_own(const struct savedir *dir, const char *name);

int savedir_sync(const struct savedir *dir, ddp_error_t *errp);

#endif
