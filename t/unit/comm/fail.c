/* What the other ranks see when one dies, leaves, aborts, stops or ends in the middle. */
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/plain.h"
#include "runtime/comm/tcp_impl.h"
#include "runtime/comm/wireup.h"
#include "t/lib/ranks.h"

/* A kernel before Linux 5.3, or a container's filter, refuses pidfd_open. */
static bool has_no_pidfd;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* Takes six arguments, as libc's does, however many there are. */
__attribute__((no_sanitize_address)) long __wrap_syscall(long number, ...)
{
    long arg[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    if (number != SYS_pidfd_open || !has_no_pidfd)
        return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
    errno = ENOSYS;
    return -1;
}

enum fate { KILLED, KILLED_FORKED, EXITS, LEAVES, ABORTS, STOPS, KILLED_MIDWAY };
enum call { BARRIER, ALLREDUCE, BCAST, ALLGATHER, ALLTOALL, REDUCE_RANGES, WORKS, WORKS_THREAD, N_CALLS };

struct scene {
    enum fate fate;
    enum call call;
    int victim;
    const char *expect; /* after the victim's name */
    int domain;
    int n_patient; /* ranks, the first, whose deadline is ten times the others' */
};

struct board {
    _Atomic int n_done;
    pid_t pid[RANKS_MAX];
    _Atomic uint64_t when; /* the victim met its fate */
    uint64_t took_ns[RANKS_MAX];
};

enum { N = 300000 };

/* Three works in flight, one of them staged. */
static int make_works(comm_t *c, comm_segment_t *s, char *buf, ddp_error_t *errp)
{
    static const struct comm_range half[] = {{0, N / 2 / 16 * 16, DDP_F32}, {N / 2 / 16 * 64, N / 4, DDP_F32}};
    comm_work_t *w[3] = {0};
    int rc = 0;
    for (int i = 0; rc == 0 && i < 3; i++) {
        struct comm_reduce r = {.segment = s, .ranges = &half[i % 2], .n_ranges = 1};
        w[i] = i < 2 ? comm_reduce_start(c, &r, errp) : comm_allreduce_start(c, buf, N, DDP_F32, DDP_SUM, errp);
        rc = w[i] ? 0 : -1;
    }
    for (int i = 0; i < 3; i++)
        rc = comm_wait(w[i], errp) < 0 ? -1 : rc;
    return rc;
}

static int make_call(const struct job *j, comm_t *c, comm_segment_t *s, enum call call, char *buf, ddp_error_t *errp)
{
    static const struct comm_range r = {0, N, DDP_F32};
    switch (call) {
    case BARRIER:
        return comm_barrier(c, errp);
    case ALLREDUCE:
        return comm_allreduce(c, buf, N, DDP_F32, DDP_SUM, errp);
    case BCAST:
        return comm_bcast(c, buf, N * 4, 0, errp);
    case ALLGATHER:
        return comm_allgather(c, buf, 100000, buf + N * 4, errp);
    case ALLTOALL:
        return job_alltoall(j, c, buf, 100000, buf + N * 4, errp);
    case WORKS:
    case WORKS_THREAD:
        return make_works(c, s, buf, errp);
    default:
        return comm_reduce_ranges(c, s, &r, 1, DDP_SUM, errp);
    }
}

/* A child that outlives its rank, until all others know of its death. */
static void fork_child(struct board *b, int size)
{
    if (fork() != 0)
        return;
    alarm(30);
    while (b->n_done < size - 1)
        usleep(200);
    _exit(0);
}

static int meet_fate(struct board *b, const struct scene *scene, int size, comm_t *c)
{
    if (scene->fate == KILLED_FORKED)
        fork_child(b, size);
    b->when = clock_ns();
    switch (scene->fate) {
    case EXITS:
        _exit(3);
    case LEAVES:
        comm_destroy(c);
        return 0;
    case ABORTS:
        comm_abort(c, "the disk is full");
        comm_destroy(c);
        return 0;
    case STOPS:
        raise(SIGSTOP); /* until the last of the others kills it */
        return 0;
    default:
        raise(SIGKILL);
        return 0;
    }
}

static int scene_rank(struct job *j, int rank)
{
    const struct scene *scene = j->arg;
    struct board *b = j->shared;
    struct world *w;
    ddp_error_t e = {0};
    b->pid[rank] = getpid();
    j->timeout_s *= rank < scene->n_patient ? 10 : 1;
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    comm_segment_t *s = comm_segment_create(c, N * 4, &e);
    char *buf = calloc(1, N * 4 + 100000 * RANKS_MAX);
    CHECK(s, "%s", e.text);
    int rc = comm_barrier(c, &e); /* the first out of it may already meet its fate while others still wake */
    if (rank == scene->victim && scene->fate != KILLED_MIDWAY)
        return meet_fate(b, scene, j->size, c);
    if (rank == scene->victim)
        ualarm(20000, 0); /* kills at some moment of the loop below */
    for (int i = 0; rc == 0 && i < 100000; i++)
        rc = make_call(j, c, s, scene->call, buf, &e);
    b->took_ns[rank] = clock_ns() - b->when;
    char who[64];
    snprintf(who, sizeof who, "rank %d (n%d)%s", scene->victim, j->node_of[scene->victim], scene->expect);
    CHECK(rc < 0 && e.domain == scene->domain && strncmp(e.text, who, strlen(who)) == 0,
          "\"%s\", not \"%s\" (domain %d)", e.text, who, e.domain);
    bool is_alone = j->node_of[scene->victim] == 2; /* nobody can say how it died */
    CHECK(scene->fate != KILLED || !is_alone || !e.text[strlen(who)], "%s", e.text);
    CHECK(scene->fate != STOPS || strstr(e.text, " collectives begun, 0 steps done) for 1 s (DDP_TIMEOUT)"), "%s",
          e.text);
    CHECK(comm_barrier(c, NULL) < 0, "goes on after an error");
    if (++b->n_done == j->size - 1 && scene->fate == STOPS)
        kill(b->pid[scene->victim], SIGKILL);
    uint64_t deadline = deadline_in(20);
    while (scene->n_patient > 0 && b->n_done < j->size - 1 && deadline_left_ns(deadline) > 0)
        usleep(200); /* the silent leader could not tell others why a rank of its node has ended */
    if (rank % 2) /* some leave in order, some just end: neither may hide the cause */
        _exit(0);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void play(const struct scene *scene, int size, const int *node_of, double timeout_s)
{
    struct job j = {.size = size, .node_of = node_of, .arg = scene, .timeout_s = timeout_s};
    pid_t pids[RANKS_MAX];
    int codes[RANKS_MAX];
    j.progress = scene->call == WORKS_THREAD ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
    job_start(&j, scene_rank, pids);
    job_wait(&j, pids, 40, codes);
    for (int r = 0; r < size; r++) {
        if (r != scene->victim && codes[r] != 0)
            fail_msg("fate %d of rank %d in call %d: rank %d ended with %d", scene->fate, scene->victim, scene->call, r,
                     codes[r]);
        uint64_t took = ((struct board *)j.shared)->took_ns[r];
        if (r != scene->victim && scene->fate < STOPS && took > 5 * NS_PER_S)
            fail_msg("rank %d took %.3f s to notice", r, (double)took / 1e9);
    }
    job_end(&j);
}

static const int one_node[] = {0, 0, 0}, nodes[] = {0, 0, 1, 1, 2}, wide[] = {0, 0, 0, 1, 1, 1, 1};

/* Every call, every victim: leaders, owners and ranks that own nothing. */
static void play_all(enum fate fate, const char *expect, int domain)
{
    for (int call = 0; call < N_CALLS; call++) {
        struct scene s = {.fate = fate, .call = (enum call)call, .expect = expect, .domain = domain};
        for (s.victim = 0; s.victim < 5; s.victim++)
            play(&s, 5, nodes, 60);
        for (s.victim = 0; s.victim < 2; s.victim++)
            play(&s, 3, one_node, 60);
        s.victim = 6;
        play(&s, 7, wide, 60);
    }
}

static void a_killed_rank_is_named_by_all(void **state)
{
    (void)state;
    play_all(KILLED, " died", DDP_E_PEER);
}

static void a_killed_rank_is_named_without_pidfds_too(void **state)
{
    (void)state;
    struct scene s = {.fate = KILLED, .call = ALLREDUCE, .expect = " died", .domain = DDP_E_PEER};
    has_no_pidfd = true;
    for (s.victim = 0; s.victim < 5; s.victim++)
        play(&s, 5, nodes, 60);
    has_no_pidfd = false;
}

static void a_child_that_lives_on_hides_no_death(void **state)
{
    (void)state;
    struct scene s = {.fate = KILLED_FORKED, .call = ALLREDUCE, .expect = " died", .domain = DDP_E_PEER};
    for (s.victim = 0; s.victim < 5; s.victim++)
        play(&s, 5, nodes, 60);
}

static void a_rank_killed_in_the_middle_is_named_by_all(void **state)
{
    (void)state;
    play_all(KILLED_MIDWAY, " died", DDP_E_PEER);
}

static void a_rank_that_exits_is_named_by_all(void **state)
{
    (void)state;
    struct scene s = {.fate = EXITS, .call = ALLREDUCE, .expect = " died", .domain = DDP_E_PEER};
    for (s.victim = 0; s.victim < 5; s.victim++)
        play(&s, 5, nodes, 60);
}

static void a_rank_that_left_is_named_by_those_that_wait(void **state)
{
    (void)state;
    play_all(LEAVES, " left the job while rank ", DDP_E_PEER);
}

static void an_abort_reaches_all_with_its_reason(void **state)
{
    (void)state;
    struct scene s = {.fate = ABORTS, .call = ALLREDUCE, .expect = " aborted: the disk is full", .domain = DDP_E_PEER};
    for (s.victim = 0; s.victim < 5; s.victim++)
        play(&s, 5, nodes, 60);
}

static void a_stopped_rank_is_named_at_the_deadline(void **state)
{
    (void)state;
    struct scene s = {.fate = STOPS, .expect = " did not come before the deadline", .domain = DDP_E_TIMEOUT};
    for (int i = 0; i < 7; i++) {
        s.call = (enum call)(i % N_CALLS);
        s.victim = i % 5;
        play(&s, 5, nodes, 1);
    }
}

/* Rank 1 waits for rank 3, which waits for rank 2, its leader, by whom alone that could be told. */
static void a_silent_leader_is_named_and_not_who_waits_for_it(void **state)
{
    (void)state;
    static const int pairs[] = {0, 0, 1, 1};
    struct scene s = {.fate = STOPS, .call = ALLREDUCE, .victim = 2, .n_patient = 1};
    s.expect = " did not come before the deadline";
    s.domain = DDP_E_TIMEOUT;
    play(&s, 4, pairs, 1);
}

/* Of three ranks the last ones leave, and then one aborts. */
struct ends {
    int n_left, aborts;
    const char *why, *expect;
};

static int abort_behind(struct job *j, int rank)
{
    const struct ends *ends = j->arg;
    _Atomic int *n_ready = j->shared, *n_told = n_ready + 1;
    struct world *w;
    ddp_error_t e = {0};
    float x = 1;
    uint64_t deadline = deadline_in(20);
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    ++*n_ready;
    while (*n_ready < 3 && deadline_left_ns(deadline) > 0) /* nobody is still in the wire-up */
        usleep(200);
    bool leaves = rank >= 3 - ends->n_left;
    for (int r = 3 - ends->n_left; r < 3 && !leaves; r++)
        while (!watch_has_left(c->watch, r) && deadline_left_ns(deadline) > 0)
            usleep(200);
    if (rank == ends->aborts)
        comm_abort(c, ends->why);
    if (!leaves) { /* a collective before that would find who left by itself */
        while (!watch_is_broken(c->watch) && deadline_left_ns(deadline) > 0)
            usleep(200);
        CHECK(comm_allreduce(c, &x, 1, DDP_F32, DDP_SUM, &e) < 0 && !strcmp(e.text, ends->expect), "%s", e.text);
        ++*n_told;
        while (*n_told < 3 - ends->n_left && deadline_left_ns(deadline) > 0)
            usleep(200);
    }
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void who_aborts_behind_one_that_left_names_it(void **state)
{
    static const char full[] = "the disk is full";
    char error[230], heard_error[256], exception[400], heard_part[450], heard_exception[256];
    snprintf(error, sizeof error, "/%0200d: No space left", 0);
    snprintf(heard_error, sizeof heard_error, "rank 1 (n0) aborted: %s", error);
    snprintf(exception, sizeof exception, "/%0350d: No space left", 0);
    snprintf(heard_part, sizeof heard_part, "rank 1 (n0) aborted: %s", exception);
    plain_fit(heard_exception, sizeof heard_exception, heard_part);
    const struct ends ends[] = {
        {0, 1, full, "rank 1 (n0) aborted: the disk is full"},
        {0, 1, "rank 1: the disk is full", "rank 1 (n0) aborted: the disk is full"},
        {0, 1, "rank 2: the disk is full", "rank 2 (n1) aborted: the disk is full"}, /* which it has from there */
        {0, 1, "rank 3: there is none", "rank 1 (n0) aborted: rank 3: there is none"},
        {0, 1, error, heard_error},
        {0, 1, exception, heard_exception}, /* without its middle */
        {1, 1, full, "rank 2 (n1) left the job, and then rank 1 aborted: the disk is full"},
        {1, 0, full, "rank 2 (n1) left the job, and then rank 0 aborted: the disk is full"},
        {2, 0, full, "rank 0 (n0) aborted: the disk is full"}, /* they may all have been ready */
    };
    static const int node_of[] = {0, 0, 1};
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct job j = {.size = 3, .node_of = node_of, .arg = &ends[i], .timeout_s = 60};
        assert_true(job_run(&j, abort_behind));
    }
}

/* Rank 0 leaves when rank 1 has looked, and is about to sleep. */
static _Atomic int *leave_now; /* of rank 1; NULL: already told */
int __real_engine_suspect(comm_t *c);
int __wrap_engine_suspect(comm_t *c);

int __wrap_engine_suspect(comm_t *c)
{
    int suspect = __real_engine_suspect(c);
    uint64_t deadline = deadline_in(20);
    if (!leave_now)
        return suspect;
    *leave_now = 1;
    leave_now = NULL;
    while (!watch_has_left(c->watch, 0) && deadline_left_ns(deadline) > 0)
        usleep(200);
    return suspect;
}

static int late_leaver(struct job *j, int rank, comm_t *c)
{
    _Atomic int *now = j->shared;
    uint64_t deadline = deadline_in(20), began = clock_ns();
    float x = 1;
    ddp_error_t e = {0};
    while (rank == 0 && !*now && deadline_left_ns(deadline) > 0)
        usleep(200);
    if (rank == 0)
        return 0;
    leave_now = now;
    CHECK(comm_allreduce(c, &x, 1, DDP_F32, DDP_SUM, &e) < 0 && strstr(e.text, "left the job"), "%s", e.text);
    CHECK(*now && clock_ns() - began < 5 * NS_PER_S, "noticed at its deadline only");
    return 0;
}

static void a_rank_that_leaves_wakes_who_is_about_to_sleep(void **state)
{
    (void)state;
    struct job j = {.size = 2, .node_of = one_node, .timeout_s = 6};
    assert_true(job_run_comm(&j, late_leaver));
}

/* Rank 1's connection to the other node ends, closed or reset, and nothing is heard of why. */
struct cut {
    enum call call;
    bool is_reset;
};

static int cut_off_rank(struct job *j, int rank, comm_t *c)
{
    _Atomic int *is_over = j->shared;
    const struct cut *cut = j->arg;
    uint64_t deadline = deadline_in(20), began = clock_ns();
    char *buf = calloc(N, 4);
    ddp_error_t e = {0};
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    if (rank == 0) {
        CHECK(make_call(j, c, NULL, cut->call, buf, &e) < 0, "no failure");
        CHECK(!strcmp(e.text, "rank 1 (n1) died") && clock_ns() - began < 20 * NS_PER_S, "%s", e.text);
        *is_over = 1;
        free(buf);
        return 0;
    }
    if (cut->is_reset) {
        int null = open("/dev/null", O_RDWR);
        setsockopt(c->tcp->conns[0].fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        dup2(null, c->tcp->conns[0].fd);
        close(null);
    } else {
        shutdown(c->tcp->conns[0].fd, SHUT_RDWR);
    }
    while (!*is_over && deadline_left_ns(deadline) > 0)
        usleep(200);
    free(buf);
    return 0;
}

static void who_is_cut_off_without_news_is_named(void **state)
{
    (void)state;
    static const struct cut cuts[] = {{ALLREDUCE, false}, {ALLREDUCE, true}, {BARRIER, false}, {BARRIER, true}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct job j = {.size = 2, .node_of = (const int[]){0, 1}, .timeout_s = 60, .arg = &cuts[i]};
        assert_true(job_run_comm(&j, cut_off_rank));
    }
}

/* Ranks that leave one after another while nobody waits disturb nobody. */
static int quiet_rank(struct job *j, int rank)
{
    _Atomic int *turn = j->shared;
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    float x = 1;
    CHECK(comm_allreduce(c, &x, 1, DDP_F32, DDP_SUM, &e) == 0, "%s", e.text);
    uint64_t deadline = deadline_in(20);
    while (*turn != rank && deadline_left_ns(deadline) > 0)
        usleep(200);
    CHECK(*turn == rank, "no turn");
    comm_destroy(c);
    ++*turn;
    world_destroy(w);
    return 0;
}

static void leaving_when_nobody_waits_is_silent(void **state)
{
    (void)state;
    struct job j = {.size = 5, .node_of = nodes};
    assert_true(job_run(&j, quiet_rank));
}

/* A program's closefrom, and then files of its own under the same numbers. */
static int closing_rank(struct job *j, int rank, comm_t *c)
{
    ddp_error_t e = {0};
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    _Atomic int *n = j->shared; /* who closes its connections is dead for those that are still in the barrier */
    ++*n;
    for (uint64_t deadline = deadline_in(20); *n < j->size && deadline_left_ns(deadline) > 0;)
        usleep(100);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    int null = open("/dev/null", O_RDWR);
    for (int fd = null + 1; fd < 1024; fd += 2)
        dup2(null, fd);
    return 0; /* and comm_destroy */
}

static void a_rank_ends_also_without_its_descriptors(void **state)
{
    (void)state;
    struct job j = {.size = 3, .node_of = nodes, .timeout_s = 10};
    assert_true(job_run_comm(&j, closing_rank));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_killed_rank_is_named_by_all),
    cmocka_unit_test(a_killed_rank_is_named_without_pidfds_too),
    cmocka_unit_test(a_child_that_lives_on_hides_no_death),
    cmocka_unit_test(a_rank_killed_in_the_middle_is_named_by_all),
    cmocka_unit_test(a_rank_that_exits_is_named_by_all),
    cmocka_unit_test(a_rank_that_left_is_named_by_those_that_wait),
    cmocka_unit_test(a_rank_that_leaves_wakes_who_is_about_to_sleep),
    cmocka_unit_test(an_abort_reaches_all_with_its_reason),
    cmocka_unit_test(who_is_cut_off_without_news_is_named),
    cmocka_unit_test(who_aborts_behind_one_that_left_names_it),
    cmocka_unit_test(a_stopped_rank_is_named_at_the_deadline),
    cmocka_unit_test(a_silent_leader_is_named_and_not_who_waits_for_it),
    cmocka_unit_test(leaving_when_nobody_waits_is_silent),
    cmocka_unit_test(a_rank_ends_also_without_its_descriptors),
};
UNIT_MAIN(tests)
