/* boot.c - which backend serves this process, and the checks that all of them share. */
#include "pmix/boot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/boot_impl.h"
#include "runtime/base/door.h"
#include "runtime/base/namespace.h"
#include "runtime/base/num.h"

typedef int open_f(boot_t *b, uint64_t deadline, ddp_error_t *errp);

static const char cure[] = "start it with \"srun --ddp=on\", or with \"srun --mpi=pmix\" or \"--mpi=pmi2\"";

/* A variable that is set and not empty, or NULL. */
static const char *env(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* 0, or -1 where Slurm speaks of several tasks: as a single process each of them would train a model of its own. Either
 * variable may be left of what this was started in: the step's in a job that sbatch was called for in a step, the job's
 * under srun --preserve-env. */
static int check_alone(ddp_error_t *errp)
{
    static const char *const names[] = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = env(names[i]);
        int n = 0;
        if (text && (num_int(text, 1, 1 << 30, &n) < 0 || n > 1))
            return error_set(errp, DDP_E_BOOT, ENOTCONN,
                             "%s=%.32s, but this process was started without PMIx or PMI, so the tasks cannot find "
                             "each other: %s", names[i], text, !env("DDP_SET") ? cure : "leave out mpi=none (of --ddp, "
                             "DDP_MPI or the site file) and --mpi=none, or see what ddp: says above");
    }
    return 0;
}

/* The backend that the environment asks for, or NULL. */
static open_f *choose(ddp_error_t *errp)
{
    const char *name = env("DDP_BOOT");
    if (name && !strcmp(name, "pmix"))
        return boot_pmix_open;
    if (name && !strcmp(name, "pmi"))
        return boot_pmi_open;
    if (name && !strcmp(name, "guard"))
        return boot_guard_open;
    if (name && !strcmp(name, "local"))
        return boot_local_open;
    if (name && !strcmp(name, "single"))
        return boot_single_open;
    if (name && strcmp(name, "auto") != 0) {
        error_set(errp, DDP_E_USAGE, EINVAL, "DDP_BOOT=%.64s is not allowed: use "
                  "DDP_BOOT=auto|guard|pmix|pmi|local|single", name);
        return NULL;
    }
    if (env("DDP_BOOT_ADDR"))
        return boot_local_open;
    if (env(DOOR_VARIABLE))
        return boot_guard_open;
    if (env("PMIX_NAMESPACE") && env("PMIX_RANK"))
        return boot_pmix_open;
    if (env("PMI_FD") && env("PMI_RANK") && env("PMI_SIZE"))
        return boot_pmi_open;
    return check_alone(errp) < 0 ? NULL : boot_single_open;
}

static int refuse_step(ddp_error_t *errp, const char *what)
{
    return error_set(errp, DDP_E_BOOT, EPROTO, "%s: these PMIX_* variables are those of another step, in which this "
                     "one was started: %s", what, cure);
}

/* 1: PMIx is Slurm's, of the step that Slurm says this is; 0: there is nothing to compare; -1: it is of another. */
static int check_step(ddp_error_t *errp)
{
    const char *nspace = env("PMIX_NAMESPACE"), *job = env("SLURM_JOB_ID"), *step = env("SLURM_STEP_ID");
    char want[64], what[200];
    if (!nspace || !namespace_is_slurms(nspace) || !job || !step)
        return 0;
    snprintf(want, sizeof want, NAMESPACE_SLURM "%.20s.%.20s", job, step);
    if (!strcmp(nspace, want))
        return 1;
    snprintf(what, sizeof what, "PMIX_NAMESPACE=%.60s, but Slurm's variables name job %.20s, step %.20s", nspace, job,
             step);
    return refuse_step(errp, what);
}

/* PMIx counts as many ranks as Slurm: as the step, since srun --preserve-env leaves the job's variable as it is. */
static int check_size(int size, ddp_error_t *errp)
{
    char what[80];
    const char *name = env("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    int n;
    if (num_int(env(name), 1, 1 << 30, &n) < 0 || n == size)
        return 0;
    snprintf(what, sizeof what, "PMIx counts %d ranks, but %s=%d", size, name, n);
    return refuse_step(errp, what);
}

/* The backend's step is this one: else some of its tasks would be ranks of another job, or each a job of its own. */
static int open_checked(open_f *open, boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    int is_slurms = open == boot_pmix_open ? check_step(errp) : 0;
    if (is_slurms < 0 || open(b, deadline, errp) < 0)
        return -1;
    if (!is_slurms || check_size(b->size, errp) == 0)
        return 0;
    b->ops->close(b, NULL);
    return -1;
}

boot_t *boot_open(uint64_t deadline, ddp_error_t *errp)
{
    open_f *open = choose(errp);
    if (!open)
        return NULL;
    boot_t *b = calloc(1, sizeof *b);
    if (!b) {
        error_errno(errp, "boot");
        return NULL;
    }
    if (open_checked(open, b, deadline, errp) < 0) {
        free(b);
        return NULL;
    }
    return b;
}

int boot_rank(const boot_t *b)
{
    return b->rank;
}

int boot_size(const boot_t *b)
{
    return b->size;
}

static int check_key(const char *key, ddp_error_t *errp)
{
    size_t n = strlen(key);
    if (n == 0 || n > BOOT_KEY_MAX)
        return error_set(errp, DDP_E_USAGE, EINVAL, "boot: the key \"%.32s\" has %zu bytes, allowed are 1..%d", key, n,
                         BOOT_KEY_MAX);
    return 0;
}

int boot_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    if (check_key(key, errp) < 0)
        return -1;
    if (n > BOOT_VALUE_MAX)
        return error_set(errp, DDP_E_USAGE, EMSGSIZE, "boot: the value of %s has %zu bytes, at most %d are allowed",
                         key, n, BOOT_VALUE_MAX);
    return b->ops->put(b, key, data, n, errp);
}

int boot_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    return b->ops->fence(b, deadline, errp);
}

int boot_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline, ddp_error_t *errp)
{
    if (check_key(key, errp) < 0)
        return -1;
    if (rank < 0 || rank >= b->size)
        return error_set(errp, DDP_E_USAGE, EINVAL, "boot: rank %d is not one of 0..%d", rank, b->size - 1);
    return b->ops->get(b, rank, key, ret_data, ret_n, deadline, errp);
}

int boot_leave(boot_t *b, ddp_error_t *errp)
{
    int saved = errno;
    int rc = b ? b->ops->close(b, errp) : 0;
    free(b);
    errno = saved;
    return rc;
}
