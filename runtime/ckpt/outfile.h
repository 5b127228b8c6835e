/* outfile.h - writes byte ranges of one file, while other processes write other ranges of it.
 *
 * Whole pages are written past the page cache if the file system can: that costs no processor time, and other programs'
 * pages stay in the cache. The edges of a range, whose pages two ranks may share, are written through the cache. */
#ifndef DDP_RUNTIME_CKPT_OUTFILE_H
#define DDP_RUNTIME_CKPT_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/savedir.h"

struct outfile {
    int fd;
    bool can_direct;            /* the file system can write past the page cache */
    size_t page_bytes;          /* of that cache: 4096, or up to 65536 on arm64 */
    char path[FOLDER_PATH_MAX]; /* for messages */
};

/* Opens the file `name` in dir, or creates it, and allocates its n_bytes if the file system can, so that a full disk is
 * an error here. */
int outfile_open(struct outfile *p, const struct savedir *dir, const char *name, uint64_t n_bytes, ddp_error_t *errp);

/* Writes from[0..n) to bytes [at, at + n). Whole pages are written past the page cache if the file system allows it and
 * `from` and `at` are equal modulo 4096. */
int outfile_write(struct outfile *p, const void *from, size_t n, uint64_t at, ddp_error_t *errp);

/* fsync and close; the file is closed also on an error. A struct that outfile_open did not fill is not allowed. */
int outfile_close(struct outfile *p, ddp_error_t *errp);
void outfile_drop(struct outfile *p); /* close only */

#endif
