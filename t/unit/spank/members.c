#include "config.h"
#include "t/unit/spank/members.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "t/lib/network.h"

int members_port(const struct members *m, int node)
{
    return m->base_port + node * 4;
}

static int base_port;

static int find(const struct guards_facts *f, int node, char *ret_name, int ret_port[GUARDS_PORTS])
{
    (void)f;
    snprintf(ret_name, HOSTLIST_NAME_MAX, "127.0.%d.%d", node / 250, node % 250 + 1);
    for (int i = 0; i < GUARDS_PORTS; i++)
        ret_port[i] = base_port + node * 4 + i;
    return 0;
}

static struct guards_facts facts_of(const struct members *m, int rank)
{
    struct guards_facts f = {.rank = rank, .size = m->n, .restarts = m->restarts, .saves = m->saves,
                             .requeues = m->requeues, .local_rank = rank % m->per_node,
                             .join_s = m->join_s ? m->join_s : GUARDS_JOIN_S,
                             .stuck_s = m->stuck_s ? m->stuck_s : GUARDS_STUCK_S,
                             .wake_s = m->wake_s ? m->wake_s : GUARDS_WAKE_S,
                             .silent_s = m->silent_s ? m->silent_s : 60,
                             .idle_s = m->idle_s ? m->idle_s : GUARDS_IDLE_S, .local_size = m->per_node,
                             .node = rank / m->per_node, .n_nodes = m->n / m->per_node};
    base_port = m->base_port;
    f.is_whole = true;
    f.is_elastic = m->spares || m->min_nodes;
    f.spares = m->spares;
    f.min_nodes = m->min_nodes ? m->min_nodes : f.n_nodes - m->spares;
    f.find = find;
    snprintf(f.name, sizeof f.name, "n%d", f.node + 1);
    strcpy(f.token, m->token);
    if (f.node > 0)
        strcpy(f.above, "127.0.0.1");
    for (int i = 0; i < GUARDS_PORTS; i++) { /* they overlap: nodes find others' guards there */
        f.port[i] = members_port(m, f.node) + i;
        f.port_above[i] = f.node > 0 ? members_port(m, (f.node - 1) / GUARDS_FAN) + i : 0;
    }
    return f;
}

static struct death activity; /* of this member; first: neither */
static bool lingers;

static void obey(const struct members *m, guards_t *g, int order, int rank)
{
    struct death d = {.kind = DEATH_ENDED, .rank = rank, .at = rank / m->per_node,
                      .how = order == DO_DIE ? SIGKILL : EXIT(order)};
    if (order == DO_DIE_AS_1)
        d = (struct death){.kind = DEATH_ENDED, .rank = 1, .at = rank / m->per_node, .how = SIGKILL};
    if (order == DO_LACK_MEMORY)
        d = (struct death){.kind = DEATH_SHORT, .rank = rank, .at = rank / m->per_node, .how = EXIT(1)};
    if (order == DO_BE_STOPPED)
        d = (struct death){.kind = DEATH_STOPPED, .rank = rank, .how = SIGUSR1};
    if (order == DO_TELL || order == DO_TELL_THEN)
        d = (struct death){.kind = DEATH_TOLD, .rank = 3, .how = EXIT(1), .text = "rank 3 left"};
    if (order == DO_TELL_THEN)
        strcat(d.text, ", and then rank 2 aborted: why");
    if (order == DO_LEAVE || order == DO_GO_ON)
        d.kind = order == DO_LEAVE ? DEATH_LEFT : DEATH_NONE;
    if (order == DO_HALT || order == DO_BE_ENDED)
        d.kind = DEATH_HALTED;
    if (order == DO_HALT || order == DO_BE_ENDED)
        d.how = order == DO_HALT ? SIGSTOP : SIGTERM;
    if (order == DO_COMPUTE || order == DO_WAIT)
        d.kind = order == DO_COMPUTE ? DEATH_BUSY : DEATH_NONE;
    if (order == DO_COMPUTE || order == DO_WAIT)
        d.how = order == DO_WAIT;
    snprintf(d.node, sizeof d.node, "n%d", rank / m->per_node + 1);
    if (order == DO_FINISH || order == DO_SAVE)
        guards_finish(g, order == DO_SAVE);
    else if (order == DO_GONE)
        guards_gone(g);
    else if (order == DO_CARD)
        guards_tell_card(g, "card");
    else if (order == DO_EXPECT_END)
        guards_expect_end(g);
    else if (order == DO_STOP || order == DO_END_STOP)
        guards_stop(g, order == DO_END_STOP);
    else if (order == DO_LEAVE || order == DO_HALT || order == DO_GO_ON || order == DO_BE_ENDED)
        guards_suspect(g, &d);
    else if (order == DO_COMPUTE || order == DO_WAIT)
        activity = d;
    else if (order == DO_LINGER)
        lingers = true;
    else if (order == DO_REST)
        guards_expect_rest(g);
    else if (order == DO_WAKE)
        guards_expect_wake(g);
    else if (order == DO_REQUEUED)
        guards_requeued(g);
    else
        guards_report(g, &d);
    lingers = lingers && order != DO_DIE;
}

/* What it is told is on its way up; nothing comes of it by itself. */
static bool is_answered(int order)
{
    return order == DO_LEAVE || order == DO_HALT || order == DO_GO_ON || order == DO_COMPUTE || order == DO_WAIT ||
           order == DO_LINGER || order == DO_REST || order == DO_WAKE || order == DO_BE_ENDED;
}

/* A member, and what it has said. */
struct self {
    const struct members *m;
    int rank, fd;
    struct guards_facts f;
    guards_t *g;
    struct seat seat;
    struct heard h;
    bool is_told, is_joined, has_card, was_ours;
    int generation, next;
};

static void say(struct self *s)
{
    (void)!write(s->fd, &s->h, sizeof s->h);
}

static void wait_for_orders(struct self *s)
{
    struct pollfd p[] = {{.fd = s->fd, .events = POLLIN}, {.fd = guards_fd(s->g), .events = POLLIN}};
    unsigned char order;
    poll(p, 2, guards_wait_ms(s->g));
    if (p[0].revents && read(s->fd, &order, 1) != 1)
        _exit(0);
    if (p[0].revents)
        obey(s->m, s->g, order, s->rank);
    guards_activity(s->g, &activity);
    if (p[0].revents && is_answered(order))
        say(s);
}

static void answer(struct self *s)
{
    if (guards_is_called(s->g) && !lingers)
        guards_answer(s->g);
    if (s->m->answers && guards_wants_call(s->g)) {
        guards_call(s->g, s->rank, s->m->answers[s->rank]);
        s->h.has_answered = true;
        say(s);
        s->h.has_answered = false;
    }
}

static void say_generation(struct self *s)
{
    if (!s->is_joined && guards_is_joined(s->g)) {
        s->is_joined = true;
        say(s);
    }
    if (guards_generation(s->g) != s->generation) {
        s->generation = s->h.generation = guards_generation(s->g);
        s->is_told = s->has_card = false;
        bool has_seat = guards_seat(&s->f, s->g, &s->seat);
        s->h.rank = has_seat ? s->seat.rank : -1;
        s->h.size = s->seat.size;
        if (!has_seat)
            guards_finish(s->g, true);
        say(s);
    }
}

static void say_news(struct self *s)
{
    struct heard *h = &s->h;
    const char *news = guards_news(s->g);
    h->is_warned = news && (s->m->silent_s || !strstr(news, " has been silent for "));
    if (h->is_warned) {
        snprintf(h->news, sizeof h->news, "%s", news);
        say(s);
    }
    h->is_warned = false;
    h->news[0] = 0;
}

static void say_changes(struct self *s)
{
    struct heard *h = &s->h;
    if (guards_is_stopping(s->g) != h->is_stopping || guards_wants_requeue(s->g) != h->wants_requeue) {
        h->is_stopping = guards_is_stopping(s->g);
        h->wants_requeue = guards_wants_requeue(s->g);
        say(s);
    }
    if (guards_missing(s->g) != h->n_missing) {
        h->n_missing = guards_missing(s->g);
        say(s);
    }
    if (*guards_card(s->g) && !s->has_card) {
        s->has_card = true;
        strcpy(h->card, guards_card(s->g));
        say(s);
        h->card[0] = 0;
    }
}

static void say_verdict(struct self *s)
{
    struct heard *h = &s->h;
    const struct death *d = guards_verdict(s->g, &h->is_ours);
    bool is_last = s->f.is_elastic && d && !d->next && !guards_await_nodes(s->g);
    if (is_last != h->is_last || guards_are_few(s->g) != h->are_few) {
        h->is_last = is_last;
        h->are_few = guards_are_few(s->g);
        say(s);
    }
    bool is_ours_now = h->is_ours && !s->was_ours;
    s->was_ours = h->is_ours;
    if (d && (!s->is_told || d->next != s->next || (s->f.is_elastic && is_ours_now))) {
        s->is_told = true;
        s->next = d->next;
        h->verdict = *d;
        say(s);
    }
}

static _Noreturn void be_member(const struct members *m, int rank, int fd)
{
    struct self s = {.m = m, .rank = rank, .fd = fd, .f = facts_of(m, rank)};
    s.g = guards_open(&s.f);
    if (!guards_seat(&s.f, NULL, &s.seat))
        guards_finish(s.g, true);
    do {
        s.h.is_ours = false;
        s.h.verdict.kind = DEATH_NONE;
        s.h.generation = 0;
        wait_for_orders(&s);
        guards_step(s.g);
        if (guards_is_broken(s.g))
            _exit(1);
        answer(&s);
        say_generation(&s);
        say_news(&s);
        say_changes(&s);
        say_verdict(&s);
    } while (!guards_is_free(s.g));
    guards_leave(s.g);
    _exit(guards_are_few(s.g) ? 8 : 7);
}

void members_start(struct members *m, int rank)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    m->of[rank].pid = fork();
    if (m->of[rank].pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < m->n; i++)
            if (m->of[i].pid > 0)
                close(m->of[i].fd);
        close(pair[0]);
        be_member(m, rank, pair[1]);
    }
    close(pair[1]);
    m->of[rank].fd = pair[0];
}

/* Whether a guard of each node could listen at its first port now, or at the second: one that is taken, or was a minute
 * ago, sends it to the next. */
static bool ports_are_free(const struct members *m, int nodes)
{
    bool are_free = true;
    for (int i = 0; i < 2 * nodes && are_free; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(members_port(m, i / 2) + i % 2))};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        are_free = bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
        close(fd);
    }
    return are_free;
}

static void draw_ports(struct members *m, int nodes)
{
    ddp_error_t e;
    uint32_t draw;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(io_random(&draw, sizeof draw, &e), 0);
        m->base_port = 20000 + (int)(draw % 9000);
        if (ports_are_free(m, nodes))
            return;
    }
    fail_msg("no free ports between 20000 and 29000");
}

void members_set_up(struct members *m, int nodes, int ranks)
{
    ddp_error_t e;
    m->n = nodes * ranks;
    m->per_node = ranks;
    memset(m->of, 0, sizeof m->of);
    assert_int_equal(io_random_hex(m->token, GUARDS_TOKEN_LEN / 2, &e), 0);
    network_enter_own();
    draw_ports(m, nodes);
}

void members_tell(struct members *m, int rank, enum order order)
{
    unsigned char c = (unsigned char)order;
    assert_int_equal(write(m->of[rank].fd, &c, 1), 1);
}

bool members_hears(struct members *m, int rank, double seconds, struct heard *ret)
{
    ddp_error_t e;
    return io_recv_all(m->of[rank].fd, ret, sizeof *ret, deadline_in(seconds), "a member", &e) == 0;
}

void members_wait_joined(struct members *m, int rank)
{
    struct heard h;
    if (!members_hears(m, rank, 20, &h) || h.verdict.kind != DEATH_NONE)
        fail_msg("rank %d has not joined", rank);
}

void members_start_all(struct members *m, int nodes, int ranks)
{
    members_set_up(m, nodes, ranks);
    for (int r = m->n - 1; r >= 0; r--) /* who is below first */
        members_start(m, r);
    for (int r = 0; r < m->n; r++)
        members_wait_joined(m, r);
}

void members_wait_end(struct members *m, int rank)
{
    int status;
    struct heard h;
    if (members_hears(m, rank, 20, &h) || recv(m->of[rank].fd, &h, 1, MSG_DONTWAIT) != 0)
        fail_msg("rank %d has not ended", rank);
    assert_int_equal(waitpid(m->of[rank].pid, &status, 0), m->of[rank].pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    close(m->of[rank].fd);
    m->of[rank].pid = 0;
}

void members_kill(struct members *m, int rank)
{
    kill(m->of[rank].pid, SIGKILL);
}

void members_end(struct members *m)
{
    for (int r = 0; r < m->n; r++)
        if (m->of[r].pid > 0) {
            close(m->of[r].fd);
            kill(m->of[r].pid, SIGKILL);
            waitpid(m->of[r].pid, NULL, 0);
        }
}

void members_all_hear(struct members *m, int dead, enum death_kind kind, int rank, int how, int teller)
{
    int n_ours = 0;
    for (int r = 0; r < m->n; r++) {
        struct heard h;
        if (r == dead)
            continue;
        if (!members_hears(m, r, 20, &h))
            fail_msg("rank %d has heard nothing", r);
        if (h.verdict.kind != kind || h.verdict.rank != rank || (kind == DEATH_ENDED && h.verdict.how != how))
            fail_msg("rank %d has heard: kind %d, rank %d, %d", r, h.verdict.kind, h.verdict.rank, h.verdict.how);
        n_ours += h.is_ours;
        assert_true(!h.is_ours || r == teller);
    }
    assert_int_equal(n_ours, 1);
}
