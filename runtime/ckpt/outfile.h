/* outfile.h - writing byte ranges of one file, beside others that write other ranges of it.
 *
 * Whole pages go past the page cache where the file system can: that costs no core, and leaves the pages of others in
 * the cache. The edges of a range, which two ranks may have in one page, go through the cache. */
#ifndef DDP_RUNTIME_CKPT_OUTFILE_H
#define DDP_RUNTIME_CKPT_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/ckpt/savedir.h"

struct put {
    int fd;
    bool can_direct;            /* past the page cache, where that can be */
    char path[FOLDER_PATH_MAX]; /* for messages */
};

/* Opens the file `name` in dir, which is made if it is not there, with all its n_bytes allocated where the file system can: a disk
 * that is full says so here. */
int put_open(struct put *p, const struct savedir *dir, const char *name, uint64_t n_bytes, ddp_error_t *errp);

/* from[0..n) to bytes [at, at + n). Past the page cache, but for the edges, where the file system allows it and `from`
 * and `at` are the same modulo 4096. */
int put_write(struct put *p, const void *from, size_t n, uint64_t at, ddp_error_t *errp);

/* fsync and close; the file is closed in any case. A struct that put_open did not fill is not allowed. */
int put_close(struct put *p, ddp_error_t *errp);
void put_drop(struct put *p); /* close only */

#endif
