/* lifeline_serve.c - srun's end of the lifeline. */
#include "config.h" /* accept4 */
#include "spank/net/lifeline.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/thread.h"
#include "spank/net/lifeline_impl.h"
#include "spank/net/listen.h"

#define CALLERS 16
#define AGAIN_MS 100
#define END_S 10.0    /* from a guard's word to its end */
#define HEARD_S 2.0   /* from there until srun knows its exit code: slurmstepd tells at once */

struct caller {
    int fd;
    unsigned char word[LIFELINE_WORD_LEN];
    size_t n_bytes;
};

struct server {
    int listen_fd;
    unsigned char word[LIFELINE_WORD_LEN];
    struct caller caller[CALLERS]; /* the oldest first */
    size_t n_callers;
    uint64_t until; /* 0, or of the guard that has said its word: it is caller[0], alone */
};

static void drop(struct server *s, size_t i)
{
    close(s->caller[i].fd);
    memmove(s->caller + i, s->caller + i + 1, (--s->n_callers - i) * sizeof *s->caller);
}

/* Strangers may come, too, and say nothing: the oldest makes room. A guard that it was connects again. */
static void let_in(struct server *s)
{
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) { /* no descriptors, perhaps */
        poll(NULL, 0, AGAIN_MS);
        return;
    }
    if (s->n_callers == CALLERS)
        drop(s, 0);
    s->caller[s->n_callers++] = (struct caller){.fd = fd};
}

/* Whether this caller has gone. */
static bool hear(struct caller *c)
{
    unsigned char more;
    bool is_whole = c->n_bytes == sizeof c->word;
    void *at = is_whole ? &more : c->word + c->n_bytes;
    ssize_t n = recv(c->fd, at, is_whole ? 1 : sizeof c->word - c->n_bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    c->n_bytes += n > 0 && !is_whole ? (size_t)n : 0;
    return n <= 0 || is_whole; /* who says more is no guard */
}

static void leave_but(struct server *s, size_t i)
{
    struct caller c = s->caller[i];
    for (size_t k = 0; k < s->n_callers; k++)
        if (k != i)
            close(s->caller[k].fd);
    s->caller[0] = c;
    s->n_callers = 1;
}

static void hear_all(struct server *s, const struct pollfd *p)
{
    for (size_t i = s->n_callers; i-- > 0;) {
        struct caller *c = &s->caller[i];
        bool has_gone = p[i].revents && hear(c);
        bool has_said = c->n_bytes == sizeof c->word;
        if (has_said && io_token_equal(c->word, s->word, sizeof s->word)) {
            s->until = deadline_in(END_S);
            leave_but(s, i);
            return;
        }
        if (has_gone || has_said)
            drop(s, i);
    }
}

static void wait_for_word(struct server *s)
{
    struct pollfd p[CALLERS + 1];
    for (size_t i = 0; i < s->n_callers; i++)
        p[i] = (struct pollfd){.fd = s->caller[i].fd, .events = POLLIN};
    p[s->n_callers] = (struct pollfd){.fd = s->listen_fd, .events = POLLIN};
    size_t n = s->n_callers;
    if (poll(p, n + 1, -1) < 0)
        return;
    hear_all(s, p);
    if (p[n].revents && !s->until)
        let_in(s);
}

static void wait_for_end(struct server *s)
{
    struct pollfd p = {.fd = s->caller[0].fd, .events = POLLIN};
    while (deadline_left_ns(s->until) > 0 && (poll(&p, 1, deadline_left_ms(s->until)) < 0 || !hear(&s->caller[0])))
        ;
    uint64_t until = deadline_in(HEARD_S);
    while (deadline_left_ns(until) > 0)
        poll(NULL, 0, deadline_left_ms(until));
}

static void *serve(void *arg)
{
    struct server *s = arg;
    while (!s->until)
        wait_for_word(s);
    wait_for_end(s);
    kill(getpid(), SIGTERM);
    drop(s, 0);
    free(s); /* and goes on listening */
    return NULL;
}

static int start(int fd, const char *token, ddp_error_t *errp)
{
    pthread_t thread;
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return error_errno(errp, "srun's thread");
    s->listen_fd = fd;
    lifeline_word(token, s->word);
    if (thread_start(&thread, serve, s) == 0)
        return pthread_detach(thread);
    free(s);
    return error_errno(errp, "srun's thread");
}

int lifeline_listen(struct port_range range, const char *token, ddp_error_t *errp)
{
    int fd, port = listen_take_port(&fd, range, errp);
    if (port > 0 && listen(fd, 4) < 0)
        port = error_errno(errp, "srun's port %d", port);
    if (port > 0 && token && start(fd, token, errp) < 0)
        port = -1;
    if (port < 0)
        io_close(fd);
    return port;
}
