/* What goes wrong during the wire-up: a rank that cannot take part, one that dies after the exchange, strangers. */
#include "t/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/comm/shm.h"
#include "t/lib/guardend.h"
#include "t/lib/ranks.h"

enum { VICTIMS = 5 };
static const int nodes[VICTIMS] = {0, 0, 1, 1, 2};

/* Does rank get its communicator? Else *ret says why; that it waited for one that had said so is another reason. */
static bool takes_part(struct job *j, int rank, const char *interface, ddp_error_t *ret)
{
    struct comm_config cfg = {.timeout_s = 30, .interface = interface};
    boot_t *b = memboot_open(j->boot, rank);
    struct world *w = job_world(j, rank);
    uint64_t start = clock_ns();
    comm_t *c = comm_create(&cfg, w, b, ret);
    bool is_there = c;
    if (clock_ns() - start > 10 * NS_PER_S)
        error_set(ret, 0, 0, "it has waited for %s", ret->text);
    comm_destroy(c);
    boot_leave(b, NULL);
    world_destroy(w);
    return is_there;
}

/* Has `rank` (-1: whichever) said that `text`, after how others begin who say it of the victim? */
static bool has_said(const ddp_error_t *e, int rank, int victim, const char *others, const char *text)
{
    char begin[64] = "";
    if (rank != victim)
        snprintf(begin, sizeof begin, "rank %d (n%d)%s: ", victim, nodes[victim], others);
    return strncmp(e->text, begin, strlen(begin)) == 0 && strstr(e->text, text);
}

/* One rank names a network interface that its machine lacks. */
static int refusing_rank(struct job *j, int rank)
{
    int guard = guardend_open(), victim = *(const int *)j->arg;
    ddp_error_t e = {0};
    CHECK(!takes_part(j, rank, rank == victim ? "no-such-if" : "lo", &e), "it takes part");
    CHECK(has_said(&e, -1, victim, "", "no-such-if"), "\"%s\"", e.text); /* the victim, too, with its name */
    CHECK(guardend_has(guard, victim, e.text), "the guard was told something else than \"%s\", or nothing", e.text);
    return 0;
}

static void a_refusal_reaches_every_rank(void **state)
{
    (void)state;
    static const int owners[] = {0, 2, 4}; /* with a node of one rank, only leaders listen */
    for (int i = 0; i < 3; i++) {
        struct job j = {.size = VICTIMS, .node_of = nodes, .arg = &owners[i]};
        if (!job_run(&j, refusing_rank))
            fail_msg("refusal of rank %d", owners[i]);
    }
    static const int even[] = {0, 0, 1, 1};
    for (int victim = 0; victim < 4; victim++) {
        struct job j = {.size = 4, .node_of = even, .arg = &victim};
        if (!job_run(&j, refusing_rank))
            fail_msg("refusal of rank %d", victim);
    }
}

/* One rank comes to a limit of its own: what it lacks, and what all say of that. */
struct lack {
    int victim;
    bool *what;
    const char *others, *text; /* has_said */
};
static bool has_no_threads, has_no_space;
int __wrap_thread_start(pthread_t *ret, void *(*f)(void *), void *arg);
int __real_thread_start(pthread_t *ret, void *(*f)(void *), void *arg);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);
void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset);

int __wrap_thread_start(pthread_t *ret, void *(*f)(void *), void *arg)
{
    return has_no_threads ? EAGAIN : __real_thread_start(ret, f, arg);
}

void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (!has_no_space || n < 1 << 20)
        return __real_mmap(at, n, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

static int lacking_rank(struct job *j, int rank)
{
    const struct lack *l = j->arg;
    ddp_error_t e = {0};
    *l->what = rank == l->victim;
    CHECK(!takes_part(j, rank, "lo", &e), "it takes part");
    CHECK(has_said(&e, rank, l->victim, l->others, l->text), "\"%s\"", e.text);
    return 0;
}

static void a_lack_is_told_to_all(struct lack l)
{
    for (l.victim = 0; l.victim < VICTIMS; l.victim++) {
        struct job j = {.size = VICTIMS, .node_of = nodes, .arg = &l};
        assert_true(job_run(&j, lacking_rank));
    }
}

static void a_limit_of_threads_is_told_to_all(void **state)
{
    (void)state;
    a_lack_is_told_to_all((struct lack){
        .what = &has_no_threads, .others = " aborted", .text = "watch thread (ulimit -u, ulimit -v): "});
}

static void a_limit_of_address_space_is_told_to_all(void **state)
{
    (void)state;
    a_lack_is_told_to_all((struct lack){
        .what = &has_no_space, .others = "", .text = " MiB of shared memory (ulimit -v): Cannot allocate"});
}

/* The most that a rank may have open above the lowest that is free, of which the last must be enough. */
struct limit {
    int rank, n;
};
enum { ENOUGH = 20 };

static int limited_rank(struct job *j, int rank)
{
    const struct limit *limit = j->arg;
    ddp_error_t e = {0};
    if (rank == limit->rank) {
        int lowest = dup(2);
        struct rlimit r = {(rlim_t)(lowest + limit->n), (rlim_t)(lowest + limit->n)};
        CHECK(close(lowest) == 0 && setrlimit(RLIMIT_NOFILE, &r) == 0, "no limit");
    }
    if (takes_part(j, rank, "lo", &e)) {
        CHECK(limit->n > 3, "%d descriptors are enough", limit->n);
        return 0;
    }
    CHECK(limit->n < ENOUGH && has_said(&e, rank, limit->rank, "", "more descriptors: Too many open files (ulimit -n)"),
          "%d descriptors for rank %d: \"%s\"", limit->n, limit->rank, e.text);
    return 0;
}

/* However few there are, all know why: nobody waits for a rank that finds out when they read no refusal any more. */
static void a_limit_of_descriptors_is_told_to_all(void **state)
{
    (void)state;
    static const int ranks[] = {2, 3, 4}; /* a leader, one that shares its node, and one alone */
    struct limit limit;
    struct job j = {.size = VICTIMS, .node_of = nodes, .arg = &limit};
    for (int i = 0; i < 3; i++)
        for (int n = 0; n <= ENOUGH; n++) {
            limit = (struct limit){ranks[i], n};
            assert_true(job_run(&j, limited_rank));
        }
}

static int (*mem_fence)(boot_t *b, uint64_t deadline, ddp_error_t *errp);

static int fence_and_die(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    mem_fence(b, deadline, errp);
    raise(SIGKILL);
    return -1;
}

/* The victim has published its card, and is gone before anybody meets it. */
static int dying_rank(struct job *j, int rank)
{
    int guard = guardend_open(), victim = *(const int *)j->arg;
    struct comm_config cfg = {.timeout_s = 1, .interface = "lo"};
    boot_t *b = memboot_open(j->boot, rank);
    struct world *w = job_world(j, rank);
    struct boot_ops ops = *b->ops;
    mem_fence = ops.fence;
    if (rank == victim) {
        ops.fence = fence_and_die;
        b->ops = &ops;
    }
    ddp_error_t e = {0};
    uint64_t start = clock_ns();
    comm_t *c = comm_create(&cfg, w, b, &e);
    CHECK(!c && strstr(e.text, "rank "), "\"%s\"", e.text);
    int named = rank; /* where it cannot reach one of its node, the error begins with itself */
    bool is_refused = e.domain == DDP_E_SYSTEM && sscanf(e.text, "rank %d", &named) == 1 && named != rank;
    CHECK(!is_refused || guardend_has(guard, named, e.text), "its guard does not know: %s", e.text);
    CHECK(clock_ns() - start < 20 * NS_PER_S, "no deadline");
    world_destroy(w);
    return 0;
}

static void a_death_after_the_exchange_ends_at_the_deadline(void **state)
{
    (void)state;
    for (int victim = 0; victim < VICTIMS; victim++) {
        struct job j = {.size = VICTIMS, .node_of = nodes, .arg = &victim};
        pid_t pids[RANKS_MAX];
        int codes[RANKS_MAX];
        job_start(&j, dying_rank, pids);
        job_wait(&j, pids, 40, codes);
        job_end(&j);
        for (int r = 0; r < VICTIMS; r++)
            if (codes[r] != (r == victim ? 128 + SIGKILL : 0))
                fail_msg("rank %d died: rank %d ended with %d", victim, r, codes[r]);
    }
}

/* Strangers may connect to an abstract socket too: as many as the leader's queue holds, and it is stopped. */
static void a_leader_that_does_not_listen_ends_at_the_deadline(void **state)
{
    (void)state;
    static const char name[] = "ddp-test-full-queue";
    static const char *const keys[] = {"n0", "n0"};
    enum { MOST = 100 };
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path + 1, name, strlen(name));
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int door = socket(AF_UNIX, SOCK_STREAM, 0), strangers[MOST], n_strangers = 0;
    assert_int_equal(bind(door, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(door, 1), 0);
    do
        strangers[n_strangers] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    while (connect(strangers[n_strangers++], (struct sockaddr *)&a, n) == 0 && n_strangers < MOST);
    assert_true(n_strangers < MOST);
    struct world *w = world_from_keys(1, 2, keys, keys);
    struct shm s = {
        .world = w, .local = 1, .local_size = 2, .timeout_s = 1, .stage_bytes = 4096, .memfd = -1, .door = -1};
    struct handshake m = {.fd = -1};
    ddp_error_t e = {0};
    alarm(30); /* for ever was once the answer */
    assert_int_equal(shm_join(&s, &m, name, deadline_in(0.3), &e), -1);
    alarm(0);
    assert_int_equal(e.domain, DDP_E_TIMEOUT);
    assert_error_has(e, "rank 0 (n0)");
    shm_clear(&s);
    world_destroy(w);
    while (n_strangers > 0)
        close(strangers[--n_strangers]);
    close(door);
}

/* Until it is killed: another user, where this one may become one. */
static void flood(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path + 1, name, strlen(name));
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    alarm(60);
    if (geteuid() == 0 && setuid(1) < 0)
        _exit(1);
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fd, (struct sockaddr *)&a, n);
        close(fd);
    }
}

static struct shm shm_of(const struct world *w, int local)
{
    return (struct shm){.world = w, .local = local, .local_size = 2, .timeout_s = 1, .stage_bytes = 4096, .memfd = -1,
                        .door = -1};
}

/* All the while that ranks share memory, others connect to the leader's socket, whose name all users see. */
static void a_flood_does_not_keep_ranks_apart(void **state)
{
    (void)state;
    enum { FLOODERS = 3, TIMES = 10 };
    static const char *const keys[] = {"n0", "n0"};
    for (int i = 0; i < TIMES; i++) {
        pid_t pid[FLOODERS], rank;
        char name[SHM_NAME_MAX + 1] = "";
        int status = -1;
        ddp_error_t e = {0};
        struct handshake m = {.fd = -1};
        struct world *w[] = {world_from_keys(0, 2, keys, keys), world_from_keys(1, 2, keys, keys)};
        struct shm leader = shm_of(w[0], 0), other = shm_of(w[1], 1);
        assert_int_equal(handshake_tokens(&m, &e), 0);
        assert_int_equal(shm_offer(&leader, &m, name, &e), 0);
        for (int k = 0; k < FLOODERS; k++)
            if ((pid[k] = fork()) == 0)
                flood(name);
        poll(&(struct pollfd){.fd = m.fd, .events = POLLIN}, 1, 20000); /* it has begun */
        if ((rank = fork()) == 0) {
            int rc = shm_join(&other, &m, name, deadline_in(20), &e);
            if (rc < 0)
                fprintf(stderr, "rank 1: %s\n", e.text);
            _exit(rc < 0);
        }
        int rc = shm_join(&leader, &m, name, deadline_in(20), &e);
        waitpid(rank, &status, 0);
        for (int k = 0; k < FLOODERS; k++) {
            kill(pid[k], SIGKILL);
            waitpid(pid[k], NULL, 0);
        }
        if (rc < 0)
            fail_msg("rank 0: %s", e.text);
        assert_int_equal(status, 0);
        close(m.fd);
        shm_clear(&leader);
        for (int k = 0; k < 2; k++)
            world_destroy(w[k]);
    }
}

/* Of files: where such a limit is exceeded, the kernel ends the process by a signal. */
static void a_limit_of_size_is_an_error(void **state)
{
    (void)state;
    static const char *const keys[] = {"n0", "n0"};
    struct rlimit before, now;
    char name[SHM_NAME_MAX + 1] = "";
    ddp_error_t e = {0};
    struct handshake m = {.fd = -1};
    struct world *w = world_from_keys(0, 2, keys, keys);
    struct shm leader = shm_of(w, 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    now = before;
    now.rlim_cur = 1024;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    int rc = shm_offer(&leader, &m, name, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, -1);
    assert_error_has(e, "share 1 MiB of memory, which is more than `ulimit -f` allows: raise it");
    shm_clear(&leader);
    world_destroy(w);
}

static uint64_t memory_limit = UINT64_MAX; /* of the control group */
uint64_t __wrap_cgroup_memory_limit(const char *root);

uint64_t __wrap_cgroup_memory_limit(const char *root)
{
    (void)root;
    return memory_limit;
}

/* The kernel would kill whoever touches a page beyond it. */
static void a_limit_of_memory_is_an_error(void **state)
{
    (void)state;
    static const char *const keys[] = {"n0", "n0"};
    char name[SHM_NAME_MAX + 1] = "";
    ddp_error_t e = {0};
    struct handshake m = {.fd = -1};
    struct world *w = world_from_keys(0, 2, keys, keys);
    struct shm leader = shm_of(w, 0);
    leader.stage_bytes = 1 << 20;
    memory_limit = 1 << 20;
    assert_int_equal(shm_offer(&leader, &m, name, &e), -1);
    memory_limit = UINT64_MAX;
    assert_error_has(e, "control group allows 1 MiB: ask for more memory (--mem)");
    shm_clear(&leader);
    world_destroy(w);
}

/* Else one of them could let others die by a signal. */
static void nobody_makes_the_memory_smaller(void **state)
{
    (void)state;
    static const char *const keys[] = {"n0"};
    ddp_error_t e = {0};
    struct handshake m = {.fd = -1};
    struct world *w = world_from_keys(0, 1, keys, keys);
    struct shm s = shm_of(w, 0);
    s.local_size = 1;
    assert_int_equal(shm_offer(&s, &m, NULL, &e), 0);
    assert_int_equal(ftruncate(s.memfd, 0), -1);
    shm_clear(&s);
    world_destroy(w);
}

static void a_leader_of_another_user_is_none(void **state)
{
    (void)state;
    static const char *const keys[] = {"n0", "n0"};
    char name[SHM_NAME_MAX + 1] = "";
    ddp_error_t e = {0};
    struct handshake m = {.fd = -1};
    struct world *w[] = {world_from_keys(0, 2, keys, keys), world_from_keys(1, 2, keys, keys)};
    struct shm leader = shm_of(w[0], 0), other = shm_of(w[1], 1);
    int status = -1;
    unit_needs(geteuid() == 0, "root, to become another user");
    assert_int_equal(handshake_tokens(&m, &e), 0);
    assert_int_equal(shm_offer(&leader, &m, name, &e), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(setuid(1) < 0 || shm_join(&other, &m, name, deadline_in(5), &e) == 0 ||
              !strstr(e.text, "rank 0 (n0) runs as another user"));
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    close(m.fd);
    shm_clear(&leader);
    for (int k = 0; k < 2; k++)
        world_destroy(w[k]);
}

/* Connected, with a greeting that is right. */
static int greet_leader(const struct world *w, const struct handshake *m, const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path + 1, name, strlen(name));
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(handshake_call(fd, m, w, 0, MEET_SHM, deadline_in(20), NULL), 0);
    return fd;
}

static void a_leader_hears_nobody_of_another_user(void **state)
{
    (void)state;
    static const char *const keys[] = {"n0", "n0"};
    char name[SHM_NAME_MAX + 1] = "", c;
    int stranger, fd = -1;
    ddp_error_t e = {0};
    struct handshake m = {.fd = -1};
    struct world *w[] = {world_from_keys(0, 2, keys, keys), world_from_keys(1, 2, keys, keys)};
    struct shm leader = shm_of(w[0], 0);
    unit_needs(geteuid() == 0, "root, to become another user");
    assert_int_equal(handshake_tokens(&m, &e), 0);
    assert_int_equal(shm_offer(&leader, &m, name, &e), 0);
    unit_as_another_user(stranger = greet_leader(w[1], &m, name));
    int guest = greet_leader(w[1], &m, name);
    assert_int_equal(shm_join(&leader, &m, name, deadline_in(20), &e), 0);
    assert_int_equal(handshake_answered(guest, &m, "rank 0", &fd, deadline_in(20), &e), 0);
    assert_true(fd >= 0);
    assert_true(recv(stranger, &c, 1, 0) <= 0);
    close(fd);
    close(guest);
    close(stranger);
    close(m.fd);
    shm_clear(&leader);
    for (int k = 0; k < 2; k++)
        world_destroy(w[k]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_flood_does_not_keep_ranks_apart),
    cmocka_unit_test(a_leader_that_does_not_listen_ends_at_the_deadline),
    cmocka_unit_test(a_refusal_reaches_every_rank),
    cmocka_unit_test(a_limit_of_threads_is_told_to_all),
    cmocka_unit_test(a_limit_of_address_space_is_told_to_all),
    cmocka_unit_test(a_limit_of_descriptors_is_told_to_all),
    cmocka_unit_test(a_death_after_the_exchange_ends_at_the_deadline),
    cmocka_unit_test(a_limit_of_size_is_an_error),
    cmocka_unit_test(a_limit_of_memory_is_an_error),
    cmocka_unit_test(nobody_makes_the_memory_smaller),
    cmocka_unit_test(a_leader_of_another_user_is_none),
    cmocka_unit_test(a_leader_hears_nobody_of_another_user),
};
UNIT_MAIN(tests)
