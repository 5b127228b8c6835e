#include "pmix/boot_wire.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "runtime/base/begins.h"
#include "runtime/base/bytes.h"
#include "runtime/base/io.h"
#include "runtime/base/num.h"
#include "runtime/base/resolve.h"
#include "runtime/base/siphash.h"

void wire_head(unsigned char head[WIRE_HEAD], enum wire_type type, size_t body_n)
{
    bytes_put32(head, (uint32_t)(body_n + 1));
    head[4] = (unsigned char)type;
}

bool wire_token_ok(const char *token)
{
    return strlen(token) == WIRE_TOKEN_LEN && strspn(token, "0123456789abcdef") == WIRE_TOKEN_LEN;
}

void wire_hash(const char *key, const char *text, int n, char *ret)
{
    unsigned char bytes[SIPHASH_KEY_LEN];
    char numbered[WIRE_HASH_MAX + 2];
    siphash_key(key, bytes);
    for (int i = 0; i < n; i++) {
        int k = snprintf(numbered, sizeof numbered, "%d%.*s", i, WIRE_HASH_MAX, text);
        snprintf(ret + 16 * i, 17, "%016" PRIx64, siphash(bytes, numbered, (size_t)k));
    }
}

void wire_prove(const char *token, enum wire_type type, char ret[WIRE_TOKEN_LEN + 1])
{
    char text[WIRE_TOKEN_LEN];
    snprintf(text, sizeof text, "%d %s", type, token + WIRE_TOKEN_LEN / 2);
    wire_hash(token, text, WIRE_TOKEN_LEN / 16, ret);
}

static int bad_address(const char *text, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_USAGE, EINVAL,
                     "boot address \"%.100s\" is not unix:@NAME, unix:/PATH or tcp:HOST:PORT", text);
}

static int parse_unix(const char *text, const char *name, struct wire_addr *ret, ddp_error_t *errp)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    bool is_abstract = name[0] == '@';
    if ((!is_abstract && name[0] != '/') || n < 2 || n >= sizeof un.sun_path)
        return bad_address(text, errp);
    memcpy(un.sun_path, name, n);
    if (is_abstract)
        un.sun_path[0] = 0;
    memcpy(&ret->sa, &un, sizeof un);
    ret->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + !is_abstract);
    return 0;
}

static int parse_tcp(const char *text, const char *where, uint64_t deadline, struct wire_addr *ret, ddp_error_t *errp)
{
    char host[256];
    const char *colon = strrchr(where, ':');
    size_t n = colon ? (size_t)(colon - where) : 0;
    int port;
    if (n == 0 || n >= sizeof host || num_int(colon + 1, 0, 65535, &port) < 0)
        return bad_address(text, errp);
    if (where[0] == '[' && where[n - 1] == ']') {
        where++;
        n -= 2;
    }
    snprintf(host, sizeof host, "%.*s", (int)n, where);
    struct addrinfo *found;
    if (resolve_host(host, colon + 1, SOCK_STREAM, deadline, &found, errp) < 0)
        return error_prefix(errp, "boot address");
    memcpy(&ret->sa, found->ai_addr, found->ai_addrlen);
    ret->len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

int wire_addr_parse(const char *text, uint64_t deadline, struct wire_addr *ret, ddp_error_t *errp)
{
    memset(ret, 0, sizeof *ret);
    if (begins(text, "unix:"))
        return parse_unix(text, text + 5, ret, errp);
    if (begins(text, "tcp:"))
        return parse_tcp(text, text + 4, deadline, ret, errp);
    return bad_address(text, errp);
}

int wire_socket(const struct wire_addr *a, ddp_error_t *errp)
{
    int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_errno(errp, "boot: socket");
    if (!wire_is_unix(a))
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

bool wire_same_user(int fd, const struct wire_addr *a)
{
    return !wire_is_unix(a) || io_same_user(fd);
}
