/* folder.h - folders of checkpoints: their names, and listing them. savedir.h writes and removes them. */
#ifndef DDP_RUNTIME_CKPT_FOLDER_H
#define DDP_RUNTIME_CKPT_FOLDER_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

#define FOLDER_PATH_MAX 4096

/* "DIR/NAME" into ret; -1 where it is too long. */
int folder_path(char ret[FOLDER_PATH_MAX], const char *dir, const char *name, ddp_error_t *errp);

/* A path for errors: whole, or "..." and the end of one that is too long, from a name on where that is possible. */
#define FOLDER_BRIEF_MAX 90
const char *folder_brief(const char *path, char ret[FOLDER_BRIEF_MAX + 1]);
#define FOLDER_BRIEF(path) folder_brief(path, (char[FOLDER_BRIEF_MAX + 1]){0})

/* "step-00000100" */
void folder_name(uint64_t step, char ret[32]);

/* The step of "step-00000100"; false: `name` is no such name. */
bool folder_step(const char *name, uint64_t *ret);

/* Calls f for every entry of dir but "." and "..", until f returns less than 0, which is then returned. Entries may be
 * removed meanwhile. A folder that does not exist has no entries. */
typedef int folder_f(void *ctx, const char *dir, const char *name, ddp_error_t *errp);
int folder_each(const char *dir, folder_f *f, void *ctx, ddp_error_t *errp);
int folder_each_of(DIR *d, const char *dir, folder_f *f, void *ctx, ddp_error_t *errp); /* closes d */

/* The steps that have a folder, with a manifest or without. A zeroed struct is empty; the caller frees `step`. */
struct folder_steps {
    uint64_t *step; /* [n] */
    size_t n, room;
};

int folder_add_step(struct folder_steps *s, uint64_t step, ddp_error_t *errp);
bool folder_has_step(const struct folder_steps *s, uint64_t step);
uint64_t folder_newest(const struct folder_steps *s); /* 0: it is empty */

/* A folder_f for folder_each with a struct folder_steps; folder_sort_steps makes them rise. */
int folder_note_step(void *steps, const char *dir, const char *name, ddp_error_t *errp);
void folder_sort_steps(struct folder_steps *s);

/* What an error says behind the name of what could not be made, where errno is ENOSPC since the file system of `fd` has
 * no inode left, which `df` does not show; else "". Preserves errno. */
const char *folder_lacks(int fd);

/* True if `path`, or what there is above it, lies on a disk or in the memory of this node: no other node changes it. */
bool folder_is_local(const char *path);

/* True if the folder `path`, below at_fd or AT_FDCWD, has a manifest, or if that cannot be found out. */
bool folder_has_manifest(int at_fd, const char *path);

#endif
