/* savedir.h - a folder that checkpoints are written to and removed from, held by its descriptor.
 *
 * Checkpoints may lie where others can write: in a project's folder, on a scratch disk. So whatever is written, renamed
 * or removed is reached from an open descriptor (openat, renameat, unlinkat), never by a path, which could lead
 * elsewhere at the next call. No link is followed to write or remove: an entry that is a link or another user's is
 * left as it is, and the error names it. Reading (store.h) goes by paths.
 *
 * "Own" is what belongs to this user (geteuid), or to the owner of the folder of checkpoints: some file systems show
 * one owner for everything, and that owner may do as he likes there anyway. */
#ifndef DDP_RUNTIME_CKPT_SAVEDIR_H
#define DDP_RUNTIME_CKPT_SAVEDIR_H

#include <sys/types.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/folder.h"

struct savedir {
    int fd;                     /* -1: closed */
    uid_t owner;                /* of the folder of checkpoints, also in the folders below it */
    char path[FOLDER_PATH_MAX]; /* for messages */
};

/* Opens the folder of checkpoints. Links on the way there are followed where they belong to this user, to root, or to
 * the owner of the folder that they lie in, as the kernel does under fs.protected_symlinks; others are an error that
 * names the link. savedir_close closes. savedir_create makes (0755, durably) what is missing of the path. */
int savedir_open(struct savedir *ret, const char *path, ddp_error_t *errp);
int savedir_create(struct savedir *ret, const char *path, ddp_error_t *errp);

/* Whether others could harm what lies there: false, or true with a text that says who, what they could do, and the
 * cure. */
bool savedir_is_shared(const struct savedir *dir, char *ret, size_t size);

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
 * that is not there is removed. 1: it is a link or another user's, and was left: *errp says so. */
int savedir_remove(const struct savedir *dir, const char *name, ddp_error_t *errp);

int savedir_sync(const struct savedir *dir, ddp_error_t *errp);

#endif
