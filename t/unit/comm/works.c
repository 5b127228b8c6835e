/* Works in flight: random layouts, sizes, types, moments and both progress modes against a serial reference; how far
 * works go without a wait; what is left of them at the end. */
#include "t/unit/unit.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/comm/wireup.h"
#include "t/lib/works.h"

static int n_received; /* calls that have read something */

ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);

ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags)
{
    ssize_t n = __real_recvmsg(fd, m, flags);
    n_received += n > 0;
    return n;
}

static void random_histories_give_the_reference_bit_for_bit(void **state)
{
    (void)state;
    enum { CASES = 60 };
    for (uint64_t i = 0; i < CASES; i++) {
        int node_of[RANKS_MAX], size = works_layout(i * 31 + 5, i % 10 == 0 ? 12 : 6, node_of);
        struct works_case k = {.seed = i + 1, .max_elems = i % 4 == 0 ? 150000 : 9000, .n_rounds = 3};
        struct job j = {.size = size, .node_of = node_of, .arg = &k};
        j.progress = i % 2 ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
        if (!job_run(&j, works_rank))
            fail_msg("case %d of %d ranks", (int)i, size);
    }
}

/* With the thread a work is done although its caller never comes back to it; without, comm_progress is enough. */
static int unattended_rank(struct job *j, int rank)
{
    enum { N = 300000 };
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    comm_segment_t *s = comm_segment_create(c, N * 4, &e);
    CHECK(s, "%s", e.text);
    float *x = comm_segment_data(s);
    for (int i = 0; i < N; i++)
        x[i] = (float)(rank + 1);
    comm_work_t *work = comm_allreduce_start(c, x, N, DDP_F32, DDP_SUM, &e);
    CHECK(work, "%s", e.text);
    uint64_t deadline = deadline_in(20);
    while (!comm_is_done(work) && deadline_left_ns(deadline) > 0)
        if (j->progress == COMM_PROGRESS_THREAD)
            usleep(100);
        else
            comm_progress(c);
    CHECK(comm_is_done(work), "not done");
    CHECK(x[0] == 10 && x[N - 1] == 10, "%g", (double)x[0]);
    CHECK(comm_wait(work, &e) == 0, "%s", e.text);
    _Atomic int *n = j->shared; /* in caller mode others may still need this rank's connections pumped: stay */
    ++*n;
    while (*n < j->size && deadline_left_ns(deadline) > 0)
        comm_progress(c);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void works_are_done_without_a_wait(void **state)
{
    (void)state;
    static const int one[] = {0, 0, 0, 0}, two[] = {0, 0, 1, 1}, uneven[] = {0, 1, 1, 1};
    const int *layouts[] = {one, two, uneven};
    for (int i = 0; i < 6; i++) {
        struct job j = {.size = 4, .node_of = layouts[i / 2]};
        j.progress = i % 2 ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
        if (!job_run(&j, unattended_rank))
            fail_msg("layout %d, mode %d", i / 2, i % 2);
    }
}

/* Ranks wait for the first of two works, in which the thread has had to stand back, and never come back for the second,
 * which rank 0 starts only then. */
static int forgetful_rank(struct job *j, int rank)
{
    enum { N = 300000 };
    struct world *w;
    ddp_error_t e = {0};
    _Atomic int *n_waited = j->shared, *n_done = n_waited + 1;
    comm_t *c = job_comm(j, rank, &w, &e);
    comm_segment_t *s = c ? comm_segment_create(c, N * 4, &e) : NULL;
    CHECK(s, "%s", e.text);
    float *x = comm_segment_data(s);
    uint64_t deadline = deadline_in(20);
    usleep(rank == 0 ? 20000 : 0); /* the others shall already wait */
    comm_work_t *a = comm_allreduce_start(c, x, 16, DDP_F32, DDP_SUM, &e), *b = NULL;
    if (rank != 0)
        b = comm_allreduce_start(c, x + 64, N - 64, DDP_F32, DDP_SUM, &e);
    CHECK(comm_wait(a, &e) == 0, "%s", e.text);
    ++*n_waited;
    while (*n_waited < j->size && deadline_left_ns(deadline) > 0)
        usleep(100);
    if (rank == 0)
        b = comm_allreduce_start(c, x + 64, N - 64, DDP_F32, DDP_SUM, &e);
    CHECK(a && b, "%s", e.text);
    while (!comm_is_done(b) && deadline_left_ns(deadline) > 0)
        usleep(100);
    CHECK(comm_is_done(b), "not done");
    ++*n_done; /* a wait would move what others need too */
    while (*n_done < j->size && deadline_left_ns(deadline) > 0)
        usleep(100);
    CHECK(comm_wait(b, &e) == 0, "%s", e.text);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void the_thread_goes_on_after_a_wait(void **state)
{
    (void)state;
    static const int one[] = {0, 0, 0}, two[] = {0, 0, 1}, each[] = {0, 1, 2};
    const int *layouts[] = {one, two, each};
    for (int i = 0; i < 3; i++) {
        struct job j = {.size = 3, .node_of = layouts[i], .progress = COMM_PROGRESS_THREAD};
        if (!job_run(&j, forgetful_rank))
            fail_msg("layout %d", i);
    }
}

/* How often this process's threads but the caller have gone to sleep. */
static long sleeps_of_others(void)
{
    long sum = 0, n;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *t; d && (t = readdir(d));) {
        char path[64], line[128];
        snprintf(path, sizeof path, "/proc/self/task/%.20s/status", t->d_name);
        FILE *f = atoi(t->d_name) != getpid() ? fopen(path, "r") : NULL;
        while (f && fgets(line, sizeof line, f))
            sum += sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1 ? n : 0;
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return sum;
}

/* Starts that are waited for at once leave the thread asleep, but for its looks; then a work is done without a wait. */
static int attended_rank(struct job *j, int rank, comm_t *c)
{
    enum { N = 2000 };
    ddp_error_t e = {0};
    float x = 1;
    (void)j;
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
    long sleeps = sleeps_of_others();
    uint64_t began = clock_ns();
    for (int i = 0; i < N; i++)
        CHECK(comm_wait(comm_allreduce_start(c, &x, 1, DDP_F32, DDP_MAX, &e), &e) == 0, "%s", e.text);
    long looks = 64 + (long)((clock_ns() - began) / (NS_PER_MS / 10)); /* more than it takes on a busy machine */
    sleeps = sleeps_of_others() - sleeps;
    CHECK(sleeps < looks + N / 4, "%ld sleeps in %d calls", sleeps, N);
    comm_work_t *w = comm_allreduce_start(c, &x, 1, DDP_F32, DDP_SUM, &e);
    CHECK(w, "%s", e.text);
    for (uint64_t end = deadline_in(20); !comm_is_done(w) && deadline_left_ns(end) > 0;)
        usleep(100);
    CHECK(comm_is_done(w), "not done");
    CHECK(comm_wait(w, &e) == 0, "%s", e.text);
    CHECK(x == 2, "%g", (double)x);
    return 0;
}

static void waiting_at_once_wakes_no_thread(void **state)
{
    (void)state;
    static const int one[] = {0, 0}, two[] = {0, 1};
    struct job a = {.size = 2, .node_of = one, .progress = COMM_PROGRESS_THREAD}, b = a;
    b.node_of = two;
    assert_true(job_run_comm(&a, attended_rank));
    assert_true(job_run_comm(&b, attended_rank));
}

/* Between two nodes, who has sent its part of a small sum holds nobody up, whatever it does then. */
static int absent_rank(struct job *j, int rank, comm_t *c)
{
    enum { N = 1000, ROUNDS = 40 };
    _Atomic int *turn = j->shared;
    ddp_error_t e = {0};
    float x[N];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t deadline = deadline_in(20);
        for (int i = 0; i < N; i++)
            x[i] = (float)(i + rank);
        while (rank == 0 && *turn != 2 * round + 1 && deadline_left_ns(deadline) > 0)
            usleep(100);
        comm_work_t *w = comm_allreduce_start(c, x, N, DDP_F32, DDP_SUM, &e);
        CHECK(w, "%s", e.text);
        if (rank == 1) {
            comm_progress(c);
            ++*turn;
            while (*turn != 2 * round + 2 && deadline_left_ns(deadline) > 0)
                usleep(100);
            CHECK(*turn == 2 * round + 2, "rank 0 waits in round %d", round);
        }
        CHECK(comm_wait(w, &e) == 0, "round %d: %s", round, e.text);
        for (int i = 0; i < N; i++)
            CHECK(x[i] == (float)(2 * i + 1), "round %d, element %d: %g", round, i, (double)x[i]);
        if (rank == 0)
            ++*turn;
    }
    return 0;
}

static void who_has_sent_its_part_holds_nobody_up(void **state)
{
    (void)state;
    static const int two[] = {0, 1};
    struct job j = {.size = 2, .node_of = two, .progress = COMM_PROGRESS_CALLER};
    assert_true(job_run_comm(&j, absent_rank));
}

/* A small message comes with its header, by one system call. */
static int frugal_rank(struct job *j, int rank, comm_t *c)
{
    enum { SUMS = 200, MOST = 1000 };
    static const size_t lengths[] = {1, 16, MOST};
    ddp_error_t e = {0};
    float x[MOST] = {0};
    (void)j;
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        CHECK(comm_barrier(c, &e) == 0, "%s", e.text);
        n_received = 0;
        for (int i = 0; i < SUMS; i++)
            CHECK(comm_allreduce(c, x, lengths[k], DDP_F32, DDP_SUM, &e) == 0, "%s", e.text);
        CHECK(n_received < SUMS + SUMS / 4, "%d sums of %zu elements, %d reads", SUMS, lengths[k], n_received);
    }
    return 0;
}

static void a_small_message_is_read_by_one_call(void **state)
{
    (void)state;
    static const int two[] = {0, 1};
    struct job j = {.size = 2, .node_of = two, .progress = COMM_PROGRESS_CALLER};
    assert_true(job_run_comm(&j, frugal_rank));
}

/* Ranks that leave after their last sum take nobody's result with them. */
static int leaving_rank(struct job *j, int rank, comm_t *c)
{
    ddp_error_t e = {0};
    float x = 1;
    (void)j;
    for (int i = 0; i < 100; i++)
        CHECK(comm_allreduce(c, &x, 1, DDP_F32, DDP_MAX, &e) == 0, "sum %d: %s", i, e.text);
    return 0;
}

static void the_last_sum_needs_nobody_after_it(void **state)
{
    (void)state;
    static const int two[] = {0, 0, 1, 1};
    for (int i = 0; i < 20; i++) {
        struct job j = {.size = 4, .node_of = two, .progress = COMM_PROGRESS_CALLER};
        if (!job_run_comm(&j, leaving_rank))
            fail_msg("job %d", i);
    }
}

/* Far more works than the engine takes at once; and works that nobody waits for. */
static int many_rank(struct job *j, int rank)
{
    enum { N = 1000, WORKS = 300 };
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    float *x = malloc(WORKS * N * sizeof *x);
    comm_work_t *work[WORKS];
    for (int i = 0; i < WORKS * N; i++)
        x[i] = (float)(i % 1000 + rank);
    for (int i = 0; i < WORKS; i++) {
        work[i] = comm_allreduce_start(c, x + i * N, N, DDP_F32, DDP_SUM, &e);
        CHECK(work[i], "%s", e.text);
    }
    for (int i = 0; i < WORKS / 2; i++)
        CHECK(comm_wait(work[i], &e) == 0, "%s", e.text);
    CHECK(comm_barrier(c, &e) == 0, "%s", e.text); /* after all works, also those that are not waited for */
    for (int i = 0; i < WORKS * N; i++)
        CHECK(x[i] == (float)(i % 1000 * j->size + j->size * (j->size - 1) / 2), "element %d: %g", i, (double)x[i]);
    /* A rank that leaves with a work in flight breaks the job: no other may still be in the barrier. */
    _Atomic int *n_past = j->shared;
    uint64_t deadline = deadline_in(20);
    ++*n_past;
    while (*n_past < j->size && deadline_left_ns(deadline) > 0)
        usleep(100);
    comm_allreduce_start(c, x, N, DDP_F32, DDP_SUM, &e); /* in flight when all leave; NULL where one already has */
    comm_destroy(c);
    world_destroy(w);
    free(x);
    return 0;
}

static void works_queue_up_and_may_be_left(void **state)
{
    (void)state;
    static const int one[] = {0, 0, 0}, two[] = {0, 0, 1}, each[] = {0, 1, 2};
    const int *layouts[] = {one, two, each};
    for (int i = 0; i < 6; i++) {
        struct job j = {.size = 3, .node_of = layouts[i / 2]};
        j.progress = i % 2 ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
        if (!job_run(&j, many_rank))
            fail_msg("layout %d, mode %d", i / 2, i % 2);
    }
}

static void be_slow_once(void *ctx, size_t range, size_t first, const void *data, size_t n_elems)
{
    bool *was_slow = ctx;
    (void)range, (void)first, (void)data, (void)n_elems;
    usleep(*was_slow ? 0 : 50000);
    *was_slow = true;
}

/* Rank 1's share of a sum is 8 chunks, rank 0's 9 and slow: rank 1 is soon through with its own and could begin the
 * gather that it has started too, while it may not yet send its last partial. Rank 0 starts the gather after the sum:
 * it must get that partial first. */
static int gathering_rank(struct job *j, int rank)
{
    enum { UNIT = 64 << 10, BYTES = 33 * UNIT, AFTER = 40 * UNIT };
    static const struct comm_range sum = {0, BYTES / 4, DDP_F32}, other = {AFTER, BYTES / 4, DDP_F32};
    struct world *w;
    ddp_error_t e = {0};
    bool was_slow = rank != 0;
    comm_t *c = job_comm(j, rank, &w, &e);
    comm_segment_t *s = c ? comm_segment_create(c, AFTER + BYTES, &e) : NULL;
    CHECK(s, "%s", e.text);
    float *x = comm_segment_data(s), *y = x + AFTER / 4;
    for (int i = 0; i < BYTES / 4; i++)
        x[i] = y[i] = (float)(rank + 1);
    struct comm_reduce r = {.segment = s, .ranges = &sum, .n_ranges = 1, .unit_bytes = UNIT, .visit = be_slow_once,
                            .ctx = &was_slow};
    comm_work_t *a = comm_reduce_start(c, &r, &e), *b = NULL;
    if (rank == 1)
        b = comm_gather_start(c, s, &other, 1, 0, &e);
    CHECK(comm_wait(a, &e) == 0, "%s", e.text);
    if (rank == 0)
        b = comm_gather_start(c, s, &other, 1, 0, &e);
    CHECK(comm_wait(b, &e) == 0, "%s", e.text);
    CHECK(a && b && x[0] == 3 && x[BYTES / 4 - 1] == 3, "%g .. %g", (double)x[0], (double)x[BYTES / 4 - 1]);
    CHECK(y[0] == 1 && y[BYTES / 4 - 1] == 2, "%g .. %g", (double)y[0], (double)y[BYTES / 4 - 1]);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void a_gather_holds_no_earlier_sum_up(void **state)
{
    (void)state;
    static const int each[] = {0, 1};
    struct job j = {.size = 2, .node_of = each, .timeout_s = 5, .progress = COMM_PROGRESS_CALLER};
    assert_true(job_run(&j, gathering_rank));
}

/* Who drives may be about to tell why it cannot go on, in the same place: a caller's reason waits for it. */
static void *refused(void *c)
{
    float x = 1;
    return comm_allreduce_start(c, &x, 1, DDP_F32, (enum ddp_op)77, NULL);
}

static void *aborting(void *c)
{
    comm_abort(c, "enough");
    return NULL;
}

static int reason_rank(struct job *j, int rank, comm_t *c)
{
    void *(*const tell[])(void *c) = {refused, aborting};
    pthread_t thread;
    void *work;
    pthread_mutex_lock(&c->engine.lock);
    CHECK(pthread_create(&thread, NULL, tell[*(const int *)j->arg], c) == 0, "no thread");
    for (uint64_t end = deadline_in(20); c->engine.n_wanting == 0 && deadline_left_ns(end) > 0;)
        if (watch_is_broken(c->watch))
            break;
    CHECK(c->engine.n_wanting == 1 && !watch_is_broken(c->watch), "told beside who drives");
    pthread_mutex_unlock(&c->engine.lock);
    CHECK(pthread_join(thread, &work) == 0 && !work && watch_is_broken(c->watch), "not told");
    return 0;
}

static void a_callers_reason_waits_for_who_drives(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        struct job j = {.size = 1, .node_of = &(const int){0}, .progress = COMM_PROGRESS_CALLER, .arg = &which};
        assert_true(job_run_comm(&j, reason_rank));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_histories_give_the_reference_bit_for_bit),
    cmocka_unit_test(works_are_done_without_a_wait),
    cmocka_unit_test(the_thread_goes_on_after_a_wait),
    cmocka_unit_test(waiting_at_once_wakes_no_thread),
    cmocka_unit_test(who_has_sent_its_part_holds_nobody_up),
    cmocka_unit_test(a_small_message_is_read_by_one_call),
    cmocka_unit_test(the_last_sum_needs_nobody_after_it),
    cmocka_unit_test(works_queue_up_and_may_be_left),
    cmocka_unit_test(a_gather_holds_no_earlier_sum_up),
    cmocka_unit_test(a_callers_reason_waits_for_who_drives),
};
UNIT_MAIN(tests)
