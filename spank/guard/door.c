#include "config.h"
#include "spank/guard/door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/io.h"
#include "runtime/base/lobby.h"
#include "runtime/base/notice.h"
#include "runtime/base/plain.h"
#include "spank/net/listen.h"

#define STRANGERS_MAX 64
#define STRANGER_S 2.0

struct visitor {
    int fd, number; /* number: among the programs of its generation; 0: a group's, which is of one of them */
    struct frame in;
    struct visitor *next;
};

struct guard_door {
    int epoll, listen_fd, rank, n_programs, generation;
    lobby_t *lobby;
    unsigned char welcome[DOOR_WELCOME_LEN];
    struct visitor *in;
    char card[FRAME_BODY_MAX + 1], brought[FRAME_BODY_MAX + 1]; /* "NUMBER CARD" */
    unsigned char death[4 + NOTICE_TEXT_MAX]; /* DOOR_DEATH's body */
    size_t death_n; /* 0: nobody has died in this generation */
    int cause_rank;
    char cause[NOTICE_TEXT_MAX + 1]; /* "": none */
    bool keeps;     /* memory, for the next generation: */
    struct kept {
        int fd, owner; /* -1: none; the number of the program that gave it */
    } kept[DOOR_MEMORIES];
};

static void tell(const guard_door_t *d, const struct visitor *v)
{
    const char *card = strchr(d->card, ' ');
    if (card && atoi(d->card) == v->number)
        frame_send(v->fd, DOOR_CARD, card + 1, strlen(card + 1));
    if (d->death_n)
        frame_send(v->fd, DOOR_DEATH, d->death, d->death_n);
}

static void hand_over(const guard_door_t *d, const struct visitor *v)
{
    unsigned char body[8];
    bytes_put32(body, (uint32_t)d->generation);
    for (uint32_t i = 0; i < DOOR_MEMORIES && d->keeps; i++) {
        bytes_put32(body + 4, i);
        frame_send_fd(v->fd, DOOR_KEEP, body, sizeof body, v->number == d->kept[i].owner ? d->kept[i].fd : -1);
    }
}

/* In place of what was kept. */
static void keep(guard_door_t *d, struct visitor *v, uint32_t kind)
{
    int fd = frame_take_fd(&v->in);
    if (!d->keeps || kind >= DOOR_MEMORIES) {
        io_close(fd);
        return;
    }
    io_close(d->kept[kind].fd);
    d->kept[kind] = (struct kept){fd, v->number};
}

static void enter(void *arg, int fd, const unsigned char *head)
{
    guard_door_t *d = arg;
    struct visitor *v = calloc(1, sizeof *v);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = v};
    bool is_program = head[DOOR_HELLO_SAME] == DOOR_HELLO[DOOR_HELLO_SAME];
    if (!v || epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        free(v);
        close(fd);
        return;
    }
    v->fd = fd;
    v->in.takes_fd = true;
    v->next = d->in;
    d->in = v;
    v->number = is_program ? ++d->n_programs : 0;
    frame_send(fd, DOOR_WELCOME, d->welcome, sizeof d->welcome);
    if (is_program)
        hand_over(d, v);
    tell(d, v);
}

static void drop(guard_door_t *d, struct visitor *v)
{
    struct visitor **p = &d->in;
    while (*p != v)
        p = &(*p)->next;
    *p = v->next;
    epoll_ctl(d->epoll, EPOLL_CTL_DEL, v->fd, NULL); /* a new program may hold a copy */
    close(v->fd);
    io_close(frame_take_fd(&v->in));
    free(v);
}

/* The first stays. */
static void take_cause(guard_door_t *d, const unsigned char *body, size_t n)
{
    if (n < 4 || *d->cause)
        return;
    d->cause_rank = (int)bytes_get32(body);
    snprintf(d->cause, sizeof d->cause, "%.*s", (int)n - 4, (const char *)body + 4);
    plain_line(d->cause);
}

/* Whether it brought a card. */
static bool step_visitor(guard_door_t *d, struct visitor *v)
{
    int kind, rc;
    size_t n;
    while ((rc = frame_next(&v->in, v->fd, &kind, &n)) > 0)
        if (kind == DOOR_CARD && d->rank == 0) {
            snprintf(d->brought, sizeof d->brought, "%d %.*s", v->number, (int)n, (char *)v->in.bytes + FRAME_HEAD);
            return true;
        } else if (kind == DOOR_CAUSE) {
            take_cause(d, v->in.bytes + FRAME_HEAD, n);
        } else if (kind == DOOR_KEEP && n >= 4) {
            keep(d, v, bytes_get32(v->in.bytes + FRAME_HEAD));
        }
    if (rc < 0)
        drop(d, v);
    return false;
}

guard_door_t *guard_door_open(const char *token, int task, bool keeps, ddp_error_t *errp)
{
    char name[DOOR_NAME_MAX];
    guard_door_t *d = calloc(1, sizeof *d);
    struct epoll_event e = {.events = EPOLLIN};
    if (!d) {
        error_errno(errp, "guard");
        return NULL;
    }
    d->keeps = keeps;
    for (int i = 0; i < DOOR_MEMORIES; i++)
        d->kept[i].fd = -1;
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    d->listen_fd = listen_abstract(door_name(token, DOOR_OF_RANK, task, name));
    d->lobby = d->epoll < 0 || d->listen_fd < 0
                   ? NULL
                   : lobby_create(&(struct lobby_options){.listen_fd = d->listen_fd, .head_n = DOOR_HELLO_LEN,
                                                          .token = DOOR_HELLO, .token_n = DOOR_HELLO_SAME,
                                                          .is_same_user = true, .n_max = STRANGERS_MAX,
                                                          .head_s = STRANGER_S, .enter = enter, .arg = d}, NULL);
    if (d->lobby && epoll_ctl(d->epoll, EPOLL_CTL_ADD, lobby_fd(d->lobby), &e) == 0)
        return d;
    error_errno(errp, "guard: no socket @%s for its program", name);
    lobby_destroy(d->lobby);
    io_close(d->listen_fd);
    io_close(d->epoll);
    free(d);
    return NULL;
}

void guard_door_begin(guard_door_t *d, int generation, const struct seat *s)
{
    d->generation = generation;
    d->rank = s->rank;
    bytes_put32(d->welcome, (uint32_t)s->rank);
    bytes_put32(d->welcome + 4, (uint32_t)s->size);
    bytes_put32(d->welcome + 8, (uint32_t)s->n_nodes);
    d->n_programs = 0;
    d->card[0] = 0;
    d->death_n = 0;
    d->cause[0] = 0;
}

int guard_door_fd(const guard_door_t *d)
{
    return d->epoll;
}

const char *guard_door_step(guard_door_t *d)
{
    struct epoll_event e[16];
    int n = epoll_wait(d->epoll, e, 16, 0);
    bool has_card = false;
    for (int i = 0; i < n; i++)
        if (e[i].data.ptr)
            has_card = step_visitor(d, e[i].data.ptr) || has_card;
        else if (lobby_step(d->lobby, NULL) < 0)
            epoll_ctl(d->epoll, EPOLL_CTL_DEL, lobby_fd(d->lobby), NULL);
    return has_card ? d->brought : NULL;
}

const char *guard_door_cause(const guard_door_t *d, int *ret_rank)
{
    *ret_rank = d->cause_rank;
    return *d->cause ? d->cause : NULL;
}

void guard_door_tell(guard_door_t *d, const char *card)
{
    if (!strcmp(d->card, card))
        return;
    snprintf(d->card, sizeof d->card, "%s", card);
    for (const struct visitor *v = d->in; v; v = v->next)
        tell(d, v);
}

void guard_door_tell_death(guard_door_t *d, int rank, const char *text)
{
    size_t n = strlen(text);
    bytes_put32(d->death, (uint32_t)rank);
    d->death_n = 4 + (n < NOTICE_TEXT_MAX ? n : NOTICE_TEXT_MAX);
    memcpy(d->death + 4, text, d->death_n - 4);
    for (const struct visitor *v = d->in; v; v = v->next)
        frame_send(v->fd, DOOR_DEATH, d->death, d->death_n);
}
