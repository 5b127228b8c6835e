/* lifeline_serve.c - srun's end of the lifeline. */
#include "config.h" /* accept4 */
#include "spank/net/lifeline.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
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
#define IDLE_S 10 /* until a caller's host is asked whether it is there: the root of most nodes may go without a word */
#define END_S 10.0    /* from a guard's word to its end */
#define HEARD_S 2.0   /* from there until srun knows its exit code: slurmstepd tells at once */

struct caller {
    int fd;
    unsigned char word[LIFELINE_WORD_LEN];
    size_t n_bytes;
    bool is_most; /* it is the root of most nodes */
};

struct server {
    int listen_fd;
    unsigned char word[LIFELINE_WORDS][LIFELINE_WORD_LEN];
    struct caller caller[CALLERS]; /* the oldest first */
    size_t n_callers;
    uint64_t few_until; /* 0, or a part of few nodes has ended */
    uint64_t until; /* 0, or srun is to end: so long the last guard, caller[0], has; past: nobody is waited for */
};

static void drop(struct server *s, size_t i)
{
    if (s->caller[i].is_most && s->few_until) /* another may be it soon */
        s->few_until = deadline_in(LIFELINE_FEW_S);
    close(s->caller[i].fd);
    memmove(s->caller + i, s->caller + i + 1, (--s->n_callers - i) * sizeof *s->caller);
}

/* Strangers may come, too, and say nothing: the oldest makes room, but not for them one that goes on. A guard that it
 * was connects again. */
static void let_in(struct server *s)
{
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) { /* no descriptors, perhaps */
        poll(NULL, 0, AGAIN_MS);
        return;
    }
    lifeline_find_silence(fd, IDLE_S);
    size_t oldest = 0;
    while (oldest < CALLERS - 1 && s->caller[oldest].is_most)
        oldest++;
    if (s->n_callers == CALLERS)
        drop(s, oldest);
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

/* LIFELINE_WORDS: none, or not all of it yet. */
static enum lifeline_word word_of(const struct server *s, const struct caller *c)
{
    enum lifeline_word w = 0;
    while (w < LIFELINE_WORDS && (c->n_bytes < sizeof c->word || !io_token_equal(c->word, s->word[w], sizeof c->word)))
        w++;
    return w;
}

static void hear_all(struct server *s, const struct pollfd *p)
{
    for (size_t i = s->n_callers; i-- > 0;) {
        struct caller *c = &s->caller[i];
        bool has_gone = p[i].revents && hear(c);
        enum lifeline_word word = word_of(s, c);
        if (word == LIFELINE_LAST) {
            s->until = deadline_in(END_S);
            leave_but(s, i);
            return;
        }
        if (word != LIFELINE_WORDS) {
            c->is_most = word == LIFELINE_MOST;
            s->few_until = word == LIFELINE_FEW && !s->few_until ? deadline_in(LIFELINE_FEW_S) : s->few_until;
            c->n_bytes = 0; /* for the next */
        }
        if (has_gone || c->n_bytes == sizeof c->word)
            drop(s, i);
    }
}

/* A part of the step has ended. Another may go on, and has had the time to say so. */
static void look_for_others(struct server *s)
{
    bool goes_on = false;
    for (size_t i = 0; i < s->n_callers; i++)
        goes_on |= s->caller[i].is_most;
    s->few_until = 0;
    if (goes_on)
        return;
    dprintf(STDERR_FILENO, "ddp: some nodes could not reach the others, and ended %d s ago, and the others have not "
            "told srun that they go on: the step ends\n", LIFELINE_FEW_S);
    s->until = clock_ns();
}

static void wait_for_word(struct server *s)
{
    struct pollfd p[CALLERS + 1];
    for (size_t i = 0; i < s->n_callers; i++)
        p[i] = (struct pollfd){.fd = s->caller[i].fd, .events = POLLIN};
    p[s->n_callers] = (struct pollfd){.fd = s->listen_fd, .events = POLLIN};
    size_t n = s->n_callers;
    if (poll(p, n + 1, s->few_until ? deadline_left_ms(s->few_until) : -1) < 0)
        return;
    hear_all(s, p);
    if (deadline_is_past(s->few_until) && !s->until)
        look_for_others(s);
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
    while (s->n_callers > 0)
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
    for (enum lifeline_word w = 0; w < LIFELINE_WORDS; w++)
        lifeline_sign(token, w, s->word[w]);
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
