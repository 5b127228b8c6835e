#include "runtime/comm/pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/comm/handshake.h"
#include "runtime/comm/tcp.h"

/* Where a rank listens, and its tokens; a port of 0: nowhere. */
struct card {
    struct tcp_address address;
    uint8_t call[MEET_TOKEN], answer[MEET_TOKEN];
};

static struct card offer(struct handshake *m, const char *interface, ddp_error_t *errp)
{
    struct card c = {.address = {.port = 0}};
    if (handshake_tokens(m, errp) < 0 || tcp_listen(m, interface, &c.address, errp) < 0)
        c.address.port = 0;
    memcpy(c.call, m->call, sizeof c.call);
    memcpy(c.answer, m->answer, sizeof c.answer);
    return c;
}

static int call(const struct card *card, const struct world *w, int to, uint64_t deadline, struct handshake *ret,
                ddp_error_t *errp)
{
    char who[96];
    world_rank_name(w, to, who, sizeof who);
    memcpy(ret->call, card->call, sizeof ret->call);
    memcpy(ret->answer, card->answer, sizeof ret->answer);
    ret->fd = tcp_connect(&card->address, who, deadline, errp);
    return ret->fd < 0 ? -1 : handshake_call(ret->fd, ret, w, to, MEET_PAIR, deadline, errp);
}

/* All have listened before anybody calls, so that nobody waits for one who waits. */
static int meet(const struct card *all, const struct handshake *own, const struct world *w, int to, int from,
                uint64_t deadline, int *ret_to, int *ret_from, ddp_error_t *errp)
{
    struct handshake out = {.fd = -1};
    struct handshake_guest guest = {.rank = from, .kind = MEET_PAIR, .fd = -1};
    char who[96];
    if (call(&all[to], w, to, deadline, &out, errp) == 0 &&
        handshake_accept(own, w, &guest, 1, false, deadline, errp) == 0 &&
        handshake_answer(guest.fd, own, world_rank_name(w, from, who, sizeof who), -1, errp) == 0 &&
        handshake_answered(out.fd, &out, world_rank_name(w, to, who, sizeof who), NULL, deadline, errp) == 0) {
        *ret_to = out.fd;
        *ret_from = guest.fd;
        return 0;
    }
    io_close(out.fd);
    io_close(guest.fd);
    return -1;
}

static int first_that_fails(const struct card *all, int n_ranks)
{
    int rank = 0;
    while (rank < n_ranks && all[rank].address.port)
        rank++;
    return rank;
}

int pair_open(comm_t *c, const struct world *w, const char *interface, int to, int from, double timeout_s, int *ret_to,
              int *ret_from, ddp_error_t *errp)
{
    struct handshake own = {.fd = -1};
    struct card mine = offer(&own, interface, errp), *all = calloc((size_t)w->size, sizeof *all);
    int rc = all ? comm_allgather(c, &mine, sizeof mine, all, errp) : error_errno(errp, "cards of %d ranks", w->size);
    if (rc == 0 && mine.address.port) {
        int bad = first_that_fails(all, w->size);
        rc = bad == w->size
                 ? meet(all, &own, w, to, from, deadline_in(timeout_s), ret_to, ret_from, errp)
                 : error_set(errp, DDP_E_PEER, ECONNABORTED, "rank %d does not listen for another rank", bad);
    } else if (rc == 0) {
        rc = -1;
    }
    free(all);
    io_close(own.fd);
    return rc;
}
