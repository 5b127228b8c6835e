/* boot_guard.c - the boot of a program beside which a guard watches (runtime/base/door.h): the guards carry rank 0's
 * card. PMIx and PMI are for one wire-up: a second one loses data, and Slurm ends a step of which a connected rank
 * dies. The connection to the guard stays: it says when another rank has died (notice.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/boot_carried.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/handover.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"
#include "runtime/base/retry.h"

#define REACH_S 5.0

struct guarded {
    struct boot_carried carried; /* first: carried_put and the others find it there */
    int fd; /* to the guard, */
    struct frame in; /* and what comes from there */
    int n_nodes;
};

static const char guard[] = "the guard of this task";

/* What nobody has taken. */
static void let_go(struct guarded *p)
{
    struct handover h = handover_take();
    handover_close(&h);
    io_close(frame_take_fd(&p->in));
    io_close(notice_take());
}

static int guarded_close(boot_t *b, ddp_error_t *errp)
{
    struct guarded *p = b->state;
    (void)errp;
    carried_close(&p->carried, deadline_in(CARRIED_LEAVE_S));
    let_go(p);
    free(p);
    return 0;
}

static const struct boot_ops guarded_ops = {carried_put, carried_fence, carried_get, guarded_close};

/* Tries for wait_s: the guard opens its door beside the program's start. */
static int reach(const char *name, double wait_s, uint64_t deadline, ddp_error_t *errp)
{
    struct sockaddr_un a;
    struct retry retry = {.deadline = deadline_in(wait_s)};
    socklen_t n = door_address(name, &a);
    int fd = -1;
    do {
        io_close(fd);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        bool is_there = n > 0 && fd >= 0 && io_connect(fd, (struct sockaddr *)&a, n, deadline) == 0;
        if (is_there && io_same_user(fd))
            return fd;
        if (is_there || n == 0)
            errno = is_there ? EPERM : EINVAL;
    } while (errno == ECONNREFUSED && retry_wait(&retry));
    error_set(errp, DDP_E_BOOT, errno, "%s cannot be reached at @%.64s: %s; a program in a network namespace of its "
              "own needs guard=off", guard, name, strerror(errno));
    io_close(fd);
    return -1;
}

/* What the program of this rank in the generation before had its guard keep. The watch will have the connection. */
static void take_memory(struct guarded *p, const unsigned char *body)
{
    struct handover h = handover_take();
    uint32_t kind = bytes_get32(body + 4);
    if (!h.is_there)
        h = (struct handover){.is_there = true, .guard = fcntl(p->fd, F_DUPFD_CLOEXEC, 0), .memory = {-1, -1}};
    h.generation = (int)bytes_get32(body);
    if (kind < HANDOVER_KINDS)
        h.memory[kind] = frame_take_fd(&p->in);
    if (h.guard < 0) /* no descriptor is left: none of it can be kept up */
        handover_close(&h);
    handover_put(&h);
}

static int refuse(ddp_error_t *errp)
{
    return error_set(errp, DDP_E_BOOT, EPROTO, "%s has gone, or speaks another version: are ddp.so and libddp of one?",
                     guard);
}

/* Waits for a frame of this kind; its body, of at most FRAME_BODY_MAX bytes, goes to `body`. Its length, or -1; so also
 * where another rank has died. */
static int wait_frame(struct guarded *p, enum door_kind want, unsigned char *body, uint64_t deadline, ddp_error_t *errp)
{
    for (;;) {
        int kind, rc;
        size_t n;
        while ((rc = frame_next(&p->in, p->fd, &kind, &n)) == 0)
            if ((rc = io_wait(p->fd, POLLIN, deadline, guard, errp)) <= 0)
                return rc < 0 ? -1 : error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "%s: no answer before the deadline",
                                               guard);
        if (rc < 0)
            return refuse(errp);
        memcpy(body, p->in.bytes + FRAME_HEAD, n);
        if (kind == (int)want)
            return (int)n;
        if (kind == DOOR_KEEP && n >= 8)
            take_memory(p, body);
        if (kind == DOOR_DEATH && n >= 4)
            return error_set(errp, DDP_E_PEER, ECONNRESET, "%.*s", (int)n - 4, (char *)body + 4);
    }
}

static int take_welcome(struct guarded *p, boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    unsigned char body[FRAME_BODY_MAX];
    int n = wait_frame(p, DOOR_WELCOME, body, deadline, errp);
    if (n < 0)
        return -1;
    if (n != DOOR_WELCOME_LEN)
        return refuse(errp);
    b->rank = (int)bytes_get32(body);
    b->size = (int)bytes_get32(body + 4);
    p->n_nodes = (int)bytes_get32(body + 8);
    return 0;
}

static int exchange(struct guarded *p, const boot_t *b, char card[FRAME_BODY_MAX + 1], uint64_t deadline,
                    ddp_error_t *errp)
{
    ddp_error_t e;
    if (b->rank == 0) {
        p->carried.host = boot_host_create(b->size, p->n_nodes == 1, errp);
        if (!p->carried.host)
            return -1;
        frame_send(p->fd, DOOR_CARD, boot_host_card(p->carried.host), strlen(boot_host_card(p->carried.host)));
    }
    int n = wait_frame(p, DOOR_CARD, (unsigned char *)card, deadline, &e);
    if (n < 0 && e.domain == DDP_E_TIMEOUT)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "boot: deadline passed while waiting for rank 0's card: rank "
                         "0 has not started, or the guards of the nodes cannot reach each other (port_min, port_max) "
                         "or are not of the same slurm-ddp (ddp check says which)");
    if (n < 0)
        return error_set(errp, e.domain, e.code, "%s", e.text);
    card[n] = 0;
    return 0;
}

/* A group comes long after its program's start. */
static int enter(struct guarded *p, boot_t *b, const char *name, const char *hello, uint64_t deadline,
                 ddp_error_t *errp)
{
    p->fd = reach(name, strcmp(hello, DOOR_HELLO) == 0 ? REACH_S : 0, deadline, errp);
    if (p->fd < 0 || io_send_all(p->fd, hello, DOOR_HELLO_LEN, deadline, guard, errp) < 0)
        return -1;
    return take_welcome(p, b, deadline, errp);
}

static int join(struct guarded *p, boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    char card[FRAME_BODY_MAX + 1];
    const char *name = getenv(DOOR_VARIABLE);
    if (!name || !*name)
        return error_set(errp, DDP_E_BOOT, ENOTCONN, DOOR_VARIABLE " is not set: start the program with \"srun "
                         "--ddp=on,guard\", or leave out DDP_BOOT=guard");
    if (enter(p, b, name, DOOR_HELLO, deadline, errp) < 0 || exchange(p, b, card, deadline, errp) < 0) {
        io_close(p->fd);
        return -1;
    }
    notice_heed(p->fd);
    return carried_join(&p->carried, b->rank, b->size, card, NULL, NULL, deadline, errp);
}

int boot_guard_open(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    struct guarded *p = calloc(1, sizeof *p);
    if (!p)
        return error_errno(errp, "boot");
    p->in.takes_fd = true;
    if (join(p, b, deadline, errp) < 0) {
        let_go(p);
        carried_close(&p->carried, 0);
        free(p);
        return -1;
    }
    b->ops = &guarded_ops;
    b->state = p;
    return 0;
}

void boot_guard_heed(int rank, int size)
{
    struct guarded p = {.fd = -1};
    boot_t step = {.rank = -1};
    const char *name = getenv(DOOR_VARIABLE);
    if (name && *name && enter(&p, &step, name, DOOR_HELLO_GROUP, deadline_in(REACH_S), NULL) == 0 &&
        step.rank == rank && step.size == size)
        notice_heed(p.fd);
    else
        io_close(p.fd);
}
