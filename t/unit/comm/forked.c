/* A child that a rank forks, without exec: what it has of the communicator, and what it leaves alone. */
#include "t/unit/unit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/lib/ranks.h"

enum { FDS = 200 };

/* Or the memory that a node's ranks share. */
static bool is_connection(int fd)
{
    static const char socket[] = "socket:", memory[] = "/memfd:ddp ";
    char path[64], to[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, to, sizeof to - 1) > 0 &&
           (!strncmp(to, socket, sizeof socket - 1) || !strncmp(to, memory, sizeof memory - 1));
}

/* A child's exit code; it runs f(arg). */
static int child(int f(const bool *arg), const bool *arg)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        _exit(f(arg));
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int nothing(const bool *arg)
{
    (void)arg;
    return 0;
}

/* 1: it has a connection that was not open before; 2: it cannot fork in turn. */
static int look(const bool *was_open)
{
    for (int fd = 0; fd < FDS; fd++)
        if (!was_open[fd] && is_connection(fd))
            return 1;
    return child(nothing, NULL) == 0 ? 0 : 2;
}

static int forking_rank(struct job *j, int rank)
{
    struct world *w;
    ddp_error_t e = {0};
    bool was_open[FDS], has_some = false;
    float x = 1;
    for (int fd = 0; fd < FDS; fd++)
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    for (int fd = 0; fd < FDS; fd++)
        has_some |= !was_open[fd] && is_connection(fd);
    CHECK(has_some, "no connection to look for");
    int code = child(look, was_open);
    CHECK(code == 0, "the child ended with %d", code);
    CHECK(comm_allreduce(c, &x, 1, DDP_F32, DDP_SUM, &e) == 0 && x == (float)j->size, "%s", e.text);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void a_child_has_no_connection(void **state)
{
    (void)state;
    static const int one[] = {0, 0}, two[] = {0, 1}, both[] = {0, 0, 1, 1};
    struct job jobs[] = {{.size = 2, .node_of = one}, {.size = 2, .node_of = two}, {.size = 4, .node_of = both}};
    for (int i = 0; i < 3; i++)
        assert_true(job_run(&jobs[i], forking_rank));
}

/* 1: it lacks what is open here. */
static int have_all(const bool *is_open)
{
    for (int fd = 0; fd < FDS; fd++)
        if (is_open[fd] && fcntl(fd, F_GETFD) < 0)
            return 1;
    return 0;
}

enum { COMMS = 3 };
static struct memboot *boots[COMMS];

/* The numbers of what was closed with communicators are other files' by then. The first one lives on. */
static int forgetting_rank(struct job *j, int rank)
{
    struct world *w[COMMS];
    ddp_error_t e = {0};
    bool is_open[FDS], was_open[FDS];
    comm_t *c[COMMS];
    for (int i = 0; i < COMMS; i++) {
        struct job own = *j;
        own.boot = boots[i];
        for (int fd = 0; i == 1 && fd < FDS; fd++)
            was_open[fd] = fcntl(fd, F_GETFD) >= 0;
        c[i] = job_comm(&own, rank, &w[i], &e);
        CHECK(c[i], "%s", e.text);
    }
    for (int i = 1; i < COMMS; i++) {
        CHECK(comm_barrier(c[i], &e) == 0, "%s", e.text);
        comm_destroy(c[i]);
        world_destroy(w[i]);
    }
    while (dup(STDERR_FILENO) < FDS - 1)
        ;
    for (int fd = 0; fd < FDS; fd++)
        is_open[fd] = !was_open[fd];
    int code = child(have_all, is_open);
    CHECK(code == 0, "the child ended with %d", code);
    for (int fd = 0; fd < FDS; fd++)
        if (is_open[fd])
            close(fd);
    comm_destroy(c[0]);
    world_destroy(w[0]);
    return 0;
}

static void what_is_destroyed_is_left_alone(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = (const int[]){0, 1}};
    for (int i = 0; i < COMMS; i++)
        boots[i] = memboot_create(j.size);
    assert_true(job_run(&j, forgetting_rank));
    for (int i = 0; i < COMMS; i++)
        memboot_destroy(boots[i]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_child_has_no_connection),
    cmocka_unit_test(what_is_destroyed_is_left_alone),
};
UNIT_MAIN(tests)
