#include "config.h"
#include "spank/net/lifeline.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/base/address.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/siphash.h"
#include "spank/net/lifeline_impl.h"

enum state { CONNECTS, HOLDS, WAITS, ENDED };

struct lifeline {
    union address to;
    int fd;
    enum state state;
    int error; /* of a connect that failed at once */
    bool was_held;
    bool has_said_most; /* over this connection */
    uint64_t until; /* of the connect, or of the wait */
};

void lifeline_sign(const char *token, enum lifeline_word what, unsigned char ret[LIFELINE_WORD_LEN])
{
    static const char *const text[LIFELINE_WORDS] = {"the last guard", "most nodes", "few nodes"};
    unsigned char key[SIPHASH_KEY_LEN];
    siphash_key(token, key);
    uint64_t s = siphash(key, text[what], strlen(text[what]) + 1);
    bytes_put32(ret, (uint32_t)s);
    bytes_put32(ret + 4, (uint32_t)(s >> 32));
}

void lifeline_find_silence(int fd, int idle_s)
{
    const int on = 1, every_s = 10, n = LIFELINE_PROBES_S / every_s;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof n);
}

static void begin(lifeline_t *l)
{
    l->state = CONNECTS;
    l->until = deadline_in(LIFELINE_CONNECT_S);
    l->fd = socket(l->to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    l->error = 0;
    l->has_said_most = false;
    if (l->fd >= 0)
        lifeline_find_silence(l->fd, 60);
    if (l->fd < 0 || (connect(l->fd, &l->to.any, address_size(&l->to)) < 0 && errno != EINPROGRESS)) {
        l->error = errno;
        l->until = clock_ns();
    }
}

static void end(lifeline_t *l, enum state next, double seconds)
{
    io_close(l->fd);
    l->fd = -1;
    l->state = next;
    l->until = deadline_in(seconds);
}

lifeline_t *lifeline_open(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *a;
    if (!host || !port || getaddrinfo(host, port, &hints, &a) != 0)
        return NULL;
    lifeline_t *l = calloc(1, sizeof *l);
    if (l) {
        memcpy(&l->to, a->ai_addr, a->ai_addrlen);
        begin(l);
    }
    freeaddrinfo(a);
    return l;
}

int lifeline_fd(const lifeline_t *l)
{
    return l->fd;
}

short lifeline_events(const lifeline_t *l)
{
    return l->state == CONNECTS ? POLLOUT : POLLIN;
}

int lifeline_wait_ms(const lifeline_t *l)
{
    return l->state == CONNECTS || l->state == WAITS ? deadline_left_ms(l->until) : -1;
}

/* Whether srun has gone. */
static bool step_connect(lifeline_t *l, short events)
{
    int error = l->error;
    socklen_t n = sizeof error;
    if (!error && events && getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
        error = EIO;
    if (events && !error) {
        l->state = HOLDS;
        l->was_held = true;
    } else if (error == ECONNREFUSED && l->was_held) {
        end(l, ENDED, 0);
        return true;
    } else if (error || deadline_left_ns(l->until) == 0) {
        end(l, l->was_held ? WAITS : ENDED, LIFELINE_WAIT_S);
    }
    return false;
}

bool lifeline_step(lifeline_t *l)
{
    struct pollfd p = {.fd = l->fd, .events = lifeline_events(l)};
    poll(&p, 1, 0);
    if (l->state == CONNECTS)
        return step_connect(l, p.revents);
    if (l->state == HOLDS && p.revents) /* nobody sends anything: it has ended */
        end(l, WAITS, LIFELINE_AGAIN_S);
    else if (l->state == WAITS && deadline_left_ns(l->until) == 0)
        begin(l);
    return false;
}

bool lifeline_say(lifeline_t *l, const char *token, enum lifeline_word what)
{
    unsigned char word[LIFELINE_WORD_LEN];
    if (what == LIFELINE_MOST && l->has_said_most)
        return true;
    lifeline_sign(token, what, word);
    bool is_said = l->state == HOLDS && send(l->fd, word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof word;
    l->has_said_most |= is_said && what == LIFELINE_MOST;
    return is_said;
}
