/* savedir.h - a folder that checkpoints are written to and removed from, held open by its descriptor.
 *
 * Checkpoints may lie where other users can write: in a project's folder, on a scratch disk. So a file is written,
 * renamed or removed only through an open descriptor (openat, renameat, unlinkat), never by a path, which could lead
 * elsewhere at the next call. No link is followed to write or remove: an entry that is a link or another user's is left
 * as it is, and the error names it. Reading (reader.h) uses paths.
 *
 * A file is "own" if it belongs to this user (geteuid), or to the owner that the file system shows for files that this
 * user creates there, which is another one on exports that squash users. */
#ifndef DDP_RUNTIME_CKPT_SAVEDIR_H
#define DDP_RUNTIME_CKPT_SAVEDIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/folder.h"

/* How a job recognises its folder of checkpoints after it has opened it first. */
struct savedir_known {
    ino_t inode;
    uid_t uid; /* owner of files that this user creates there */
};

struct savedir {
    int fd;                     /* -1: closed */
    struct savedir_known known; /* also in the folders below it */
    bool is_exposed;            /* walk.h */
    char path[FOLDER_PATH_MAX]; /* for messages */
    atomic_ulong *n_removed;    /* files and folders that were removed, also below it, are counted here; or NULL */
};

/* Opens the folder of checkpoints by walk.h's rules for links; if `known` is not NULL, it must still be that folder.
 * The caller closes it with savedir_close. savedir_create also creates the missing folders of the path. */
int savedir_open(struct savedir *ret, const char *path, const struct savedir_known *known, ddp_error_t *errp);
int savedir_create(struct savedir *ret, const char *path, ddp_error_t *errp);

/* True if other users could damage the folder's files; ret (NULL: not wanted) then says who, what they could do, and
 * the cure. is_strict: also if they could put another folder in its place. */
bool savedir_is_shared(const struct savedir *dir, bool is_strict, char *ret, size_t size);

/* savedir_probe creates the file `name`, empty, for which a full disk has room, and sets dir->known.uid from its owner;
 * savedir_see looks for the file that another rank has created by savedir_probe. */
int savedir_probe(struct savedir *dir, const char *name, ddp_error_t *errp);
int savedir_see(struct savedir *dir, const char *name, ddp_error_t *errp);

/* Opens the folder `name` in dir, which must be own and no link; savedir_make first creates it (0755) if it does not
 * exist. */
int savedir_enter(struct savedir *ret, const struct savedir *dir, const char *name, ddp_error_t *errp);
int savedir_make(struct savedir *ret, const struct savedir *dir, const char *name, ddp_error_t *errp);

void savedir_close(struct savedir *dir); /* preserves errno; a closed one is allowed */

/* Opens or creates (0644) the file `name` for writing; it must be a regular file, own, and without a second name (hard
 * link). The descriptor, or -1. */
int savedir_open_file(const struct savedir *dir, const char *name, ddp_error_t *errp);

/* As folder_each. */
int savedir_each(const struct savedir *dir, folder_f *f, void *ctx, ddp_error_t *errp);

int savedir_rename(const struct savedir *dir, const char *from, const char *to, ddp_error_t *errp);

/* Removes a file; it is no error if there is none. */
int savedir_remove_file(const struct savedir *dir, const char *name, ddp_error_t *errp);

/* Removes a checkpoint's folder, and first, durably, its manifest: what is left of it at any moment is no checkpoint.
 * It is no error if there is none. 1: the folder was not removed, and *errp says why: it is a link or another user's;
 * it has a folder in it; or dir can be written by others, and the folder has no manifest but has files that no
 * checkpoint has, so that it may be something else that was moved there. */
int savedir_remove(const struct savedir *dir, const char *name, ddp_error_t *errp);

/* 1: the folder `name` is own and has a manifest; 0: it has none, is a link or another user's, or is not there; -1:
 * that cannot be told. savedir_has_own: is it 1? */
int savedir_look(const struct savedir *dir, const char *name, ddp_error_t *errp);
bool savedir_has_own(const struct savedir *dir, const char *name);

int savedir_sync(const struct savedir *dir, ddp_error_t *errp);

#endif
