/* server.c - srun's thread. A connection goes
 *
 *   lobby (token and lengths are coming) -> body (token checked, the parts are coming) -> held (node's text is kept)
 *
 * and is closed at any mistake, after CONNECTION_S in one of the first two, or, in the lobby, when others need its
 * place. Invariants: `nodes` is set by the first report that is taken and never changes; a node has a text exactly when
 * it has been counted; each text is in memory once. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/io.h"
#include "runtime/base/lobby.h"
#include "spank/gather/impl.h"
#include "spank/step/hostlist.h"

#define STRANGERS_MAX 2048           /* in the lobby */
#define STRANGERS_MIN 256            /* ... where descriptors are few */
#define CONNECTIONS_MAX 1024         /* whose body is coming: with the head, mostly */
#define CONNECTION_S 2.0             /* from accept to the last byte of the head, and from there to that of the body */
#define NODE_S 0.01                  /* of patience for each node: Slurm launches thousands one after another */
#define NODES_S_MAX 40.0             /* ... for all */
#define PRINT_S 2.0                  /* for a terminal or pipe to take the table */
#define PRINT_CHUNK 4096             /* what poll promises that a pipe takes */
#define TEXTS_BYTES_MAX (64u << 20) /* of all different texts */

struct connection {
    int fd;
    uint64_t deadline;
    size_t n; /* bytes of the body that are here */
    uint32_t len[PART_COUNT];
    char *body;
};

struct text {
    uint64_t hash;
    char *text;
};

struct node {
    char *name, *text; /* text: one of texts[], NULL: not reported */
    int fd;            /* waits for the answer; -1: none does */
};

struct server {
    const struct server_options *o;
    lobby_t *lobby; /* NULL: none comes in any more */
    struct connection connections[CONNECTIONS_MAX]; /* the oldest first */
    size_t n_connections;
    char *list; /* the step's nodes, as the first report had them; NULL: none has come */
    struct node *nodes; /* by name */
    size_t n_nodes, n_reported, n_held, n_held_max;
    struct text *texts;
    size_t n_texts, texts_bytes;
    uint64_t deadline; /* of the collection, once there is a list */
};

static int compare_nodes(const void *x, const void *y)
{
    const struct node *a = x, *b = y;
    return strcmp(a->name, b->name);
}

static int add_node(const char *name, void *arg)
{
    struct server *s = arg;
    struct node *n = &s->nodes[s->n_nodes];
    *n = (struct node){.name = strdup(name), .fd = -1};
    if (!n->name)
        return 1;
    s->n_nodes++;
    return 0;
}

static void forget_nodes(struct server *s)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        free(s->nodes[i].name);
        io_close(s->nodes[i].fd);
    }
    free(s->nodes);
    free(s->list);
    s->nodes = NULL;
    s->list = NULL;
    s->n_nodes = 0;
}

static double patience_s(size_t n_nodes)
{
    double s = NODE_S * (double)n_nodes;
    return s < NODES_S_MAX ? s : NODES_S_MAX;
}

/* The first report says which nodes there are. */
static int learn_nodes(struct server *s, const char *list)
{
    size_t n;
    if (hostlist_count(list, &n, NULL) < 0 || n > GATHER_NODES_MAX)
        return -1;
    s->list = strdup(list);
    s->nodes = calloc(n, sizeof *s->nodes);
    if (!s->list || !s->nodes || hostlist_each(list, add_node, s, NULL) != 0) {
        forget_nodes(s);
        return -1;
    }
    qsort(s->nodes, s->n_nodes, sizeof *s->nodes, compare_nodes);
    s->deadline = deadline_in(s->o->collect_s + patience_s(n));
    return 0;
}

/* The one copy of a text. NULL: no memory, or too many. */
static char *keep_text(struct server *s, char *text, size_t n)
{
    uint64_t hash = hash_text(text);
    for (size_t i = 0; i < s->n_texts; i++)
        if (s->texts[i].hash == hash && !strcmp(s->texts[i].text, text))
            return s->texts[i].text;
    struct text *grown = realloc(s->texts, (s->n_texts + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    s->texts = grown;
    char *copy = s->texts_bytes + n > TEXTS_BYTES_MAX ? NULL : strdup(text);
    if (copy) {
        s->texts[s->n_texts++] = (struct text){hash, copy};
        s->texts_bytes += n;
    }
    return copy;
}

static void answer(int fd)
{
    send(fd, &(char){ANSWER_PRINTED}, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    io_close(fd);
}

static bool has_nul(const char *part, uint32_t n)
{
    return memchr(part, 0, n) != NULL;
}

/* Takes a whole body, whose parts end in NULs: its descriptor is then the node's. False: it is none for us. */
static bool take_report(struct server *s, struct connection *c)
{
    char *name = c->body, *list = name + c->len[PART_NODE] + 1, *text = list + c->len[PART_LIST] + 1;
    if (has_nul(name, c->len[PART_NODE]) || has_nul(list, c->len[PART_LIST]))
        return false;
    if (!s->list ? learn_nodes(s, list) < 0 : strcmp(s->list, list) != 0)
        return false;
    struct node *n = bsearch(&(struct node){.name = name}, s->nodes, s->n_nodes, sizeof *n, compare_nodes);
    if (!n || n->text || !(n->text = keep_text(s, text, c->len[PART_TEXT]))) {
        if (s->n_reported == 0) /* it is not to decide what the others must say */
            forget_nodes(s);
        return false;
    }
    s->n_reported++;
    if (*text && s->n_held < s->n_held_max) {
        s->n_held++;
        n->fd = c->fd;
    } else {
        answer(c->fd); /* it shows nothing; or srun needs descriptors for its own work, and it does not wait */
    }
    c->fd = -1;
    return true;
}

/* Lengths, and room for a body of them. False: it asks for too much. */
static bool read_head(struct connection *c, const unsigned char *head)
{
    static const uint32_t max[PART_COUNT] = {HOSTLIST_NAME_MAX, GATHER_LIST_MAX, GATHER_TEXT_MAX};
    size_t size = PART_COUNT;
    for (size_t i = 0; i < PART_COUNT; i++) {
        c->len[i] = bytes_get32(head + TOKEN_LEN + 4 * i);
        if (c->len[i] > max[i])
            return false;
        size += c->len[i];
    }
    c->body = calloc(1, size);
    return c->body != NULL;
}

/* The place for the next bytes: every part of the body is followed by a NUL, which does not travel. */
static char *next_bytes(struct connection *c, size_t *ret_room)
{
    size_t end = 0;
    for (size_t i = 0; i < PART_COUNT; i++) {
        end += c->len[i];
        if (c->n < end) {
            *ret_room = end - c->n;
            return c->body + c->n + i;
        }
    }
    *ret_room = 0;
    return NULL;
}

/* Reads what is there. False: the connection is over, one way or the other. */
static bool read_connection(struct server *s, struct connection *c)
{
    size_t room;
    for (char *at; (at = next_bytes(c, &room));) {
        ssize_t n = recv(c->fd, at, room, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return false;
        c->n += (size_t)n;
    }
    return take_report(s, c), false;
}

static void drop_connection(struct server *s, size_t i)
{
    struct connection *c = &s->connections[i];
    io_close(c->fd);
    free(c->body);
    memmove(c, c + 1, (--s->n_connections - i) * sizeof *c);
}

/* The lobby lets one in, with the token: what is here of its body is read at once. */
static void enter(void *arg, int fd, const unsigned char *head)
{
    struct server *s = arg;
    struct connection *c = &s->connections[s->n_connections++];
    *c = (struct connection){.fd = fd, .deadline = deadline_in(CONNECTION_S)};
    if (!read_head(c, head) || !read_connection(s, c))
        drop_connection(s, s->n_connections - 1);
}

static bool has_room(const struct server *s)
{
    return s->lobby && s->n_connections + LOBBY_ENTER_MAX <= CONNECTIONS_MAX;
}

static int wait_ms(const struct server *s)
{
    uint64_t first = s->list ? s->deadline : UINT64_MAX;
    for (size_t i = 0; i < s->n_connections; i++)
        if (s->connections[i].deadline < first)
            first = s->connections[i].deadline;
    return first == UINT64_MAX ? -1 : deadline_left_ms(first);
}

/* One round. False: told to stop. */
static bool step(struct server *s)
{
    struct pollfd p[2 + CONNECTIONS_MAX] = {{.fd = s->o->stop_fd, .events = POLLIN}};
    size_t n = s->n_connections;
    p[1] = (struct pollfd){.fd = has_room(s) ? lobby_fd(s->lobby) : -1, .events = POLLIN};
    for (size_t i = 0; i < n; i++)
        p[2 + i] = (struct pollfd){.fd = s->connections[i].fd, .events = POLLIN};
    if (poll(p, 2 + n, wait_ms(s)) < 0 && errno != EINTR)
        return false;
    if (p[0].revents)
        return false;
    for (size_t i = n; i-- > 0;) { /* backwards: dropping moves those behind */
        struct connection *c = &s->connections[i];
        if ((p[2 + i].revents && !read_connection(s, c)) || deadline_left_ns(c->deadline) == 0)
            drop_connection(s, i);
    }
    if (p[1].revents && lobby_step(s->lobby, NULL) < 0) { /* srun is out of descriptors, and not because of strangers */
        lobby_destroy(s->lobby);
        s->lobby = NULL;
        shutdown(s->o->listen_fd, SHUT_RDWR); /* who comes now is to know that nobody takes its table */
    }
    return true;
}

static bool is_raw_terminal(int fd)
{
    struct termios t;
    return isatty(fd) && tcgetattr(fd, &t) == 0 && !(t.c_oflag & OPOST);
}

/* Writes while the other end takes it, without a lock that srun's own messages need. */
static void write_text(int fd, const char *text, size_t n)
{
    uint64_t deadline = deadline_in(PRINT_S);
    while (n > 0 && deadline_left_ns(deadline) > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        if (poll(&p, 1, deadline_left_ms(deadline)) <= 0)
            continue;
        ssize_t w = write(fd, text, n < PRINT_CHUNK ? n : PRINT_CHUNK);
        if (w < 0 && errno != EAGAIN && errno != EINTR)
            return;
        text += w > 0 ? w : 0;
        n -= w > 0 ? (size_t)w : 0;
    }
}

static void print_text(int fd, const char *text)
{
    if (!is_raw_terminal(fd)) {
        write_text(fd, text, strlen(text));
        return;
    }
    for (const char *p = text, *end; *p; p = end) {
        end = p + strcspn(p, "\n");
        write_text(fd, p, (size_t)(end - p));
        if (*end++)
            write_text(fd, "\r\n", 2);
    }
}

/* Prints, and lets the nodes go on. Where the fold fails they find their connections closed. */
static void publish(struct server *s)
{
    struct gather_report *reports = calloc(s->n_nodes, sizeof *reports);
    for (size_t i = 0; reports && i < s->n_nodes; i++)
        reports[i] = (struct gather_report){s->nodes[i].name, s->nodes[i].text};
    char *text = reports ? gather_fold(reports, s->n_nodes) : NULL;
    if (text)
        print_text(s->o->out_fd, text);
    for (size_t i = 0; text && i < s->n_nodes; i++)
        if (s->nodes[i].fd >= 0) {
            answer(s->nodes[i].fd);
            s->nodes[i].fd = -1;
        }
    free(text);
    free(reports);
}

/* Whether some node's task runs its program and relies on srun for its table. */
static bool has_gone_on(const struct server *s)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];
        if (n->text && *n->text && (n->fd < 0 || recv(n->fd, &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) == 0))
            return true;
    }
    return false;
}

/* How many connections there may be. In a large step thousands come at once, and on a busy network their first bytes
 * come later than they do: who is taken for a stranger then prints its own table, and srun waits for it in vain. */
static bool open_lobby(struct server *s)
{
    struct rlimit r;
    size_t n = getrlimit(RLIMIT_NOFILE, &r) == 0 ? (size_t)r.rlim_cur / 4 : 0;
    s->n_held_max = n;
    n = n < STRANGERS_MIN ? STRANGERS_MIN : n > STRANGERS_MAX ? STRANGERS_MAX : n;
    s->lobby = lobby_create(&(struct lobby_options){.listen_fd = s->o->listen_fd, .head_n = HEAD_LEN,
                                                    .token = s->o->token, .token_n = TOKEN_LEN, .n_max = n,
                                                    .head_s = CONNECTION_S, .enter = enter, .arg = s}, NULL);
    return s->lobby != NULL;
}

void gather_serve(const struct server_options *o)
{
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return;
    s->o = o;
    bool is_told = !open_lobby(s), is_done = false;
    while (!is_told && !is_done) {
        is_told = !step(s);
        is_done = s->list && (s->n_reported == s->n_nodes || deadline_left_ns(s->deadline) == 0);
    }
    shutdown(o->listen_fd, SHUT_RDWR); /* also where a child of srun's has inherited it */
    if (is_done || has_gone_on(s))
        publish(s);
    lobby_destroy(s->lobby);
    while (s->n_connections)
        drop_connection(s, 0);
    forget_nodes(s);
    for (size_t i = 0; i < s->n_texts; i++)
        free(s->texts[i].text);
    free(s->texts);
    free(s);
}
