/* A death that only the guards know of, while the others wait for that rank; and what ranks tell their guards. */
#include "t/unit/unit.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/door.h"
#include "runtime/base/frame.h"
#include "runtime/base/notice.h"
#include "t/lib/ranks.h"

static const char said[] = "node n1 (rank 2) has been silent for 3 s";

struct board {
    _Atomic int n_ready, n_done;
};

static void wait_for(const _Atomic int *n, int at_least)
{
    while (*n < at_least)
        poll(NULL, 0, 2); /* nothing here tells */
}

/* What is of no interest here, and then the death. */
static void say(int to, int from)
{
    unsigned char body[4 + sizeof said] = {0};
    int n_unread = 1;
    frame_send(to, DOOR_KEEP, body, 4);
    while (ioctl(from, FIONREAD, &n_unread) == 0 && n_unread > 0)
        poll(NULL, 0, 2); /* nothing here tells */
    bytes_put32(body, 2);
    memcpy(body + 4, said, sizeof said - 1);
    frame_send(to, DOOR_DEATH, body, 4 + sizeof said - 1);
}

static int hear(struct job *j, int rank)
{
    struct board *b = j->shared;
    struct world *w;
    ddp_error_t e = {0};
    float x = 1;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "no sockets");
    if (rank == 0) /* one guard is enough: its rank tells the others */
        notice_heed(pair[1]);
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    b->n_ready++;
    if (rank == 2) { /* silent: its connections stay open */
        wait_for(&b->n_done, 2);
        _exit(0);
    }
    wait_for(&b->n_ready, 3); /* nobody is still in the wire-up */
    if (rank == 0)
        say(pair[0], pair[1]);
    int rc = comm_allreduce(c, &x, 1, DDP_F32, DDP_SUM, &e);
    CHECK(rc < 0 && e.domain == DDP_E_PEER && !strcmp(e.text, said), "%s", e.text);
    b->n_done++;
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void the_guards_word_ends_all_waits(void **state)
{
    static const int node_of[] = {0, 0, 1};
    struct job j = {.size = 3, .node_of = node_of, .timeout_s = 60};
    (void)state;
    assert_true(job_run(&j, hear));
}

/* Each rank that fails tells its guard for whom it has waited, before it can end. */
static int tell(struct job *j, int rank)
{
    struct board *b = j->shared;
    struct world *w;
    ddp_error_t e = {0};
    float x = 1;
    int pair[2], kind = -1;
    size_t n = 0;
    struct frame in = {0};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "no sockets");
    notice_heed(pair[1]);
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    if (rank == 2) { /* loops */
        wait_for(&b->n_done, 2);
        _exit(0);
    }
    int rc = comm_allreduce(c, &x, 1, DDP_F32, DDP_SUM, &e);
    CHECK(rc < 0 && e.domain == DDP_E_TIMEOUT, "%s", e.text);
    b->n_done++;
    CHECK(frame_next(&in, pair[0], &kind, &n) == 1 && kind == DOOR_CAUSE && bytes_get32(in.bytes + FRAME_HEAD) == 2 &&
              n == 4 + strlen(e.text) && !memcmp(in.bytes + FRAME_HEAD + 4, e.text, n - 4),
          "the guard was told something else, or nothing: kind %d", kind);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void the_guard_hears_whom_the_rank_waited_for(void **state)
{
    static const int node_of[] = {0, 0, 1};
    struct job j = {.size = 3, .node_of = node_of, .timeout_s = 0.5};
    (void)state;
    assert_true(job_run(&j, tell));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_guards_word_ends_all_waits),
    cmocka_unit_test(the_guard_hears_whom_the_rank_waited_for),
};

UNIT_MAIN(tests)
