#include "t/lib/ranks.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/comm/tcp_impl.h"
#include "runtime/comm/wireup.h"

enum { WIRE_UP_S = 30 };

struct world *job_world(const struct job *j, int rank)
{
    char key[RANKS_MAX][8];
    const char *keys[RANKS_MAX];
    for (int r = 0; r < j->size; r++) {
        snprintf(key[r], sizeof key[r], "n%d", j->node_of[r]);
        keys[r] = key[r];
    }
    return world_from_keys(rank, j->size, keys, keys);
}

static void set_timeout(comm_t *c, double timeout_s)
{
    c->shm.timeout_s = timeout_s;
    if (c->tcp)
        c->tcp->timeout_s = timeout_s;
}

comm_t *job_comm(struct job *j, int rank, struct world **ret_w, ddp_error_t *errp)
{
    struct comm_config cfg = {.timeout_s = j->timeout_s > WIRE_UP_S ? j->timeout_s : WIRE_UP_S,
                              .progress = j->progress, .timeout_name = "DDP_TIMEOUT"};
    boot_t *b = memboot_open(j->boot, rank);
    *ret_w = job_world(j, rank);
    comm_t *c = comm_create(&cfg, *ret_w, b, errp);
    boot_leave(b, NULL);
    if (c && j->timeout_s > 0)
        set_timeout(c, j->timeout_s);
    return c;
}

void job_start(struct job *j, rank_f *f, pid_t *pids)
{
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    j->boot = memboot_create(j->size);
    j->shared = mmap(NULL, ranks_shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (j->shared == MAP_FAILED)
        abort();
    fflush(stdout);
    fflush(stderr);
    for (int r = 0; r < j->size; r++) {
        pids[r] = fork();
        if (pids[r] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int code = f(j, r);
        fflush(stderr);
        _exit(code);
    }
}

void job_wait(const struct job *j, const pid_t *pids, double seconds, int *codes)
{
    uint64_t deadline = deadline_in(seconds);
    for (int r = 0; r < j->size; r++) {
        int status, late = 0;
        while (waitpid(pids[r], &status, WNOHANG) == 0) {
            if (deadline_left_ns(deadline) == 0) {
                late = 1;
                kill(pids[r], SIGKILL);
                waitpid(pids[r], &status, 0);
                break;
            }
            poll(NULL, 0, 2); /* between looks at the child */
        }
        codes[r] = late ? 999 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
}

void job_end(struct job *j)
{
    munmap(j->shared, ranks_shared_bytes);
    memboot_destroy(j->boot);
}

bool job_run(struct job *j, rank_f *f)
{
    pid_t pids[RANKS_MAX];
    int codes[RANKS_MAX];
    bool ok = true;
    job_start(j, f, pids);
    job_wait(j, pids, 60, codes);
    job_end(j);
    for (int r = 0; r < j->size; r++) {
        ok = ok && codes[r] == 0;
        if (codes[r] != 0)
            fprintf(stderr, "# rank %d of %d ended with %d\n", r, j->size, codes[r]);
    }
    return ok;
}

static int with_comm(struct job *j, int rank)
{
    struct world *w;
    ddp_error_t e = {0};
    comm_t *c = job_comm(j, rank, &w, &e);
    CHECK(c, "%s", e.text);
    j->world = w;
    int rc = j->with_comm(j, rank, c);
    comm_destroy(c);
    world_destroy(w);
    return rc;
}

bool job_run_comm(struct job *j, comm_rank_f *f)
{
    j->with_comm = f;
    return job_run(j, with_comm);
}

int job_alltoall(const struct job *j, comm_t *c, const char *in, size_t n, char *out, ddp_error_t *errp)
{
    const void *from[RANKS_MAX];
    void *to[RANKS_MAX];
    size_t n_bytes[RANKS_MAX];
    for (int r = 0; r < j->size; r++) {
        from[r] = in;
        to[r] = out + (size_t)r * n;
        n_bytes[r] = n;
    }
    return comm_alltoall(c, &(struct comm_parts){from, n_bytes, to, n_bytes}, errp);
}
