/* Connections in a ring of ranks, beside the communicator: what comes of them, and that no descriptor is lost. */
#include "t/unit/unit.h"

#include <fcntl.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/comm/pair.h"
#include "t/lib/ranks.h"

/* deaf: a rank that cannot listen, or -1; step: from whom a rank expects a connection, which -1 is right for. */
struct ring {
    int deaf, step;
    double timeout_s;
    const char *says; /* to those that listen; NULL: it succeeds */
};

static int n_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int ring_rank(struct job *j, int rank, comm_t *c)
{
    const struct ring *x = j->arg;
    const int to = (rank + 1) % j->size, from = (rank + x->step + j->size) % j->size;
    int before = n_descriptors(), out = -1, in = -1;
    bool is_deaf = rank == x->deaf;
    char said = (char)rank;
    ddp_error_t e = {0};
    int rc = pair_open(c, j->world, is_deaf ? "no-such-if" : "lo", to, from, x->timeout_s, &out, &in, &e);
    const char *says = is_deaf ? "no network interface no-such-if" : x->says;
    CHECK(rc == (says ? -1 : 0) && (!says || strstr(e.text, says)), "%d: %s", rc, e.text);
    if (rc == 0) {
        CHECK(io_send_all(out, &said, 1, deadline_in(20), "the next", &e) == 0, "%s", e.text);
        CHECK(io_recv_all(in, &said, 1, deadline_in(20), "the one before", &e) == 0 && said == from, "%s", e.text);
        close(out);
        close(in);
    }
    CHECK(n_descriptors() == before, "descriptors are lost");
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    return 0;
}

static void a_ring_is_closed_or_all_say_why_not(void **state)
{
    static const struct ring rings[] = {
        {-1, -1, 20, NULL},
        {1, -1, 20, "rank 1 does not listen for another rank"},
        {2, -1, 20, "rank 2 does not listen for another rank"},
        {-1, 1, 0.3, "rank "}, /* nobody comes of whom each expects it */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
        struct job j = {.size = 3, .node_of = (const int[]){0, 1, 1}, .arg = &rings[i]};
        if (!job_run_comm(&j, ring_rank))
            fail_msg("ring %zu", i);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_ring_is_closed_or_all_say_why_not),
};
UNIT_MAIN(tests)
