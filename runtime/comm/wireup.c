/* Wire-up takes one fence of the boot: every rank publishes a card (where it listens, its tokens, or why it cannot),
 * then the ranks of a node share memory, then owners of equal local index connect, then the watches start. It is the
 * boot's second fence, after world.h's: only a rank that knows all nodes knows whether it has to listen, and a job on
 * one node opens no TCP listener. */
#include "runtime/comm/wireup.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/descriptors.h"
#include "runtime/base/io.h"
#include "runtime/base/notice.h"
#include "runtime/comm/forked.h"

enum {
    CARD_VERSION = 0x64630006,
    STAGE_BYTES = STAGE_SLOTS * STAGE_SLOT_BYTES,
    MOVES_BYTES = 1 << 20,
};

/* What a rank publishes under "comm". */
struct card {
    uint32_t version;
    struct tcp_address address;      /* of an owner, where there are several nodes */
    char shm_name[SHM_NAME_MAX + 1]; /* of a leader with company */
    uint8_t call[MEET_TOKEN], answer[MEET_TOKEN]; /* the nonces of boot_token: most often the tokens themselves */
    char refusal[sizeof((ddp_error_t *)0)->text]; /* empty, or why this rank cannot take part */
};

_Static_assert(MEET_TOKEN == BOOT_NONCE_BYTES, "a token is what boot_token makes of a nonce");

struct wiring {
    comm_t *c;
    boot_t *boot;
    const struct comm_config *cfg;
    uint64_t deadline;
    struct card card;
    struct handshake shm_meet, tcp_meet; /* the same tokens */
    struct watch_peer *control;
};

static bool is_owner(const comm_t *c)
{
    return c->n_nodes > 1 && c->local < c->n_owners;
}

/* Two for each connection, for who listens, and those below: what lacks them later has no way to tell the others. */
static int check_descriptors(const comm_t *c, ddp_error_t *errp)
{
    enum { MEMORY_WATCH_DOORBELL = 1 + 2 + 1 };
    int n_peers = c->local_size - 1 + (is_owner(c) ? c->n_nodes - 1 : 0);
    size_t n = 2 * (size_t)n_peers + (c->local == 0) + is_owner(c) + MEMORY_WATCH_DOORBELL;
    return descriptors_check(n) < 0 ? error_errno(errp, "the wire-up needs %zu more descriptors", n) : 0;
}

static int offer(struct wiring *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    if (check_descriptors(c, errp) < 0 || shm_reserve(&c->shm, errp) < 0 || handshake_tokens(&x->shm_meet, errp) < 0)
        return -1;
    memcpy(x->card.call, x->shm_meet.call, MEET_TOKEN);
    memcpy(x->card.answer, x->shm_meet.answer, MEET_TOKEN);
    boot_token(x->boot, c->rank, x->shm_meet.call);
    boot_token(x->boot, c->rank, x->shm_meet.answer);
    x->tcp_meet = x->shm_meet;
    if (c->local == 0 && shm_offer(&c->shm, &x->shm_meet, x->card.shm_name, errp) < 0)
        return -1;
    return is_owner(c) ? tcp_listen(&x->tcp_meet, x->cfg->interface, &x->card.address, errp) : 0;
}

/* Each rank tells its guard by whom the wire-up fails: all of them end, and any may be the first. */
static void tell_refusal(const struct wiring *x, int rank, const char *why)
{
    char who[96], text[sizeof who + NOTICE_TEXT_MAX + 3];
    snprintf(text, sizeof text, "%s: %s", world_rank_name(x->c->world, rank, who, sizeof who), why);
    notice_tell_early(rank, text);
}

static int get_card(struct wiring *x, int rank, struct card *ret, ddp_error_t *errp)
{
    void *data;
    size_t n;
    char who[96];
    world_rank_name(x->c->world, rank, who, sizeof who);
    if (boot_get(x->boot, rank, "comm", &data, &n, x->deadline, errp) < 0)
        return -1;
    bool is_right = n == sizeof *ret;
    if (is_right)
        memcpy(ret, data, n);
    free(data);
    if (!is_right || ret->version != CARD_VERSION)
        return error_set(errp, DDP_E_BOOT, EPROTO, "%s runs another version of libddp", who);
    ret->refusal[sizeof ret->refusal - 1] = 0;
    if (ret->refusal[0]) {
        tell_refusal(x, rank, ret->refusal);
        return error_set(errp, DDP_E_PEER, ECONNABORTED, "%s: %s", who, ret->refusal);
    }
    boot_token(x->boot, rank, ret->call);
    boot_token(x->boot, rank, ret->answer);
    return 0;
}

/* A rank that cannot take part says so. All others read it: each waits for some that wait for some that wait for it. */
static int publish(struct wiring *x, ddp_error_t *errp)
{
    ddp_error_t why = {0};
    x->card.version = CARD_VERSION;
    int rc = offer(x, &why);
    if (rc < 0)
        memcpy(x->card.refusal, why.text, sizeof x->card.refusal);
    if (boot_put(x->boot, "comm", &x->card, sizeof x->card, errp) < 0 || boot_fence(x->boot, x->deadline, errp) < 0)
        return -1;
    if (rc < 0) {
        char who[96];
        tell_refusal(x, x->c->rank, why.text);
        error_prefix(&why, "%s", world_rank_name(x->c->world, x->c->rank, who, sizeof who));
        return error_set(errp, why.domain, why.code, "%s", why.text);
    }
    for (int r = 0; r < x->c->world->size; r++) {
        struct card card;
        if (r != x->c->rank && get_card(x, r, &card, errp) < 0)
            return -1;
    }
    return 0;
}

static void set_tokens(struct handshake *m, const struct card *card)
{
    m->fd = -1;
    memcpy(m->call, card->call, MEET_TOKEN);
    memcpy(m->answer, card->answer, MEET_TOKEN);
}

static int share_memory(struct wiring *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    struct card leader = {0};
    if (c->local > 0) {
        if (get_card(x, world_rank_at(c->world, c->node, 0), &leader, errp) < 0)
            return -1;
        set_tokens(&x->shm_meet, &leader);
    }
    leader.shm_name[SHM_NAME_MAX] = 0;
    return shm_join(&c->shm, &x->shm_meet, leader.shm_name, x->deadline, errp);
}

static int connect_nodes(struct wiring *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    if (!is_owner(c))
        return 0;
    struct tcp_peer *peers = calloc((size_t)c->n_nodes, sizeof *peers);
    int rc = peers ? 0 : error_errno(errp, "wire-up");
    for (int k = 0; rc == 0 && k < c->n_nodes; k++) {
        struct card card;
        peers[k].rank = world_rank_at(c->world, k, c->local);
        rc = k == c->node ? 0 : get_card(x, peers[k].rank, &card, errp);
        if (rc == 0 && k != c->node) {
            peers[k].address = card.address;
            peers[k].address.host[TCP_ADDR_MAX] = 0;
            set_tokens(&peers[k].meet, &card);
        }
    }
    if (rc == 0) {
        c->tcp = tcp_wire(c->world, &x->tcp_meet, peers, x->cfg->timeout_s, x->deadline, &x->control, errp);
        rc = c->tcp ? 0 : -1;
    }
    free(peers);
    return rc;
}

static int start_watch(struct wiring *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    struct watch_config w = {
        .world = c->world, .board = c->shm.board, .local = c->shm.peers, .n_local = c->shm.n_peers};
    w.remote = x->control;
    w.n_remote = x->control ? (size_t)c->n_nodes - 1 : 0;
    w.notice_fd = notice_take();
    w.flight = c->flight;
    w.timeout_name = x->cfg->timeout_name;
    c->watch = c->shm.watch = watch_create(&w, errp);
    if (!c->watch) {
        io_close(w.notice_fd);
        return -1;
    }
    c->shm.n_peers = 0; /* the watch has them now */
    free(x->control);
    x->control = NULL;
    return 0;
}

static int allocate(comm_t *c, ddp_error_t *errp)
{
    int most = c->plan.n_slots > c->local_size ? c->plan.n_slots : c->local_size;
    c->in = calloc((size_t)most, sizeof *c->in);
    c->out = calloc((size_t)c->local_size, sizeof *c->out);
    if (!c->in || !c->out)
        return error_errno(errp, "communicator");
    if (engine_init(c, errp) < 0)
        return -1;
    return c->n_nodes > 1 ? shm_doorbell_open(&c->shm, errp) : 0;
}

/* Each rank tells its guard whom it cannot reach; not who has closed a connection, or did not come to one: those may
 * have waited for others. */
static int reach_others(struct wiring *x, ddp_error_t *errp)
{
    ddp_error_t e;
    int rank;
    if (share_memory(x, &e) == 0 && connect_nodes(x, &e) == 0)
        return 0;
    if (e.domain == DDP_E_SYSTEM && sscanf(e.text, "rank %d", &rank) == 1 && rank != x->c->rank)
        notice_tell_early(rank, e.text);
    return error_set(errp, e.domain, e.code, "%s", e.text);
}

static int wire(struct wiring *x, ddp_error_t *errp)
{
    comm_t *c = x->c;
    if (publish(x, errp) < 0 || reach_others(x, errp) < 0 || start_watch(x, errp) < 0)
        return -1;
    c->stage = (struct comm_segment){.comm = c, .map = c->shm.stage, .n_bytes = STAGE_BYTES, .stride = STAGE_BYTES};
    c->moves = (struct comm_segment){.comm = c, .n_bytes = MOVES_BYTES, .stride = MOVES_BYTES};
    c->moves.map = c->shm.stage + (size_t)c->local_size * STAGE_BYTES;
    if (allocate(c, errp) < 0)
        return comm_fail(c, errp);
    comm_number(c, WATCH_IN_WIRING, 0);
    if (shm_count_cores(&c->shm, errp) < 0 || comm_barrier(c, errp) < 0)
        return -1;
    return progress_start(c, x->cfg->progress, errp) < 0 ? comm_fail(c, errp) : 0;
}

static comm_t *comm_new(const struct comm_config *cfg, const struct world *w)
{
    comm_t *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->world = w;
    c->rank = w->rank;
    c->node = w->node_of[w->rank];
    c->local = w->local_of[w->rank];
    c->local_size = world_local_size(w, c->node);
    c->n_nodes = w->n_nodes;
    c->n_owners = world_min_local_size(w);
    c->shm = (struct shm){
        .world = w, .node = c->node, .local = c->local, .local_size = c->local_size, .memfd = -1, .door = -1};
    c->shm.timeout_s = cfg->timeout_s;
    c->shm.stage_bytes = STAGE_BYTES + MOVES_BYTES;
    c->flight = flight_open(c->rank, w->size);
    pthread_mutex_init(&c->engine.lock, NULL);
    pthread_cond_init(&c->engine.turn, NULL);
    idle_init(&c->engine.idle);
    if (comm_plan_init(&c->plan, w) < 0) {
        flight_close(c->flight);
        free(c);
        return NULL;
    }
    return c;
}

comm_t *comm_create(const struct comm_config *cfg, const struct world *w, boot_t *b, ddp_error_t *errp)
{
    struct wiring x = {.boot = b, .cfg = cfg, .deadline = deadline_in(cfg->timeout_s)};
    x.shm_meet.fd = x.tcp_meet.fd = -1;
    descriptors_reserve(2 * (size_t)(w->n_nodes + world_local_size(w, w->node_of[w->rank])));
    x.c = comm_new(cfg, w);
    if (!x.c) {
        error_errno(errp, "communicator");
        return NULL;
    }
    int rc = wire(&x, errp);
    io_close(x.shm_meet.fd);
    io_close(x.tcp_meet.fd);
    for (int i = 0; x.control && i < w->n_nodes - 1; i++)
        io_close(x.control[i].fd);
    free(x.control);
    if (rc == 0) {
        forked_heed(x.c);
        return x.c;
    }
    comm_destroy(x.c);
    return NULL;
}

comm_segment_t *comm_segment_create(comm_t *c, size_t n_bytes, ddp_error_t *errp)
{
    if (comm_begin(c, WATCH_IN_SEGMENT, 0, errp) < 0) /* sizes are compared, and named, below */
        return NULL;
    struct comm_segment *s = calloc(1, sizeof *s);
    if (!s)
        error_errno(errp, "segment");
    else if (n_bytes > SIZE_MAX / 4 / (size_t)c->world->size)
        error_set(errp, DDP_E_USAGE, ENOMEM, "a segment of %zu bytes is more than there can be", n_bytes);
    else
        s->map = shm_map(&c->shm, n_bytes, &s->stride, errp);
    if (!s || !s->map) {
        free(s);
        comm_fail(c, errp);
        return NULL;
    }
    s->comm = c;
    s->number = c->shm.begun;
    s->n_bytes = n_bytes;
    s->next = c->segments;
    c->segments = s;
    return s;
}

void *comm_segment_data(const comm_segment_t *s)
{
    return segment_part(s, s->comm->local);
}

void comm_abort(comm_t *c, const char *why)
{
    progress_lock(c); /* the thread may be about to say why it cannot go on */
    watch_abort(c->watch, why);
    progress_unlock(c);
}

void comm_destroy(comm_t *c)
{
    if (!c)
        return;
    int saved = errno;
    forked_forget(c);
    progress_stop(c);
    if (c->watch)
        watch_leave(c->watch);
    watch_destroy(c->watch);
    engine_clear(c);
    tcp_destroy(c->tcp);
    for (struct comm_segment *s = c->segments, *next; s; s = next) {
        next = s->next;
        shm_unmap(&c->shm, s->map, s->stride);
        free(s);
    }
    shm_clear(&c->shm);
    comm_plan_clear(&c->plan);
    idle_clear(&c->engine.idle);
    pthread_cond_destroy(&c->engine.turn);
    pthread_mutex_destroy(&c->engine.lock);
    flight_close(c->flight);
    free(c->in);
    free(c->out);
    free(c);
    errno = saved;
}

bool comm_is_by_rank(const comm_t *c)
{
    return c->plan.by_rank;
}

const struct comm_plan *comm_plan(const comm_t *c)
{
    return &c->plan;
}

void comm_note_step(const comm_t *c, uint64_t n_steps)
{
    flight_step(c->flight, n_steps);
}

struct watch *comm_watch(const comm_t *c)
{
    return c->watch;
}

double comm_tcp_rate(comm_t *c)
{
    progress_lock(c);
    double rate = c->tcp ? tcp_rate(c->tcp) : NAN;
    progress_unlock(c);
    return rate;
}

uint64_t comm_tcp_bytes_sent(const comm_t *c)
{
    comm_t *driven = (comm_t *)c;
    progress_lock(driven);
    uint64_t n = c->tcp ? tcp_bytes_sent(c->tcp) : 0;
    progress_unlock(driven);
    return n;
}
