/* The ranks as threads over one mapping, so that ThreadSanitizer sees them share memory: through two mappings of one
 * memfd it is blind. Built with -fsanitize=thread; mmap and munmap are wrapped (-Wl,--wrap) to map each part of a
 * shared file once per process. */
#include <config.h>

#include "t/unit/unit.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/lib/works.h"

void *__real_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t at);
int __real_munmap(void *p, size_t n);
void *__wrap_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t at);
int __wrap_munmap(void *p, size_t n);

static struct shared {
    ino_t inode;
    off_t at;
    void *p;
    int n_users;
} shared[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *__wrap_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t at)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return __real_mmap(addr, n, prot, flags, fd, at);
    pthread_mutex_lock(&lock);
    struct shared *s = shared, *unused = NULL;
    for (; s < shared + 64 && (s->n_users == 0 || s->inode != st.st_ino || s->at != at); s++)
        unused = s->n_users == 0 ? s : unused;
    if (s == shared + 64) {
        s = unused;
        *s = (struct shared){st.st_ino, at, __real_mmap(addr, n, prot, flags, fd, at), 0};
    }
    s->n_users++;
    pthread_mutex_unlock(&lock);
    return s->p;
}

int __wrap_munmap(void *p, size_t n)
{
    int rc = 0;
    pthread_mutex_lock(&lock);
    struct shared *s = shared;
    while (s < shared + 64 && (s->n_users == 0 || s->p != p))
        s++;
    if (s == shared + 64 || --s->n_users == 0)
        rc = __real_munmap(p, n);
    pthread_mutex_unlock(&lock);
    return rc;
}

struct thread {
    struct job *job;
    int rank, code;
    rank_f *f;
};

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    t->code = t->f(t->job, t->rank);
    return NULL;
}

/* As job_run, with threads for ranks. */
static bool run_threads(struct job *j, rank_f *f)
{
    pthread_t id[RANKS_MAX];
    struct thread t[RANKS_MAX];
    bool ok = true;
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    j->boot = memboot_create(j->size);
    for (int r = 0; r < j->size; r++) {
        t[r] = (struct thread){j, r, 0, f};
        assert_int_equal(pthread_create(&id[r], NULL, thread_main, &t[r]), 0);
    }
    for (int r = 0; r < j->size; r++) {
        pthread_join(id[r], NULL);
        ok = ok && t[r].code == 0;
    }
    memboot_destroy(j->boot);
    return ok;
}

static int all_calls_rank(struct job *j, int rank)
{
    enum { N = 3001 };
    static const struct comm_range ranges[] = {{64, N, DDP_F32}, {64 * 400, 77, DDP_F64}};
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    comm_segment_t *s = comm_segment_create(c, 64 * 500, &e);
    CHECK(s, "%s", e.text);
    float *x = (float *)((char *)comm_segment_data(s) + 64), y[N], all[RANKS_MAX * 10];
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < N; i++)
            x[i] = y[i] = (float)(i % 5 + rank);
        CHECK(comm_reduce_ranges(c, s, ranges, 2, DDP_SUM, &e) == 0, "%s", e.text);
        CHECK(comm_allreduce(c, y, N, DDP_F32, DDP_SUM, &e) == 0, "%s", e.text);
        for (int i = 0; i < N; i++)
            CHECK(x[i] == y[i] && y[i] == (float)(i % 5 * j->size + j->size * (j->size - 1) / 2), "element %d", i);
        CHECK(comm_bcast(c, y, sizeof y, round % j->size, &e) == 0, "%s", e.text);
        CHECK(comm_allgather(c, y, 40, all, &e) == 0, "%s", e.text);
        if (comm_barrier(c, &e) < 0) /* the last rank may be through the last one, and abort, while others still wake */
            CHECK(round == 20 && strstr(e.text, "enough"), "%s", e.text);
    }
    if (rank == j->size - 1)
        comm_abort(c, "enough");
    else
        CHECK(comm_barrier(c, &e) < 0 && strstr(e.text, "enough"), "%s", e.text);
    comm_destroy(c);
    world_destroy(w);
    return 0;
}

static void threads_do_not_race(void **state)
{
    (void)state;
    static const int one[] = {0, 0, 0, 0}, two[] = {0, 0, 0, 1, 1};
    struct job a = {.size = 4, .node_of = one}, b = {.size = 5, .node_of = two};
    assert_true(run_threads(&a, all_calls_rank));
    assert_true(run_threads(&b, all_calls_rank));
}

/* Works, visits and gathers, by the caller and by the thread. */
static void works_do_not_race(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 12; i++) {
        int node_of[RANKS_MAX], size = works_layout(i * 17 + 3, 5, node_of);
        struct works_case k = {.seed = i + 100, .max_elems = 6000, .n_rounds = 3};
        struct job j = {.size = size, .node_of = node_of, .arg = &k};
        j.progress = i % 2 ? COMM_PROGRESS_THREAD : COMM_PROGRESS_CALLER;
        if (!run_threads(&j, works_rank))
            fail_msg("case %d of %d ranks", (int)i, size);
    }
}

static void *scribble(void *arg)
{
    int fd = *(int *)arg;
    int *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < 1000; i++)
        p[0]++;
    return NULL;
}

/* The sanitizer does see through the wrapped mappings: a child that races ends with its exit code. */
static void a_planted_race_is_caught(void **state)
{
    (void)state;
    enum { SANITIZER_EXIT = 66 };
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t id[2];
        int fd = memfd_create("race", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, 4096) < 0 || !freopen("/dev/null", "w", stderr))
            _exit(1);
        for (int i = 0; i < 2; i++)
            pthread_create(&id[i], NULL, scribble, &fd);
        for (int i = 0; i < 2; i++)
            pthread_join(id[i], NULL);
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SANITIZER_EXIT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_planted_race_is_caught),
    cmocka_unit_test(threads_do_not_race),
    cmocka_unit_test(works_do_not_race),
};
UNIT_MAIN(tests)
