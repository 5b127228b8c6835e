#include "config.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/num.h"
#include "runtime/base/retry.h"
#include "spank/gather/impl.h"

#define CONNECT_S 2.0
#define TRIES 4   /* srun closes what it takes for a stranger, and this is no more than a table */

struct target {
    const char *host; /* a numeric address */
    char port[8];
    const char *token;
};

static const char *get(const struct gather_request *r, const char *name)
{
    const char *value = r->lookup(name, r->arg);
    return value ? value : "";
}

/* Slurm tells a task its srun's address as slurmd saw it, so that it is one which this node reaches: the first name in
 * the launch request, the second by slurmstepd. */
static int find_target(const struct gather_request *r, struct target *ret, ddp_error_t *errp)
{
    int port;
    const char *address = get(r, GATHER_VARIABLE), *colon = strchr(address, ':');
    const char *host = get(r, "SLURM_SRUN_COMM_HOST");
    if (!*host)
        host = get(r, "SLURM_LAUNCH_NODE_IPADDR");
    if (!colon || (size_t)(colon - address) >= sizeof ret->port || strlen(colon + 1) != TOKEN_LEN)
        return error_set(errp, DDP_E_BOOT, ENOENT, "%s is not srun's", GATHER_VARIABLE);
    if (!*host)
        return error_set(errp, DDP_E_BOOT, ENOENT, "Slurm does not say where srun is");
    *ret = (struct target){.host = host, .token = colon + 1};
    memcpy(ret->port, address, (size_t)(colon - address));
    return num_int(ret->port, 1, 65535, &port) < 0 ? error_set(errp, DDP_E_BOOT, EINVAL, "port %s", ret->port) : 0;
}

static int connect_target(const struct target *t, uint64_t deadline, ddp_error_t *errp)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *a;
    if (getaddrinfo(t->host, t->port, &hints, &a) != 0)
        return error_set(errp, DDP_E_BOOT, EINVAL, "srun's address %.64s is no address", t->host);
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    uint64_t own = deadline_in(CONNECT_S);
    if (fd < 0 || io_connect(fd, a->ai_addr, a->ai_addrlen, own < deadline ? own : deadline) < 0) {
        error_errno(errp, "srun cannot be reached at %.64s, port %s", t->host, t->port);
        io_close(fd);
        fd = -1;
    }
    freeaddrinfo(a);
    return fd;
}

/* The whole message; the caller frees it. */
static unsigned char *make_message(const struct target *t, const char *const part[PART_COUNT], size_t *ret_n,
                                   ddp_error_t *errp)
{
    size_t n = HEAD_LEN;
    for (int i = 0; i < PART_COUNT; i++)
        n += strlen(part[i]);
    unsigned char *m = malloc(n), *p = m;
    if (!m) {
        error_errno(errp, "a message to srun");
        return NULL;
    }
    memcpy(p, t->token, TOKEN_LEN);
    p += TOKEN_LEN;
    for (int i = 0; i < PART_COUNT; i++, p += 4)
        bytes_put32(p, (uint32_t)strlen(part[i]));
    for (int i = 0; i < PART_COUNT; i++) {
        memcpy(p, part[i], strlen(part[i]));
        p += strlen(part[i]);
    }
    *ret_n = n;
    return m;
}

/* One try. 0 also where the answer is late: srun has the table then, and prints it. */
static int converse(const struct target *t, const unsigned char *m, size_t n, uint64_t deadline, ddp_error_t *errp)
{
    char answer = 0;
    ddp_error_t e;
    int rc = -1, fd = connect_target(t, deadline, errp);
    if (fd >= 0 && io_send_all(fd, m, n, deadline, "srun", errp) == 0) {
        if (io_recv_all(fd, &answer, 1, deadline, "srun", &e) < 0)
            rc = e.domain == DDP_E_TIMEOUT ? 0 : error_set(errp, e.domain, e.code, "%s", e.text);
        else if (answer == ANSWER_PRINTED)
            rc = 0;
        else
            error_set(errp, DDP_E_BOOT, EPROTO, "what answers at srun's port is not srun");
    }
    io_close(fd);
    return rc;
}

static int hand_over(const struct gather_request *r, const char *text, ddp_error_t *errp)
{
    const char *const part[PART_COUNT] = {r->node, get(r, "SLURM_STEP_NODELIST"), text};
    struct target t;
    size_t n = 0;
    if (find_target(r, &t, errp) < 0)
        return -1;
    if (strlen(text) > GATHER_TEXT_MAX || strlen(part[PART_LIST]) > GATHER_LIST_MAX)
        return error_set(errp, DDP_E_USAGE, E2BIG, "the table or the step's node list is too long for srun");
    unsigned char *m = make_message(&t, part, &n, errp);
    struct retry retry = {.deadline = r->deadline};
    ddp_error_t e = {0};
    if (!m)
        return -1;
    int rc = converse(&t, m, n, r->deadline, &e);
    for (int i = 1; i < TRIES && rc < 0 && e.domain == DDP_E_PEER && retry_wait(&retry); i++)
        rc = converse(&t, m, n, r->deadline, &e);
    free(m);
    return rc < 0 ? error_set(errp, e.domain, e.code, "%s", e.text) : 0;
}

static void log_lines(const struct gather_request *r, const char *text)
{
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        char line[1024];
        snprintf(line, sizeof line, "ddp: %.255s: %.*s", r->node, (int)strcspn(p, "\n"), p);
        r->log(line);
    }
}

bool gather_send(const struct gather_request *r, const char *text)
{
    ddp_error_t e;
    char line[sizeof e.text + 64];
    if (hand_over(r, text, &e) == 0)
        return true;
    log_lines(r, text);
    snprintf(line, sizeof line, "ddp: this node's table is not folded with others: %s", e.text);
    if (r->note)
        r->note(line);
    return false;
}
