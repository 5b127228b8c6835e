/* boot_protocol.c - what a client of the boot server may say, and what follows. All of them hold the token. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pmix/boot_server_impl.h"
#include "runtime/base/bytes.h"
#include "runtime/base/notice.h"

/* Unless the server has ended with all ranks. */
static void client_admit(boot_server_t *s, struct client *c)
{
    struct rank *r = &s->ranks[c->rank];
    c->is_waiting = false;
    if (s->is_round_done && s->ends_with_round)
        return client_drop(s, c);
    r->state = IN;
    r->client = c;
    client_send(s, c, WIRE_WELCOME, NULL, 0);
}

/* All have left in order: forget what they put; who came again early goes in. */
static void start_over(boot_server_t *s)
{
    s->n_left = 0;
    s->is_round_done = true;
    for (int r = 0; r < s->size; r++) {
        boot_store_clear(&s->ranks[r].items);
        s->ranks[r].state = NEW;
        if (s->ranks[r].how[0])
            server_fail(s, r, "rank %d %s, and the others exchange again", r, s->ranks[r].how);
    }
    for (struct client *c = s->clients; c; c = c->next)
        if (!c->is_dropped && c->is_waiting)
            client_admit(s, c);
}

static void refuse(boot_server_t *s, struct client *c, const char *fmt, ...) ERROR_PRINTF(3, 4);

static void refuse(boot_server_t *s, struct client *c, const char *fmt, ...)
{
    ddp_error_t e;
    va_list ap;
    va_start(ap, fmt);
    error_vset(&e, DDP_E_BOOT, EPROTO, fmt, ap);
    va_end(ap);
    client_send_error(s, c, &e);
    client_drop(s, c);
}

/* One that comes again may be heard before what it said last on the connection before, which is read first. */
static bool is_connected(boot_server_t *s, int rank)
{
    bool is = false;
    for (struct client *o = s->clients; o; o = o->next) {
        if (o->rank != rank || o->is_dropped)
            continue;
        client_read(s, o);
        is |= !o->is_dropped && (o->is_waiting || s->ranks[rank].client == o);
    }
    return is;
}

void client_hello(boot_server_t *s, struct client *c, const unsigned char *body)
{
    const unsigned char *numbers = body + WIRE_MAGIC_LEN + WIRE_TOKEN_LEN;
    int rank = (int)bytes_get32(numbers), size = (int)bytes_get32(numbers + 4);
    if (size != s->size)
        return refuse(s, c, "rank %d says that there are %d ranks, but there are %d: check DDP_SIZE", rank, size,
                      s->size);
    if (rank < 0 || rank >= s->size)
        return refuse(s, c, "rank %d is not one of 0..%d: check DDP_RANK", rank, s->size - 1);
    if (is_connected(s, rank))
        return refuse(s, c, "rank %d is connected already: two processes have the same DDP_RANK", rank);
    c->rank = rank;
    if (s->failure.code)
        client_send_error(s, c, &s->failure);
    else if (s->ranks[rank].state == LEFT)
        c->is_waiting = true;
    else
        client_admit(s, c);
}

static int on_put(boot_server_t *s, struct client *c, const struct boot_frame *f)
{
    char key[BOOT_KEY_MAX + 1];
    size_t key_n = f->n ? f->body[0] : 0;
    if (key_n < 1 || key_n > BOOT_KEY_MAX || f->n < 1 + key_n || f->n - 1 - key_n > BOOT_VALUE_MAX)
        return -1;
    memcpy(key, f->body + 1, key_n);
    key[key_n] = 0;
    return boot_store_put(&s->ranks[c->rank].items, key, f->body + 1 + key_n, f->n - 1 - key_n);
}

static int on_fence(boot_server_t *s, struct client *c, const struct boot_frame *f)
{
    if (f->n || c->in_fence)
        return -1;
    for (int r = 0; r < s->size && !s->failure.code && s->n_left; r++)
        if (s->ranks[r].state == LEFT)
            server_fail(s, r, "rank %d left before the others were done", r);
    if (s->failure.code)
        return client_send_error(s, c, &s->failure), 0;
    c->in_fence = true;
    if (++s->n_fence < s->size)
        return 0;
    s->n_fence = 0;
    for (struct client *o = s->clients; o; o = o->next)
        o->in_fence = false;
    for (int r = 0; r < s->size; r++)
        if (s->ranks[r].client)
            client_send(s, s->ranks[r].client, WIRE_DONE, NULL, 0);
    return 0;
}

static int on_get(boot_server_t *s, struct client *c, const struct boot_frame *f)
{
    char key[BOOT_KEY_MAX + 1];
    size_t key_n = f->n - 4;
    if (f->n < 5 || key_n > BOOT_KEY_MAX || bytes_get32(f->body) >= (uint32_t)s->size)
        return -1;
    int rank = (int)bytes_get32(f->body);
    memcpy(key, f->body + 4, key_n);
    key[key_n] = 0;
    const struct boot_item *it = boot_store_find(s->ranks[rank].items, key);
    if (it) {
        client_send(s, c, WIRE_VALUE, it->data, it->n);
        return 0;
    }
    ddp_error_t e;
    error_set(&e, DDP_E_BOOT, ENOENT, "boot: rank %d has put nothing under %s", rank, key);
    client_send_error(s, c, &e);
    return 0;
}

/* "rank 2, rank 5 (not connected)": the ranks that a fence waits for. Returns buf. */
static const char *late_ranks(const boot_server_t *s, char *buf, size_t size)
{
    size_t n = 0;
    int more = 0;
    buf[0] = 0;
    for (int r = 0; r < s->size; r++) {
        const struct client *o = s->ranks[r].client;
        if (o && o->in_fence)
            continue;
        if (n + 64 > size)
            more++;
        else
            n += (size_t)snprintf(buf + n, size - n, "%srank %d%s", n ? ", " : "", r, o ? "" : " (not connected)");
    }
    if (more)
        snprintf(buf + n, size - n, " and %d more", more);
    return buf;
}

static int on_who(boot_server_t *s, struct client *c, const struct boot_frame *f)
{
    char text[160];
    if (f->n)
        return -1;
    late_ranks(s, text, sizeof text);
    client_send(s, c, WIRE_LATE, text, strlen(text));
    return 0;
}

/* With the cause, where the rank gives up because it has heard of a death: what the others are told is that, too. */
static int on_bye(boot_server_t *s, struct client *c, const struct boot_frame *f)
{
    struct rank *r = &s->ranks[c->rank];
    char text[160];
    if (f->n > NOTICE_TEXT_MAX)
        return -1;
    if (c->in_fence && f->n)
        server_fail(s, c->rank, "%.*s", (int)f->n, (const char *)f->body);
    if (c->in_fence)
        server_fail(s, c->rank, "%s: rank %d gave up waiting", late_ranks(s, text, sizeof text), c->rank);
    r->client = NULL; /* so that the drop is no death */
    r->state = LEFT;
    client_drop(s, c);
    if (s->n_fence)
        server_fail(s, c->rank, "rank %d left before the others were done", c->rank);
    if (++s->n_left == s->size && !s->failure.code)
        start_over(s);
    return 0;
}

/* Does what the frame says. -1: it breaks the protocol, or memory ran out; drop the client. */
static int take_frame(boot_server_t *s, struct client *c, const struct boot_frame *f)
{
    static int (*const handlers[])(boot_server_t *, struct client *, const struct boot_frame *) = {
        [WIRE_PUT] = on_put, [WIRE_FENCE] = on_fence, [WIRE_GET] = on_get,
        [WIRE_WHO] = on_who, [WIRE_BYE] = on_bye,
    };
    bool is_known = f->type > 0 && f->type < (int)(sizeof handlers / sizeof *handlers) && handlers[f->type];
    bool is_in = s->ranks[c->rank].client == c;
    return is_known && is_in ? handlers[f->type](s, c, f) : -1;
}

void client_read(boot_server_t *s, struct client *c)
{
    struct boot_frame f;
    int got = 1, whole = 0;
    while (!c->is_dropped && (got = conn_receive(&c->conn)) > 0) {
        while (!c->is_dropped && (whole = conn_frame(&c->conn, &f)) > 0) {
            if (take_frame(s, c, &f) < 0)
                client_drop(s, c);
            if (!c->is_dropped)
                conn_consume(&c->conn, &f);
        }
        if (whole < 0)
            client_drop(s, c);
    }
    if (got < 0)
        client_drop(s, c);
}
