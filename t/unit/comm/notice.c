/* A death that only the guards know of, while the others wait for that rank. */
#include "t/unit/unit.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/door.h"
#include "runtime/base/notice.h"
#include "t/lib/ranks.h"

static const char said[] = "node n1 (rank 2) has been silent for 3 s";

/* Of a rank that is silent: its connections stay open. */
static int be_silent(_Atomic int *n_done)
{
    while (*n_done < 2)
        poll(NULL, 0, 2); /* nothing here tells */
    _exit(0);
}

static int hear(struct job *j, int rank)
{
    _Atomic int *n_done = j->shared;
    struct world *w;
    ddp_error_t e = {0};
    float x = 1;
    int pair[2];
    unsigned char body[4 + sizeof said];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "no sockets");
    if (rank == 0) /* one guard is enough: its rank tells the others */
        notice_heed(pair[1]);
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    if (rank == 2)
        return be_silent(n_done);
    bytes_put32(body, 2);
    memcpy(body + 4, said, sizeof said - 1);
    if (rank == 0)
        frame_send(pair[0], DOOR_DEATH, body, 4 + sizeof said - 1);
    int rc = comm_allreduce(c, &x, 1, DDP_F32, DDP_SUM, &e);
    CHECK(rc < 0 && e.domain == DDP_E_PEER && !strcmp(e.text, said), "%s", e.text);
    ++*n_done;
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_guards_word_ends_all_waits),
};

UNIT_MAIN(tests)
