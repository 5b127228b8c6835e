/* walk.h - the way to a folder that may lie where others can put links.
 *
 * Links are followed where they belong to this user or to root. One of the owner of the folder that it lies in leads
 * only to what is that owner's, and nothing is made behind it; any other is an error that names it. */
#ifndef DDP_RUNTIME_CKPT_WALK_H
#define DDP_RUNTIME_CKPT_WALK_H

#include <stdbool.h>
#include <sys/stat.h>

#include "runtime/base/error.h"

#define WALK_FOLDER_MODE 0755 /* of what we make, less the umask: nobody else writes to it */

struct walk_end {
    struct stat st;  /* of the folder */
    bool is_exposed; /* others can put another folder in its place: one on the way is theirs to write, not sticky */
};

/* Opens the folder `path`; makes: makes what is missing of it, durably. The descriptor, or -1. */
int walk_open(const char *path, bool makes, struct walk_end *ret, ddp_error_t *errp);

#endif
