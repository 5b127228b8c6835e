/* boot_pmix.c - the boot under srun. The one file that includes pmix.h; libpmix is opened at run time, so that one build
 * serves machines without it.
 *
 * What its use rests on (OpenPMIx 4.2 under Slurm 22.05): a fence is a barrier only if it collects data, and only over
 * all ranks; the library's own timeout does not hold for a remote rank's value. So every fence collects over the
 * wildcard, and every wait has a deadline of ours: the library's answer may come later than that, or never, which is why
 * what it writes to is counted (struct wait) and freed by the last one to use it. */
#include <dlfcn.h>
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pmix/boot_impl.h"
#include "runtime/base/clock.h"

#define KEY_PREFIX "ddp." /* PMIx keeps keys that begin with "pmix" for itself */

struct api {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence_nb) *fence_nb;
    __typeof__(PMIx_Get_nb) *get_nb;
    __typeof__(PMIx_Abort) *abort;
    __typeof__(PMIx_Error_string) *error_string;
};

struct pmix {
    struct api api;
    pmix_proc_t me;
};

/* One answer that is waited for. Two hold it: the caller and the library's callback. */
struct wait {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int refs;
    bool is_done;
    pmix_status_t status;
    pmix_proc_t proc; /* what was passed to the library, which may read it until it answers */
    pmix_info_t info[2];
    char key[sizeof KEY_PREFIX + BOOT_KEY_MAX];
    pmix_data_type_t type;
    uint32_t number; /* of type PMIX_UINT32 */
    void *data;      /* of type PMIX_BYTE_OBJECT */
    size_t n;
};

/* ---- the library ---- */

static void *open_library(ddp_error_t *errp)
{
    /* Debian keeps it in a folder of its own, which a container may have without the link beside it. */
    static const char *const names[] = {
        "libpmix.so.2",
        "/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2",
        "/usr/lib/aarch64-linux-gnu/pmix2/lib/libpmix.so.2",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL); /* its components look for its symbols */
        if (lib)
            return lib;
    }
    error_set(errp, DDP_E_BOOT, ENOENT, "libpmix.so.2 cannot be opened on this node: install the Debian package libpmix2");
    return NULL;
}

static int load(struct api *api, ddp_error_t *errp)
{
    const struct {
        const char *name;
        void *at;
    } symbols[] = {
        {"PMIx_Init", &api->init},         {"PMIx_Finalize", &api->finalize}, {"PMIx_Put", &api->put},
        {"PMIx_Commit", &api->commit},     {"PMIx_Fence_nb", &api->fence_nb}, {"PMIx_Get_nb", &api->get_nb},
        {"PMIx_Abort", &api->abort},       {"PMIx_Error_string", &api->error_string},
    };
    void *lib = open_library(errp); /* stays open: the library has threads */
    if (!lib)
        return -1;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(lib, symbols[i].name);
        if (!symbol)
            return error_set(errp, DDP_E_BOOT, ENOSYS, "libpmix.so.2 lacks %s: install the Debian package libpmix2, "
                             "version 4 or newer", symbols[i].name);
        memcpy(symbols[i].at, &symbol, sizeof symbol);
    }
    return 0;
}

static int fail(const struct pmix *p, pmix_status_t status, ddp_error_t *errp, const char *what)
{
    return error_set(errp, status == PMIX_ERR_TIMEOUT ? DDP_E_TIMEOUT : DDP_E_BOOT, status, "PMIx %s: %s", what,
                     p->api.error_string(status));
}

/* ---- waiting ---- */

static struct wait *wait_create(const char *nspace, pmix_rank_t rank, uint64_t deadline, ddp_error_t *errp)
{
    struct wait *w = calloc(1, sizeof *w);
    pthread_condattr_t attr;
    if (!w) {
        error_errno(errp, "boot");
        return NULL;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->cond, &attr);
    pthread_condattr_destroy(&attr);
    w->refs = 2;
    snprintf(w->proc.nspace, sizeof w->proc.nspace, "%s", nspace);
    w->proc.rank = rank;
    snprintf(w->info[0].key, sizeof w->info[0].key, "%s", PMIX_TIMEOUT);
    w->info[0].value.type = PMIX_INT;
    w->info[0].value.data.integer = 1 + deadline_left_ms(deadline) / 1000;
    snprintf(w->info[1].key, sizeof w->info[1].key, "%s", PMIX_COLLECT_DATA);
    w->info[1].value.type = PMIX_BOOL;
    w->info[1].value.data.flag = true;
    return w;
}

static void wait_drop(struct wait *w)
{
    pthread_mutex_lock(&w->lock);
    int left = --w->refs;
    pthread_mutex_unlock(&w->lock);
    if (left)
        return;
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->lock);
    free(w->data);
    free(w);
}

/* The answer is in *w, but for what its caller adds: wakes the waiter. In the library's thread. */
static void wait_finish(struct wait *w, pmix_status_t status)
{
    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->is_done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
    wait_drop(w);
}

static void fence_done(pmix_status_t status, void *arg)
{
    wait_finish(arg, status);
}

static void get_done(pmix_status_t status, pmix_value_t *v, void *arg)
{
    struct wait *w = arg;
    if (status == PMIX_SUCCESS && v) {
        w->type = v->type;
        if (v->type == PMIX_UINT32)
            w->number = v->data.uint32;
        if (v->type == PMIX_BYTE_OBJECT && (w->data = malloc(v->data.bo.size + 1))) {
            w->n = v->data.bo.size;
            if (w->n)
                memcpy(w->data, v->data.bo.bytes, w->n);
        }
    }
    wait_finish(w, status);
}

/* After the library took the request (`status`): waits for its answer until the deadline, and returns it; PMIX_ERR_TIMEOUT
 * when there was none. The caller still holds w. */
static pmix_status_t wait_for(struct wait *w, pmix_status_t status, uint64_t deadline)
{
    struct timespec until = {.tv_sec = (time_t)(deadline / NS_PER_S), .tv_nsec = (long)(deadline % NS_PER_S)};
    if (status != PMIX_SUCCESS) { /* no callback will come */
        wait_drop(w);
        return status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status;
    }
    pthread_mutex_lock(&w->lock);
    while (!w->is_done && pthread_cond_timedwait(&w->cond, &w->lock, &until) == 0)
        ;
    status = w->is_done ? w->status : PMIX_ERR_TIMEOUT;
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* ---- the backend ---- */

static int pmix_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp)
{
    struct pmix *p = b->state;
    char full[sizeof KEY_PREFIX + BOOT_KEY_MAX];
    char *copy = malloc(n + 1); /* the library takes no const */
    if (!copy)
        return error_errno(errp, "boot: put %s", key);
    if (n)
        memcpy(copy, data, n);
    pmix_value_t v = {.type = PMIX_BYTE_OBJECT};
    v.data.bo.bytes = copy;
    v.data.bo.size = n;
    snprintf(full, sizeof full, KEY_PREFIX "%s", key);
    pmix_status_t status = p->api.put(PMIX_GLOBAL, full, &v);
    free(copy);
    return status == PMIX_SUCCESS ? 0 : fail(p, status, errp, "put");
}

static int pmix_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    struct pmix *p = b->state;
    pmix_status_t status = p->api.commit();
    if (status != PMIX_SUCCESS)
        return fail(p, status, errp, "commit");
    struct wait *w = wait_create(p->me.nspace, PMIX_RANK_WILDCARD, deadline, errp);
    if (!w)
        return -1;
    status = wait_for(w, p->api.fence_nb(&w->proc, 1, w->info, 2, fence_done, w), deadline);
    wait_drop(w);
    if (status == PMIX_ERR_TIMEOUT)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "boot: deadline passed while waiting for all %d ranks to reach "
                         "the PMIx fence", b->size);
    return status == PMIX_SUCCESS ? 0 : fail(p, status, errp, "fence");
}

/* The value under a key of PMIx's own naming. The caller drops *ret. */
static pmix_status_t get(struct pmix *p, pmix_rank_t rank, const char *key, uint64_t deadline, struct wait **ret,
                         ddp_error_t *errp)
{
    struct wait *w = wait_create(p->me.nspace, rank, deadline, errp);
    if (!w)
        return PMIX_ERR_NOMEM;
    snprintf(w->key, sizeof w->key, "%s", key);
    pmix_status_t status = wait_for(w, p->api.get_nb(&w->proc, w->key, w->info, 1, get_done, w), deadline);
    if (status != PMIX_SUCCESS) {
        wait_drop(w);
        fail(p, status, errp, "get");
        return status;
    }
    *ret = w;
    return status;
}

static int pmix_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
                    ddp_error_t *errp)
{
    struct wait *w;
    char full[sizeof KEY_PREFIX + BOOT_KEY_MAX];
    snprintf(full, sizeof full, KEY_PREFIX "%s", key);
    pmix_status_t status = get(b->state, (pmix_rank_t)rank, full, deadline, &w, errp);
    if (status == PMIX_ERR_NOT_FOUND)
        return error_set(errp, DDP_E_BOOT, ENOENT, "boot: rank %d has put nothing under %s", rank, key);
    if (status != PMIX_SUCCESS)
        return error_prefix(errp, "%s of rank %d", key, rank);
    int rc = 0;
    if (w->type == PMIX_BYTE_OBJECT && w->data) {
        *ret_data = w->data;
        *ret_n = w->n;
        w->data = NULL;
    } else {
        rc = error_set(errp, DDP_E_BOOT, EPROTO, "PMIx get: %s of rank %d has type %d", key, rank, w->type);
    }
    wait_drop(w);
    return rc;
}

static void pmix_abort(boot_t *b, int code, const char *why)
{
    struct pmix *p = b->state;
    p->api.abort(code, why, NULL, 0);
}

static void pmix_close(boot_t *b)
{
    struct pmix *p = b->state;
    p->api.finalize(NULL, 0);
    free(p);
}

static const struct boot_ops pmix_ops = {"pmix", pmix_put, pmix_fence, pmix_get, pmix_abort, pmix_close};

static int find_size(struct pmix *p, uint64_t deadline, int *ret, ddp_error_t *errp)
{
    struct wait *w;
    if (get(p, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, deadline, &w, errp) != PMIX_SUCCESS)
        return error_prefix(errp, "number of ranks");
    uint32_t n = w->type == PMIX_UINT32 ? w->number : 0;
    wait_drop(w);
    if (n <= p->me.rank || n > INT32_MAX)
        return error_set(errp, DDP_E_BOOT, EPROTO, "PMIx says that rank %u is one of %u", p->me.rank, n);
    *ret = (int)n;
    return 0;
}

/* PMIx_Init talks to the step's own daemon on this node and takes no deadline. */
int boot_pmix_open(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    struct pmix *p = calloc(1, sizeof *p);
    if (!p)
        return error_errno(errp, "boot");
    if (load(&p->api, errp) < 0) {
        free(p);
        return -1;
    }
    pmix_status_t status = p->api.init(&p->me, NULL, 0);
    if (status != PMIX_SUCCESS) {
        error_set(errp, DDP_E_BOOT, status, "PMIx finds no server here (%s): start the program with \"srun --ddp=on\", or "
                  "with \"srun --mpi=pmix\"", p->api.error_string(status));
        free(p);
        return -1;
    }
    if (find_size(p, deadline, &b->size, errp) < 0) {
        p->api.finalize(NULL, 0);
        free(p);
        return -1;
    }
    b->ops = &pmix_ops;
    b->rank = (int)p->me.rank;
    b->state = p;
    return 0;
}
