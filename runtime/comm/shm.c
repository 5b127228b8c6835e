#include <config.h> /* memfd_create, MADV_HUGEPAGE, struct ucred */

#include "runtime/comm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/io.h"
#include "runtime/base/retry.h"

enum {
    PAGE = 64 << 10, /* the largest page in use: parts of a file are mapped from a multiple of it */
    SMALL_PAGE = 4 << 10
};

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int rank_of(const struct shm *s, int local)
{
    return world_rank_at(s->world, s->node, local);
}

static size_t control_bytes(const struct shm *s)
{
    return round_up(sizeof(struct shm_control) + (size_t)s->local_size * sizeof(struct shm_slot), 64);
}

static size_t head_bytes(const struct shm *s)
{
    return round_up(control_bytes(s) + watch_board_bytes(s->world->size, s->local_size), PAGE);
}

static size_t first_bytes(const struct shm *s)
{
    return head_bytes(s) + (size_t)s->local_size * s->stage_bytes;
}

/* Pages come into being when touched, and beyond a control group's limit the kernel kills whoever touches one. */
static int check_memory(size_t total, ddp_error_t *errp)
{
    uint64_t limit = cgroup_memory_limit("");
    if (total <= limit)
        return 0;
    return error_set(errp, DDP_E_USAGE, ENOMEM,
                     "this node's ranks share %zu MiB of memory, but their control group allows %llu MiB: ask for more "
                     "memory (--mem) or start fewer ranks per node",
                     total >> 20, (unsigned long long)(limit >> 20));
}

static int grow(struct shm *s, size_t total, ddp_error_t *errp)
{
    if (check_memory(total, errp) < 0)
        return -1;
    if (io_grow(s->memfd, total) == 0)
        return 0;
    if (errno == EFBIG)
        return error_set(errp, DDP_E_USAGE, EFBIG, "this node's ranks share %zu MiB of memory, which is more than "
                         "`ulimit -f` allows: raise it", (total + (1 << 20) - 1) >> 20);
    return error_errno(errp, "%zu MiB of shared memory", total >> 20);
}

static int fail_map(size_t n, ddp_error_t *errp)
{
    return error_errno(errp, "no address space for %zu MiB of shared memory (ulimit -v)", (n + (1 << 20) - 1) >> 20);
}

static int map_first(struct shm *s, int protection, int flags, ddp_error_t *errp)
{
    if (s->base)
        munmap(s->base, s->base_bytes);
    s->base_bytes = first_bytes(s);
    s->base = mmap(NULL, s->base_bytes, protection, flags, s->memfd, 0);
    if (s->base != MAP_FAILED)
        return 0;
    s->base = NULL;
    return fail_map(s->base_bytes, errp);
}

int shm_reserve(struct shm *s, ddp_error_t *errp)
{
    return map_first(s, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, errp);
}

static socklen_t abstract_address(const char *name, struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t n = strlen(name);
    memcpy(a->sun_path + 1, name, n); /* a leading zero: no path */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

int shm_offer(struct shm *s, struct handshake *m, char name[SHM_NAME_MAX + 1], ddp_error_t *errp)
{
    struct sockaddr_un addr;
    s->memfd = memfd_create("ddp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->memfd < 0)
        return error_errno(errp, "memfd_create");
    if (grow(s, first_bytes(s), errp) < 0)
        return -1;
    if (fcntl(s->memfd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        return error_errno(errp, "seal the shared memory");
    if (s->local_size == 1)
        return 0;
    strcpy(name, "ddp-");
    if (io_random_hex(name + 4, 16, errp) < 0)
        return -1;
    m->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (m->fd < 0 || bind(m->fd, (struct sockaddr *)&addr, abstract_address(name, &addr)) < 0 ||
        listen(m->fd, SOMAXCONN) < 0)
        return error_errno(errp, "unix socket for the ranks of this node");
    return 0;
}

/* The process at the other end of a unix socket, as the watch wants it. */
static struct watch_peer watch_peer_of(int rank, int fd)
{
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n);
    int pidfd = peer.pid > 0 ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1; /* without one the socket must do */
    return (struct watch_peer){.rank = rank, .fd = fd, .pidfd = pidfd, .pid = peer.pid};
}

static int admit(struct shm *s, const struct handshake *m, uint64_t deadline, ddp_error_t *errp)
{
    size_t n = (size_t)s->local_size - 1;
    struct handshake_guest *guests = calloc(n + 1, sizeof *guests);
    s->peers = calloc(n + 1, sizeof *s->peers);
    int rc = guests && s->peers ? 0 : error_errno(errp, "wire-up");
    for (size_t i = 0; rc == 0 && i < n; i++)
        guests[i] = (struct handshake_guest){.rank = rank_of(s, (int)i + 1), .kind = MEET_SHM};
    if (rc == 0 && n > 0)
        rc = handshake_accept(m, s->world, guests, n, true, deadline, errp);
    for (size_t i = 0; rc == 0 && i < n; i++)
        s->peers[s->n_peers++] = watch_peer_of(guests[i].rank, guests[i].fd);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char who[96];
        world_rank_name(s->world, guests[i].rank, who, sizeof who);
        rc = handshake_answer(guests[i].fd, m, who, s->memfd, errp);
    }
    free(guests);
    return rc;
}

static int connect_leader(struct shm *s, const char *name, const char *who, uint64_t deadline, ddp_error_t *errp)
{
    struct sockaddr_un addr;
    socklen_t n = abstract_address(name, &addr);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_errno(errp, "unix socket");
    s->peers[0] = (struct watch_peer){.rank = rank_of(s, 0), .fd = fd, .pidfd = -1};
    s->n_peers = 1;
    int rc = io_connect(fd, (const struct sockaddr *)&addr, n, deadline); /* strangers may have filled the queue */
    if (rc < 0 && errno == ETIMEDOUT)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%s did not answer before the deadline", who);
    if (rc < 0)
        return error_errno(errp, "%s is not reached over its unix socket; are both in one network namespace?", who);
    if (!io_same_user(fd))
        return error_set(errp, DDP_E_COMM, EPERM, "%s runs as another user", who);
    return fd;
}

/* One try. 1: the leader closed the connection, as it does to strangers: it may not have heard us. */
static int fetch_once(struct shm *s, const struct handshake *m, const char *name, const char *who, uint64_t deadline,
                      ddp_error_t *errp)
{
    ddp_error_t e;
    int leader = rank_of(s, 0), fd = connect_leader(s, name, who, deadline, errp);
    if (fd < 0)
        return -1;
    if (handshake_call(fd, m, s->world, leader, MEET_SHM, deadline, &e) == 0 &&
        handshake_answered(fd, m, who, &s->memfd, deadline, &e) == 0)
        return 0;
    error_set(errp, e.domain, e.code, "%s", e.text);
    if (e.domain != DDP_E_PEER)
        return -1;
    io_close(fd);
    s->peers[0].fd = -1;
    return 1;
}

static int fetch(struct shm *s, const struct handshake *m, const char *name, uint64_t deadline, ddp_error_t *errp)
{
    char who[96];
    int rc;
    ddp_error_t e, first = {0};
    struct retry retry = {.deadline = deadline};
    world_rank_name(s->world, rank_of(s, 0), who, sizeof who);
    s->peers = calloc(1, sizeof *s->peers);
    if (!s->peers)
        return error_errno(errp, "wire-up");
    while ((rc = fetch_once(s, m, name, who, deadline, &e)) != 0) {
        if (first.code == 0)
            first = e; /* who closed a connection and is not there any more has ended */
        if (rc < 0 || !retry_wait(&retry))
            return error_set(errp, first.domain, first.code, "%s", first.text);
    }
    s->peers[0] = watch_peer_of(rank_of(s, 0), s->peers[0].fd);
    return s->memfd < 0 ? error_set(errp, DDP_E_COMM, EPROTO, "%s passed no memory", who) : 0;
}

static int map_head(struct shm *s, ddp_error_t *errp)
{
    if (map_first(s, PROT_READ | PROT_WRITE, MAP_SHARED, errp) < 0)
        return -1;
    s->file_bytes = s->base_bytes;
    s->control = (struct shm_control *)s->base;
    s->board = (struct watch_board *)(s->base + control_bytes(s));
    s->stage = s->base + head_bytes(s);
    return 0;
}

int shm_join(struct shm *s, const struct handshake *m, const char *name, uint64_t deadline, ddp_error_t *errp)
{
    char me[96], leader[96];
    int rc = s->local == 0 ? admit(s, m, deadline, errp) : fetch(s, m, name, deadline, errp);
    if (rc == 0)
        rc = map_head(s, errp);
    if (rc < 0 && s->local > 0)
        return error_prefix(errp, "%s cannot share memory with %s",
                            world_rank_name(s->world, s->world->rank, me, sizeof me),
                            world_rank_name(s->world, rank_of(s, 0), leader, sizeof leader));
    return rc;
}

/* Every rank sees the same two that differ. */
static int compare_wants(struct shm *s, ddp_error_t *errp)
{
    const struct shm_slot *slots = s->control->slots;
    char a[96], b[96];
    for (int l = 1; l < s->local_size; l++)
        if (slots[l].want_bytes != slots[0].want_bytes)
            return error_set(
                errp, DDP_E_USAGE, EINVAL, "%s asks for a segment of %llu bytes, but %s for %llu",
                world_rank_name(s->world, rank_of(s, 0), a, sizeof a), (unsigned long long)slots[0].want_bytes,
                world_rank_name(s->world, rank_of(s, l), b, sizeof b), (unsigned long long)slots[l].want_bytes);
    return 0;
}

/* Brings a rank's own part into being, on its own NUMA node and before the first gradient is timed. */
static void touch(char *p, size_t n)
{
    for (size_t at = 0; at < n; at += SMALL_PAGE)
        ((volatile char *)p)[at] = 0;
}

char *shm_map(struct shm *s, size_t n_bytes, size_t *ret_stride, ddp_error_t *errp)
{
    size_t stride = round_up(n_bytes ? n_bytes : 1, PAGE), n = stride * (size_t)s->local_size;
    s->control->slots[s->local].want_bytes = n_bytes;
    if (shm_barrier(s, WATCH_IN_SEGMENT, errp) < 0 || compare_wants(s, errp) < 0)
        return NULL;
    if (s->local == 0 && grow(s, s->file_bytes + n, errp) < 0)
        return NULL;
    if (shm_barrier(s, WATCH_IN_SEGMENT, errp) < 0)
        return NULL;
    char *map = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, s->memfd, (off_t)s->file_bytes);
    if (map == MAP_FAILED) {
        fail_map(n, errp);
        return NULL;
    }
    madvise(map, n, MADV_HUGEPAGE); /* where the kernel lets shared memory have them */
    touch(map + (size_t)s->local * stride, stride);
    s->file_bytes += n;
    *ret_stride = stride;
    return map;
}

void shm_unmap(struct shm *s, char *map, size_t stride)
{
    munmap(map, stride * (size_t)s->local_size);
}

void shm_disown(struct shm *s)
{
    io_close(s->memfd);
    io_close(s->door);
    s->memfd = s->door = -1;
}

void shm_clear(struct shm *s)
{
    int saved = errno;
    for (size_t i = 0; i < s->n_peers; i++) {
        io_close(s->peers[i].fd);
        io_close(s->peers[i].pidfd);
    }
    free(s->peers);
    s->peers = NULL;
    s->n_peers = 0;
    if (s->base)
        munmap(s->base, s->base_bytes);
    s->base = NULL;
    shm_disown(s);
    errno = saved;
}
