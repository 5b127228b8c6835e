#include <config.h>

#include "t/lib/threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The sanitizer asks: one race is enough, each costs a second to explain. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "halt_on_error=1";
}

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

bool threads_run(struct job *j, rank_f *f)
{
    pthread_t id[RANKS_MAX];
    struct thread t[RANKS_MAX];
    bool ok = true;
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    j->boot = memboot_create(j->size);
    for (int r = 0; r < j->size; r++) {
        t[r] = (struct thread){j, r, 0, f};
        if (pthread_create(&id[r], NULL, thread_main, &t[r]) != 0)
            abort();
    }
    for (int r = 0; r < j->size; r++) {
        pthread_join(id[r], NULL);
        ok = ok && t[r].code == 0;
    }
    memboot_destroy(j->boot);
    return ok;
}

/* On a busy machine threads may happen to follow each other as if they had been told to. */
enum { TRIES = 5 };

static void (*planted)(int *shared);

static void *run_planted(void *arg)
{
    int *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, *(int *)arg, 0);
    planted(p);
    return NULL;
}

static bool is_caught(void (*race)(int *shared))
{
    enum { SANITIZER_EXIT = 66 };
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t id[2];
        int fd = memfd_create("race", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, 4096) < 0 || !freopen("/dev/null", "w", stderr))
            _exit(1);
        planted = race;
        for (int i = 0; i < 2; i++)
            pthread_create(&id[i], NULL, run_planted, &fd);
        for (int i = 0; i < 2; i++)
            pthread_join(id[i], NULL);
        exit(0);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == SANITIZER_EXIT;
}

bool threads_race_is_caught(void (*race)(int *shared))
{
    bool is = false;
    for (int i = 0; i < TRIES && !is; i++)
        is = is_caught(race);
    return is;
}
