/* boot_local.c - the client of boot_server.h. Where the server is and who we are comes from the environment:
 * DDP_BOOT_ADDR, DDP_BOOT_TOKEN, DDP_RANK, DDP_SIZE. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/boot_impl.h"
#include "pmix/boot_wire.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"
#include "runtime/base/num.h"
#include "runtime/base/retry.h"

#define TRY_S 2.0       /* for a TCP connection; where there are several addresses, also for the answer to hello */
#define PROOF_S 10.0    /* for the server's proof, where there may be another server */
#define CLOSED_S 10.0   /* of closed connections: then it is no flood that hides the server, but the token */
#define LAST_WORD_S 0.5 /* for asking, after a deadline, who was waited for */
#define SEND_S 10.0     /* for messages that the caller gave no deadline for */

struct local {
    int fd;
    bool is_broken;   /* request and answer are out of step: nothing more can be asked */
    char server[128]; /* "boot server tcp:n1:4711", for errors */
    unsigned char body[WIRE_BODY_MAX];
    size_t body_n; /* of the last answer */
    char cause[NOTICE_TEXT_MAX + 1]; /* whose death ended the fence, as the guard told it; "": none did */
};

static int setting_load(struct boot_join *ret, ddp_error_t *errp)
{
    const char *rank = getenv("DDP_RANK"), *size = getenv("DDP_SIZE");
    ret->addrs = getenv("DDP_BOOT_ADDR");
    ret->token = getenv("DDP_BOOT_TOKEN");
    if (!ret->addrs || !*ret->addrs)
        return error_set(errp, DDP_E_BOOT, EINVAL, "DDP_BOOT_ADDR is not set: start the program with \"ddp run\"");
    if (!ret->token || !wire_token_ok(ret->token))
        return error_set(errp, DDP_E_BOOT, EINVAL,
                         "DDP_BOOT_TOKEN is not %d lower-case hexadecimal digits: start the program with \"ddp run\"",
                         WIRE_TOKEN_LEN);
    if (num_int(size, 1, WIRE_SIZE_MAX, &ret->size) < 0)
        return error_set(errp, DDP_E_BOOT, EINVAL, "DDP_SIZE=%.32s is not a number of ranks: start the program with "
                         "\"ddp run\"", size ? size : "");
    if (num_int(rank, 0, ret->size - 1, &ret->rank) < 0)
        return error_set(errp, DDP_E_BOOT, EINVAL, "DDP_RANK=%.32s is not one of 0..%d: start the program with "
                         "\"ddp run\"", rank ? rank : "", ret->size - 1);
    return 0;
}

/* All ranks end by it, and any may be the first: each tells its guard. `who` begins with the rank that is the cause. */
static int fail_by(const char *who, const ddp_error_t *e, ddp_error_t *errp)
{
    int rank;
    if (sscanf(who, "rank %d", &rank) == 1)
        notice_tell_early(rank, e->text);
    return error_set(errp, e->domain, e->code, "%s", e->text);
}

/* The server's ERROR as an error of ours. */
static int take_error(const struct local *l, ddp_error_t *errp)
{
    ddp_error_t e;
    if (l->body_n < 8)
        return error_set(errp, DDP_E_BOOT, EPROTO, "%s: an error without a text", l->server);
    error_set(&e, (int)bytes_get32(l->body), (int)bytes_get32(l->body + 4), "%.*s", (int)(l->body_n - 8),
              (const char *)l->body + 8);
    return fail_by(e.text, &e, errp);
}

/* Receives one frame into l->body. Returns its type, or -1. */
static int receive_frame(struct local *l, uint64_t deadline, ddp_error_t *errp)
{
    unsigned char head[WIRE_HEAD];
    l->is_broken = true; /* until the frame is whole */
    if (io_recv_all(l->fd, head, sizeof head, deadline, l->server, errp) < 0)
        return -1;
    size_t len = bytes_get32(head);
    if (len < 1 || len - 1 > sizeof l->body)
        return error_set(errp, DDP_E_BOOT, EPROTO, "%s: an answer of %zu bytes is no answer of ours", l->server, len);
    l->body_n = len - 1;
    if (io_recv_all(l->fd, l->body, l->body_n, deadline, l->server, errp) < 0)
        return -1;
    l->is_broken = false;
    return head[4];
}

static int send_frame(struct local *l, enum wire_type type, const void *a, size_t a_n, const void *b, size_t b_n,
                      uint64_t deadline, ddp_error_t *errp)
{
    size_t n = WIRE_HEAD + a_n + b_n;
    unsigned char *frame = malloc(n);
    if (!frame)
        return error_errno(errp, "%s", l->server);
    wire_head(frame, type, a_n + b_n);
    if (a_n)
        memcpy(frame + WIRE_HEAD, a, a_n);
    if (b_n)
        memcpy(frame + WIRE_HEAD + a_n, b, b_n);
    ddp_error_t e;
    int rc = io_send_all(l->fd, frame, n, deadline, l->server, &e);
    free(frame);
    if (rc == 0)
        return 0;
    if (receive_frame(l, 0, NULL) == WIRE_ERROR) /* the server's last word says why it is gone */
        take_error(l, &e);
    l->is_broken = true;
    return error_set(errp, e.domain, e.code, "%s", e.text);
}

static int receive_answer(struct local *l, enum wire_type want, uint64_t deadline, ddp_error_t *errp)
{
    int type = receive_frame(l, deadline, errp);
    if (type == WIRE_ERROR)
        return take_error(l, errp);
    if (type >= 0 && type != (int)want) {
        l->is_broken = true;
        return error_set(errp, DDP_E_BOOT, EPROTO, "%s: an answer of type %d instead of %d", l->server, type, want);
    }
    return type < 0 ? -1 : 0;
}

static int check_usable(const struct local *l, ddp_error_t *errp)
{
    return l->is_broken ? error_set(errp, DDP_E_BOOT, ENOTCONN, "%s: unusable after an earlier error", l->server) : 0;
}

static int local_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    struct local *l = b->state;
    unsigned char head[1 + BOOT_KEY_MAX];
    size_t key_n = strlen(key);
    head[0] = (unsigned char)key_n;
    memcpy(head + 1, key, key_n);
    if (check_usable(l, errp) < 0)
        return -1;
    return send_frame(l, WIRE_PUT, head, 1 + key_n, data, n, deadline_in(SEND_S), errp);
}

#define LATE "boot: deadline passed while waiting for "

/* The fence's deadline has passed: says which ranks did not come, if the server tells. 0: they came just now. */
static int fence_late(struct local *l, ddp_error_t *errp)
{
    uint64_t deadline = deadline_in(LAST_WORD_S);
    int type = send_frame(l, WIRE_WHO, NULL, 0, NULL, 0, deadline, NULL);
    if (type == 0)
        type = receive_frame(l, deadline, NULL);
    l->is_broken = true; /* DONE or LATE is still on its way */
    if (type == WIRE_DONE)
        return 0;
    if (type == WIRE_ERROR)
        return take_error(l, errp);
    if (type == WIRE_LATE) {
        ddp_error_t e;
        error_set(&e, DDP_E_TIMEOUT, ETIMEDOUT, LATE "%.*s", (int)l->body_n, (const char *)l->body);
        return fail_by(e.text + strlen(LATE), &e, errp);
    }
    return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "boot: deadline passed in a fence, and the %s is silent",
                     l->server);
}

static int local_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    struct local *l = b->state;
    ddp_error_t e;
    if (check_usable(l, errp) < 0 || send_frame(l, WIRE_FENCE, NULL, 0, NULL, 0, deadline, errp) < 0)
        return -1;
    if (receive_answer(l, WIRE_DONE, deadline, &e) == 0)
        return 0;
    if (e.domain == DDP_E_TIMEOUT && l->is_broken)
        return fence_late(l, errp);
    if (e.domain == DDP_E_PEER)
        snprintf(l->cause, sizeof l->cause, "%s", e.text);
    return error_set(errp, e.domain, e.code, "%s", e.text);
}

static int local_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
                     ddp_error_t *errp)
{
    struct local *l = b->state;
    unsigned char head[4];
    bytes_put32(head, (uint32_t)rank);
    if (check_usable(l, errp) < 0 || send_frame(l, WIRE_GET, head, sizeof head, key, strlen(key), deadline, errp) < 0 ||
        receive_answer(l, WIRE_VALUE, deadline, errp) < 0)
        return -1;
    void *copy = malloc(l->body_n + 1);
    if (!copy)
        return error_errno(errp, "boot: get %s", key);
    memcpy(copy, l->body, l->body_n);
    *ret_data = copy;
    *ret_n = l->body_n;
    return 0;
}

static int local_close(boot_t *b, ddp_error_t *errp)
{
    struct local *l = b->state;
    (void)errp; /* whom BYE does not reach sees the connection close */
    send_frame(l, WIRE_BYE, l->cause, strlen(l->cause), NULL, 0, deadline_in(LAST_WORD_S), NULL);
    io_close(l->fd);
    free(l);
    return 0;
}

static const struct boot_ops local_ops = {local_put, local_fence, local_get, local_close};

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The server's proof. Nothing else of one that has none is read, let alone shown to the user. */
static int check_proof(struct local *l, const struct boot_join *j, uint64_t deadline, ddp_error_t *errp)
{
    unsigned char got[WIRE_HEAD + WIRE_TOKEN_LEN], want[WIRE_HEAD + WIRE_TOKEN_LEN + 1];
    wire_head(want, WIRE_PROOF, WIRE_TOKEN_LEN);
    wire_prove(j->token, WIRE_PROOF, (char *)want + WIRE_HEAD);
    l->is_broken = true;
    if (io_recv_all(l->fd, got, sizeof got, deadline, l->server, errp) < 0)
        return -1;
    l->is_broken = !io_token_equal(got, want, sizeof got);
    return l->is_broken ? error_set(errp, DDP_E_BOOT, EBADMSG, "%s: something else answers there (wrong proof)",
                                    l->server)
                        : 0;
}

static int send_hello(struct local *l, const struct boot_join *j, uint64_t deadline, ddp_error_t *errp)
{
    unsigned char hello[WIRE_HEAD + WIRE_HELLO_BODY + 1], *p = hello + WIRE_HEAD;
    wire_head(hello, WIRE_HELLO, WIRE_HELLO_BODY);
    memcpy(p, WIRE_MAGIC, WIRE_MAGIC_LEN);
    wire_prove(j->token, WIRE_HELLO, (char *)p + WIRE_MAGIC_LEN);
    bytes_put32(p + WIRE_MAGIC_LEN + WIRE_TOKEN_LEN, (uint32_t)j->rank);
    bytes_put32(p + WIRE_MAGIC_LEN + WIRE_TOKEN_LEN + 4, (uint32_t)j->size);
    l->is_broken = true;
    return io_send_all(l->fd, hello, WIRE_HEAD + WIRE_HELLO_BODY, deadline, l->server, errp);
}

/* Where another server may be known by now, one that shows no proof holds up nobody for long. */
static int say_hello(struct local *l, const struct boot_join *j, uint64_t deadline, ddp_error_t *errp)
{
    uint64_t proof_by = j->look ? sooner(deadline, deadline_in(PROOF_S)) : deadline;
    if (send_hello(l, j, deadline, errp) < 0 || check_proof(l, j, proof_by, errp) < 0)
        return -1;
    return receive_answer(l, WIRE_WELCOME, deadline, errp);
}

enum outcome {
    JOINED,
    RETRY,   /* nobody listens there yet, or a stranger does, or the server is hard to reach */
    CLOSED,  /* by the server, without a word: it takes us for a stranger, or has too many of them */
    NEXT,    /* this address will not do */
    REFUSED, /* the server's own answer */
};

/* A unix server (ddp run) is there before its ranks; a TCP server may come after them. */
static enum outcome connect_failed(struct local *l, const struct wire_addr *a, const char *cure, ddp_error_t *errp)
{
    int e = errno;
    error_set(errp, e == ETIMEDOUT ? DDP_E_TIMEOUT : DDP_E_BOOT, e, "%s cannot be reached: %s%s", l->server,
              strerror(e), cure);
    return wire_is_unix(a) ? NEXT : RETRY;
}

/* no_answer: when to stop waiting for the answer to hello. */
static enum outcome join_at(struct local *l, const char *addr, const struct boot_join *j, uint64_t deadline,
                            uint64_t no_answer, ddp_error_t *errp)
{
    struct wire_addr a;
    snprintf(l->server, sizeof l->server, "%s %.100s", j->who, addr);
    io_close(l->fd);
    l->fd = -1;
    l->is_broken = false;
    if (wire_addr_parse(addr, no_answer, &a, errp) < 0 || (l->fd = wire_socket(&a, errp)) < 0)
        return NEXT;
    if (io_connect(l->fd, (const struct sockaddr *)&a.sa, a.len,
                   wire_is_unix(&a) ? deadline : sooner(deadline, deadline_in(TRY_S))) < 0)
        return connect_failed(l, &a, wire_is_unix(&a) ? "; is its \"ddp run\" still there?" : "", errp);
    if (!wire_same_user(l->fd, &a)) {
        error_set(errp, DDP_E_BOOT, EPERM, "%s belongs to another user", l->server);
        return NEXT;
    }
    if (say_hello(l, j, no_answer, errp) == 0)
        return JOINED;
    if (!l->is_broken)
        return REFUSED;
    if (errp->domain != DDP_E_PEER)
        return errp->domain == DDP_E_TIMEOUT || errp->code == EBADMSG ? RETRY : NEXT;
    error_set(errp, DDP_E_BOOT, EACCES, "%s closes every connection of rank %d: is DDP_BOOT_TOKEN the server's?",
              l->server, j->rank);
    return CLOSED;
}

/* Tries each address once. What the most hopeful of them came to, or how it ended. */
static enum outcome join_round(struct local *l, const struct boot_join *j, uint64_t deadline, ddp_error_t *errp)
{
    bool is_one = !strchr(j->addrs, ' ');
    enum outcome best = NEXT;
    char addr[256];
    for (const char *p = j->addrs; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        ddp_error_t e = {0};
        snprintf(addr, sizeof addr, "%.*s", (int)n, p);
        p += n;
        enum outcome o = join_at(l, addr, j, deadline, is_one ? deadline : sooner(deadline, deadline_in(TRY_S)), &e);
        bool is_end = o == JOINED || o == REFUSED;
        if (is_end || o == CLOSED || best != CLOSED) /* who closed is there, and its error says more than others' */
            *errp = e;
        if (is_end)
            return o;
        best = o == CLOSED || best == NEXT ? o : best;
    }
    return best;
}

static int join_any(struct local *l, struct boot_join *j, uint64_t deadline, ddp_error_t *errp)
{
    struct retry retry = {.deadline = deadline};
    bool was_closed = false;
    for (;;) {
        ddp_error_t e = {0};
        enum outcome o = join_round(l, j, deadline, &e);
        bool is_cut_short = o == RETRY && deadline_left_ns(deadline) == 0;
        if (!was_closed || !is_cut_short) /* else why the tries before failed says more */
            *errp = e;
        if (o == JOINED || o == REFUSED || o == NEXT)
            return o == JOINED ? 0 : -1;
        if (o != CLOSED || j->look) /* a card brings the right token, and one of an ended server anybody's port */
            retry.deadline = deadline;
        else if (!was_closed)
            retry.deadline = sooner(deadline, deadline_in(CLOSED_S));
        was_closed = o == CLOSED;
        if (!retry_wait(&retry))
            return -1;
        if (j->look && j->look(j)) { /* another server, of which nothing is known yet */
            retry = (struct retry){.deadline = deadline};
            was_closed = false;
        }
    }
}

int boot_local_join(boot_t *b, const struct boot_join *j, uint64_t deadline, ddp_error_t *errp)
{
    ddp_error_t e;
    struct boot_join now = *j;
    struct local *l = calloc(1, sizeof *l);
    if (!l)
        return error_errno(errp, "boot");
    l->fd = -1;
    if (join_any(l, &now, deadline, &e) < 0) {
        io_close(l->fd);
        free(l);
        return error_set(errp, e.domain, e.code, "%s", e.text);
    }
    b->ops = &local_ops;
    b->rank = j->rank;
    b->size = j->size;
    b->state = l;
    return 0;
}

int boot_local_open(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    struct boot_join j = {.who = "boot server"};
    return setting_load(&j, errp) < 0 ? -1 : boot_local_join(b, &j, deadline, errp);
}
