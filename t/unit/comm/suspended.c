/* Ranks that all stand still for longer than the deadline of a wait, as those of a step that Slurm suspends: nobody is
 * to blame, and the wait goes on. */
#include "t/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "t/lib/ranks.h"

enum { SIZE = 3, LATE = 2, TIMEOUT_S = 2 };

struct board {
    _Atomic int n_ready;
    _Atomic bool may_come; /* the late rank */
};

/* A process that has nothing left to do but wait for the late rank. */
static bool falls_asleep(pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    for (uint64_t end = deadline_in(20); state != 'S' && deadline_left_ns(end) > 0;) {
        FILE *f = fopen(path, "re");
        if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
            state = 0;
        if (f)
            fclose(f);
        usleep(1000);
    }
    return state == 'S';
}

/* SIGSTOP to all, for longer than TIMEOUT_S; false: a rank had ended. */
static bool suspend(const pid_t *pids)
{
    int status;
    for (int r = 0; r < SIZE; r++)
        kill(pids[r], SIGSTOP);
    for (int r = 0; r < SIZE; r++)
        if (waitpid(pids[r], &status, WUNTRACED) != pids[r] || !WIFSTOPPED(status))
            return false;
    usleep((TIMEOUT_S + 2) * 1000000);
    for (int r = 0; r < SIZE; r++)
        kill(pids[r], SIGCONT);
    return true;
}

static int rank_of_step(struct job *j, int rank)
{
    struct board *b = j->shared;
    struct world *w;
    ddp_error_t e = {0};
    float x = (float)rank;
    bool is_barrier = *(const bool *)j->arg;
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c && comm_barrier(c, &e) == 0, "%s", e.text);
    b->n_ready++;
    while (rank == LATE && !b->may_come)
        usleep(1000);
    int rc = is_barrier ? comm_barrier(c, &e) : comm_allreduce(c, &x, 1, DDP_F32, DDP_SUM, &e);
    CHECK(rc == 0 && (is_barrier || x == 3), "%g: %s", (double)x, e.text);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

/* Those that wait have all run for longer than the grace of a deadline when the late one comes. */
static void suspend_wait(const int *node_of, bool is_barrier)
{
    struct job j = {.size = SIZE, .node_of = node_of, .timeout_s = TIMEOUT_S, .arg = &is_barrier};
    pid_t pids[SIZE];
    int codes[SIZE];
    job_start(&j, rank_of_step, pids);
    struct board *b = j.shared;
    for (uint64_t end = deadline_in(20); b->n_ready < SIZE && deadline_left_ns(end) > 0;)
        usleep(1000);
    assert_int_equal(b->n_ready, SIZE);
    for (int r = 0; r < LATE; r++)
        assert_true(falls_asleep(pids[r]));
    assert_true(suspend(pids));
    usleep(TIMEOUT_S * 500000);
    b->may_come = true;
    job_wait(&j, pids, 40, codes);
    for (int r = 0; r < SIZE; r++)
        assert_int_equal(codes[r], 0);
    job_end(&j);
}

static void on_one_node(void **state)
{
    (void)state;
    suspend_wait((const int[]){0, 0, 0}, true);
}

static void on_two_nodes(void **state)
{
    (void)state;
    suspend_wait((const int[]){0, 0, 1}, false);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(on_one_node),
    cmocka_unit_test(on_two_nodes),
};
UNIT_MAIN(tests)
