/* walk.h - opens a folder whose path may lead through folders where other users can put links.
 *
 * A link that belongs to this user or to root is followed. A link that belongs to the owner of the folder in which it
 * lies is followed only to that owner's files, and nothing is created beyond it. Any other link is an error that names
 * it. */
#ifndef DDP_RUNTIME_CKPT_WALK_H
#define DDP_RUNTIME_CKPT_WALK_H

#include <stdbool.h>
#include <sys/stat.h>

#include "runtime/base/error.h"

#define WALK_FOLDER_MODE 0755 /* of folders that we create, less the umask: no other user can write to them */

struct walk_end {
    struct stat st;  /* of the folder */
    bool is_exposed; /* others can put another folder in its place: they may write to a folder of the path */
};

/* Opens the folder `path`; with `makes`, first creates the missing folders of the path, durably. The descriptor, or
 * -1. */
int walk_open(const char *path, bool makes, struct walk_end *ret, ddp_error_t *errp);

#endif
