#include "config.h" /* mkostemp */
#include "topology/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/base/hash.h"
#include "runtime/base/io.h"
#include "topology/load_impl.h"

#define SYSFS_BYTES 4096 /* a page: no attribute is longer */

/* What must be the same for a file to be believed. Behind it come the tables' used parts. */
struct head {
    char version[16];
    uint32_t hwloc, size; /* hwloc's version; of struct inventory */
    uint64_t machine;
};

enum { N_PARTS = 4 };

/* The file as it lies in memory. The last two parts are as long as the second one says. */
static void spread(struct head *head, struct inventory *inv, struct iovec part[N_PARTS])
{
    part[0] = (struct iovec){head, sizeof *head};
    part[1] = (struct iovec){inv, offsetof(struct inventory, core)};
    part[2] = (struct iovec){inv->core, inv->n_cores * sizeof inv->core[0]};
    part[3] = (struct iovec){inv->numa, inv->n_numas * sizeof inv->numa[0]};
}

static int add_file(uint64_t *hash, const char *path, bool is_needed)
{
    char text[SYSFS_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : io_read_up_to(fd, text, sizeof text);
    io_close(fd);
    for (ssize_t i = 0; i < n; i++)
        *hash = hash_step(*hash, (unsigned char)text[i]);
    *hash = hash_step(*hash, 256); /* where one file ends and the next begins */
    return n < 0 && is_needed ? -1 : 0;
}

/* A kernel without NUMA has no lists of nodes. Memory of a node may come and go with the node online. */
int cache_machine(uint64_t *ret)
{
    *ret = HASH_START;
    return add_file(ret, "/proc/sys/kernel/random/boot_id", true) < 0 ||
                   add_file(ret, "/sys/devices/system/cpu/online", true) < 0 ||
                   add_file(ret, "/sys/devices/system/node/online", false) < 0 ||
                   add_file(ret, "/sys/devices/system/node/has_memory", false) < 0
               ? -1
               : 0;
}

static void fill_head(struct head *ret, uint64_t machine)
{
    memset(ret, 0, sizeof *ret);
    snprintf(ret->version, sizeof ret->version, "%s", PACKAGE_VERSION);
    ret->hwloc = (uint32_t)import_version();
    ret->size = sizeof(struct inventory);
    ret->machine = machine;
}

static bool is_roots(int fd, mode_t type)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == 0 &&
           !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* ---- reading ---- */

static bool read_part(int fd, struct iovec part)
{
    return io_read_up_to(fd, part.iov_base, part.iov_len) == (ssize_t)part.iov_len;
}

static bool read_tables(int fd, struct inventory *inv)
{
    struct head head, here;
    struct iovec part[N_PARTS];
    uint64_t machine;
    char more;
    if (!is_roots(fd, S_IFREG) || cache_machine(&machine) < 0)
        return false;
    spread(&head, inv, part);
    fill_head(&here, machine);
    if (!read_part(fd, part[0]) || memcmp(&head, &here, sizeof head) != 0 || !read_part(fd, part[1]) ||
        inv->n_cores > INVENTORY_CORES_MAX || inv->n_numas > INVENTORY_NUMAS_MAX || inv->n_gpus || inv->n_nics)
        return false;
    spread(&head, inv, part);
    return read_part(fd, part[2]) && read_part(fd, part[3]) && io_read_up_to(fd, &more, 1) == 0 &&
           inventory_is_sound(inv);
}

int cache_read(const char *folder, struct inventory *inv)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" CACHE_FILE, folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    int rc = fd >= 0 && read_tables(fd, inv) ? 0 : -1;
    io_close(fd);
    return rc;
}

/* ---- writing ---- */

static int fail(const char *path, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_SYSTEM, errno, "%s: %s", path, strerror(errno));
}

/* Makes the folder, or finds it as it must be. */
static int check_folder(const char *folder, ddp_error_t *errp)
{
    bool is_new = mkdir(folder, 0755) == 0;
    if (!is_new && errno != EEXIST)
        return fail(folder, errp);
    int fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW);
    int rc = fd < 0 || (is_new && fchmod(fd, 0755) < 0) ? fail(folder, errp) : 0;
    if (rc == 0 && !is_roots(fd, S_IFDIR))
        rc = error_set(errp, DDP_E_SYSTEM, EPERM, "%s is not root's alone: remove it", folder);
    io_close(fd);
    return rc;
}

static int write_whole(int fd, struct head *head, struct inventory *inv)
{
    struct iovec part[N_PARTS];
    size_t size = 0;
    spread(head, inv, part);
    for (int i = 0; i < N_PARTS; i++)
        size += part[i].iov_len;
    errno = ENOSPC; /* where it is cut short */
    return writev(fd, part, N_PARTS) == (ssize_t)size && fchmod(fd, 0644) == 0 ? 0 : -1;
}

/* Whole or not at all: readers find the old file or the new one. */
static int replace(const char *folder, struct head *head, struct inventory *inv, ddp_error_t *errp)
{
    char draft[PATH_MAX], path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" CACHE_FILE, folder);
    snprintf(draft, sizeof draft, "%s/." CACHE_FILE ".XXXXXX", folder);
    int fd = mkostemp(draft, O_CLOEXEC);
    if (fd < 0)
        return fail(draft, errp);
    int rc = write_whole(fd, head, inv) < 0 || rename(draft, path) < 0 ? fail(path, errp) : 0;
    if (rc < 0)
        unlink(draft);
    io_close(fd);
    return rc;
}

void cache_forget(const char *folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" CACHE_FILE, folder);
    unlink(path);
}

int cache_write(const char *folder, uint64_t machine, const struct inventory *inv, ddp_error_t *errp)
{
    struct head head;
    uint64_t now;
    if (cache_machine(&now) < 0 || now != machine)
        return error_set(errp, DDP_E_SYSTEM, EAGAIN, "CPUs or NUMA nodes came or went while they were read");
    if (check_folder(folder, errp) < 0)
        return -1;
    struct inventory *own = calloc(1, sizeof *own);
    if (!own)
        return error_errno(errp, "no memory for the machine's inventory");
    inventory_copy(own, inv);
    own->has_io = false;
    own->n_gpus = own->n_nics = 0;
    fill_head(&head, machine);
    int rc = replace(folder, &head, own, errp);
    free(own);
    return rc;
}
