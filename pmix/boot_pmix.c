/* boot_pmix.c - the boot under srun --mpi=pmix. The one file that includes pmix.h; libpmix is opened at run time, so
 * that one build serves machines without it.
 *
 * Through PMIx goes one thing only: where rank 0's boot server is (boot_host.h). All else goes over that server's
 * protocol, because Slurm's own exchange cannot be relied on. Measured with OpenPMIx 4.2.2 under Slurm 22.05.8, by
 * programs of PMIx calls alone: a collecting fence over 4 nodes x 2 ranks hung in about 1 of 20 steps; with
 * SLURM_PMIX_FENCE=tree, or SLURM_PMIX_DIRECT_CONN=false, and nodes of unequal numbers of ranks it lost data in most. A
 * remote rank's value came in 200 of 200, when asked for again as long as it is NOT-FOUND. libddp's own steps on four
 * nodes: 7 of 120 failed with PMIx's fence, 0 of 300 with this exchange.
 *
 * The library's timeout does not hold for a remote rank's value, so the wait for it has a deadline of ours. The answer
 * may come later than that, or never, which is why what it is written to is counted (struct wait) and freed by the last
 * one to use it. Its other calls wait for the step's daemon on this node with no deadline at all, so each runs in a
 * thread that is left behind at ours (struct request, call.h). */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pmix.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "pmix/boot_carried.h"
#include "runtime/base/call.h"
#include "runtime/base/clock.h"
#include "runtime/base/thread.h"

#define KEY "ddp.boot.%d" /* of the first program of a task, of the second, ... */
#define KEY_BYTES 32
#define RETRY_MS 5     /* while rank 0 has not published it */
#define ANSWER_S 3.0   /* an answer that takes longer was lost: ask again */
#define NEXT_S 1.0     /* for the next program's card, while this one's server does not answer */
#define CROWD_S 30.0   /* for this node's daemon, where hundreds of tasks share a CPU with it */
#define PARTING_S 5.0  /* for PMIx_Finalize, whose callers give no deadline */

struct api {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Get_nb) *get_nb;
    __typeof__(PMIx_Error_string) *error_string;
};

struct pmix {
    struct boot_carried carried;
    struct api api;
    pmix_proc_t me;
    int n;                       /* of its key: which program of its task rank 0's is, as far as is known here */
    char card[CARRIED_CARD_MAX]; /* of that one */
};

/* One answer that is waited for. Two hold it: the caller and the library's callback. */
struct wait {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int refs;
    bool is_done;
    pmix_status_t status;
    pmix_proc_t proc; /* what was passed to the library, which may read it until it answers */
    char key[64];
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
    char why[sizeof errp->text] = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL); /* its components look for its symbols */
        if (lib)
            return lib;
        if (i == 0 || access(names[i], F_OK) == 0)
            snprintf(why, sizeof why, "%s", dlerror());
    }
    error_set(errp, DDP_E_BOOT, ENOENT, "libpmix.so.2 cannot be opened on this node: install the Debian package "
              "libpmix2, or say --ddp=on,mpi=pmi2 (%s)", why);
    return NULL;
}

/* Whether this program has no loader: a library that it opens brings a second libc, and ends it by SIGSEGV. */
static bool is_static_program(void)
{
    const ElfW(Phdr) *segment = (const void *)(uintptr_t)getauxval(AT_PHDR);
    for (unsigned long n = segment ? getauxval(AT_PHNUM) : 0; n > 0; n--, segment++)
        if (segment->p_type == PT_INTERP)
            return false;
    return segment != NULL;
}

static int load(struct api *api, ddp_error_t *errp)
{
    const struct {
        const char *name;
        void *at;
    } symbols[] = {
        {"PMIx_Init", &api->init},         {"PMIx_Finalize", &api->finalize}, {"PMIx_Put", &api->put},
        {"PMIx_Commit", &api->commit},     {"PMIx_Get_nb", &api->get_nb},     {"PMIx_Error_string", &api->error_string},
    };
    if (is_static_program())
        return error_set(errp, DDP_E_BOOT, ENOTSUP, "this program was linked with -static, and libpmix cannot be "
                         "opened in such a one: link it without, as libddp.a allows, or start it with "
                         "\"srun --ddp=on,mpi=pmi2\"");
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

/* ---- calls that take no deadline ---- */

/* One such call: all that it reads and writes. */
struct request {
    struct api api;
    pmix_status_t status;
    pmix_proc_t me;      /* from PMIx_Init */
    char key[KEY_BYTES];
    char card[CARRIED_CARD_MAX]; /* rank 0's */
};

static void call_init(void *arg)
{
    struct request *r = arg;
    r->status = r->api.init(&r->me, NULL, 0);
}

static void call_publish(void *arg)
{
    struct request *r = arg;
    pmix_value_t v = {.type = PMIX_BYTE_OBJECT};
    v.data.bo.bytes = r->card;
    v.data.bo.size = strlen(r->card) + 1;
    r->status = r->api.put(PMIX_GLOBAL, r->key, &v);
    if (r->status == PMIX_SUCCESS)
        r->status = r->api.commit();
}

static void call_finalize(void *arg)
{
    struct request *r = arg;
    r->status = r->api.finalize(NULL, 0);
}

static void forget(void *arg)
{
    (void)arg;
}

/* f on a copy of *r, which *r becomes when it returns. -1: it did not before the deadline, or could not be called. */
static int ask(call_f *f, struct request *r, const char *name, uint64_t deadline, ddp_error_t *errp)
{
    struct request *copy = malloc(sizeof *copy);
    if (!copy)
        return error_errno(errp, "%s", name);
    *copy = *r;
    int rc = call_within(f, forget, copy, deadline, errp);
    if (rc == 1)
        return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT,
                         "%s does not return within the deadline: Slurm's daemon of this step on this node "
                         "(slurmstepd) does not answer; see whether it is stopped, and slurmd's log", name);
    if (rc == 0)
        *r = *copy;
    free(copy);
    return rc;
}

/* ---- waiting for an answer ---- */

static struct wait *wait_create(const char *nspace, pmix_rank_t rank, const char *key)
{
    struct wait *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    thread_cond_init(&w->cond);
    w->refs = 2;
    snprintf(w->proc.nspace, sizeof w->proc.nspace, "%s", nspace);
    w->proc.rank = rank;
    snprintf(w->key, sizeof w->key, "%s", key);
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

/* The answer is in *w: wakes the waiter. In the library's thread. */
static void wait_finish(struct wait *w, pmix_status_t status)
{
    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->is_done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
    wait_drop(w);
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

/* After the library took the request (`status`): waits for its answer until the deadline, and returns it, or
 * PMIX_ERR_TIMEOUT when there was none. The caller still holds w. */
static pmix_status_t wait_for(struct wait *w, pmix_status_t status, uint64_t deadline)
{
    if (status != PMIX_SUCCESS) { /* no callback will come */
        wait_drop(w);
        return status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status;
    }
    pthread_mutex_lock(&w->lock);
    while (!w->is_done && thread_wait_until(&w->cond, &w->lock, deadline) == 0)
        ;
    status = w->is_done ? w->status : PMIX_ERR_TIMEOUT;
    pthread_mutex_unlock(&w->lock);
    return status;
}

static const pmix_info_t here = { /* as far as this node's daemon has it, which waits for nobody */
    .key = PMIX_IMMEDIATE, .value = {.type = PMIX_BOOL, .data = {.flag = true}}};
static const pmix_info_t fresh = { /* as the rank has it now, past what daemons remember */
    .key = PMIX_GET_REFRESH_CACHE, .value = {.type = PMIX_BOOL, .data = {.flag = true}}};

/* how: here, fresh or NULL. */
static pmix_status_t get(struct pmix *p, pmix_rank_t rank, const char *key, const pmix_info_t *how, uint64_t deadline,
                         struct wait **ret)
{
    struct wait *w = wait_create(p->me.nspace, rank, key);
    if (!w)
        return PMIX_ERR_NOMEM;
    pmix_status_t status = p->api.get_nb(&w->proc, w->key, how, how != NULL, get_done, w);
    status = wait_for(w, status, deadline);
    if (status == PMIX_SUCCESS)
        *ret = w;
    else
        wait_drop(w);
    return status;
}

/* ---- finding rank 0's server ---- */

static uint64_t sooner(double s, uint64_t deadline)
{
    uint64_t at = deadline_in(s);
    return at < deadline ? at : deadline;
}

/* A number that Slurm's daemon has for all ranks alike. */
static pmix_status_t get_number(struct pmix *p, const char *key, uint64_t deadline, uint32_t *ret)
{
    struct wait *w;
    pmix_status_t status = get(p, PMIX_RANK_WILDCARD, key, NULL, deadline, &w);
    if (status != PMIX_SUCCESS)
        return status;
    *ret = w->type == PMIX_UINT32 ? w->number : 0;
    wait_drop(w);
    return PMIX_SUCCESS;
}

static int find_size(struct pmix *p, uint64_t deadline, int *ret, ddp_error_t *errp)
{
    uint32_t n;
    pmix_status_t status = get_number(p, PMIX_JOB_SIZE, deadline, &n);
    if (status != PMIX_SUCCESS)
        return fail(p, status, errp, "does not tell the number of ranks");
    if (n <= p->me.rank || n > INT32_MAX)
        return error_set(errp, DDP_E_BOOT, EPROTO, "PMIx says that rank %u is one of %u", p->me.rank, n);
    *ret = (int)n;
    return 0;
}

/* Whether all ranks are on this node; false where that is not told. */
static bool is_one_node(struct pmix *p, int size, uint64_t deadline)
{
    uint32_t n;
    pmix_status_t status = get_number(p, PMIX_LOCAL_SIZE, sooner(ANSWER_S, deadline), &n);
    return status == PMIX_SUCCESS && n == (uint32_t)size;
}

/* Asks once for the card of rank 0's program p->n. */
static pmix_status_t get_card(struct pmix *p, const pmix_info_t *how, char card[CARRIED_CARD_MAX], uint64_t deadline)
{
    struct wait *w;
    char key[KEY_BYTES];
    snprintf(key, sizeof key, KEY, p->n);
    pmix_status_t status = get(p, 0, key, how, deadline, &w);
    if (status != PMIX_SUCCESS)
        return status;
    bool is_text = w->type == PMIX_BYTE_OBJECT && w->data;
    if (is_text)
        snprintf(card, CARRIED_CARD_MAX, "%.*s", (int)w->n, (const char *)w->data);
    wait_drop(w);
    return is_text ? PMIX_SUCCESS : PMIX_ERR_TYPE_MISMATCH;
}

/* p->card, under the first key that none of its programs before has. */
static int publish(struct pmix *p, uint64_t deadline, ddp_error_t *errp)
{
    struct request r = {.api = p->api};
    char before[CARRIED_CARD_MAX];
    for (p->n = 1; get_card(p, &here, before, sooner(CROWD_S, deadline)) == PMIX_SUCCESS; p->n++)
        ;
    snprintf(r.key, sizeof r.key, KEY, p->n);
    snprintf(r.card, sizeof r.card, "%s", p->card);
    if (ask(call_publish, &r, "PMIx_Commit", deadline, errp) < 0)
        return -1;
    return r.status == PMIX_SUCCESS ? 0 : fail(p, r.status, errp, "does not take where rank 0's boot server is");
}

/* Where rank 0 is the one to serve. */
static int start_host(struct pmix *p, int size, uint64_t deadline, ddp_error_t *errp)
{
    p->carried.host = boot_host_create(size, is_one_node(p, size, deadline), errp);
    if (!p->carried.host)
        return -1;
    snprintf(p->card, sizeof p->card, "%s", boot_host_card(p->carried.host));
    return publish(p, deadline, errp);
}

/* Where programs run one after the other in the same tasks, rank 0's may be another than this rank knows of, and what
 * daemons were once told they keep. With OpenPMIx 5 they tell anew of new keys alone, where a node's ranks share memory
 * (the default); with 4.2 rank 0 finds no key of its own programs before, and writes the first one again. */
static int get_newer_card(void *ctx, char card[CARRIED_CARD_MAX], uint64_t deadline)
{
    struct pmix *p = ctx;
    bool is_newer = get_card(p, &fresh, card, sooner(NEXT_S, deadline)) == PMIX_SUCCESS && strcmp(card, p->card) != 0;
    p->n += !is_newer;
    if (!is_newer && get_card(p, NULL, card, sooner(NEXT_S, deadline)) != PMIX_SUCCESS) {
        p->n--;
        return -1;
    }
    snprintf(p->card, sizeof p->card, "%s", card);
    return 0;
}

/* The card of rank 0's first program, asked for until it is there. */
static int find_card(struct pmix *p, uint64_t deadline, ddp_error_t *errp)
{
    p->n = 1;
    for (;;) {
        pmix_status_t status = get_card(p, NULL, p->card, sooner(ANSWER_S, deadline));
        if (status == PMIX_SUCCESS)
            return 0;
        if (status == PMIX_ERR_TYPE_MISMATCH)
            return error_set(errp, DDP_E_BOOT, EPROTO, "PMIx get: " KEY " of rank 0 is not text", p->n);
        if (deadline_left_ns(deadline) == 0)
            return error_set(errp, DDP_E_TIMEOUT, ETIMEDOUT, "boot: deadline passed while waiting for rank 0 to say "
                             "through PMIx where it is (%s)", p->api.error_string(status));
        poll(NULL, 0, RETRY_MS);
    }
}

static int join(struct pmix *p, int size, uint64_t deadline, ddp_error_t *errp)
{
    if ((p->me.rank == 0 ? start_host(p, size, deadline, errp) : find_card(p, deadline, errp)) < 0)
        return -1;
    return carried_join(&p->carried, (int)p->me.rank, size, p->card, get_newer_card, p, deadline, errp);
}

/* ---- the backend ---- */

static int leave(struct pmix *p, uint64_t deadline, ddp_error_t *errp)
{
    struct request r = {.api = p->api};
    carried_close(&p->carried, deadline);
    free(p);
    return ask(call_finalize, &r, "PMIx_Finalize", deadline_in(PARTING_S), errp);
}

static int pmix_close(boot_t *b, ddp_error_t *errp)
{
    return leave(b->state, deadline_in(CARRIED_LEAVE_S), errp);
}

static const struct boot_ops pmix_ops = {carried_put, carried_fence, carried_get, pmix_close};

static int connect_to_server(struct pmix *p, uint64_t deadline, ddp_error_t *errp)
{
    struct request r = {.api = p->api};
    if (ask(call_init, &r, "PMIx_Init", deadline, errp) < 0)
        return -1;
    p->me = r.me;
    if (r.status == PMIX_SUCCESS)
        return 0;
    return error_set(errp, DDP_E_BOOT, r.status, "PMIx finds no server here (%s): start the program with "
                     "\"srun --ddp=on\", or with \"srun --mpi=pmix\"; in a container that hides Slurm's files, with "
                     "\"srun --ddp=on,mpi=pmi2\"", p->api.error_string(r.status));
}

int boot_pmix_open(boot_t *b, uint64_t deadline, ddp_error_t *errp)
{
    struct pmix *p = calloc(1, sizeof *p);
    if (!p)
        return error_errno(errp, "boot");
    if (load(&p->api, errp) < 0 || connect_to_server(p, deadline, errp) < 0) {
        free(p);
        return -1;
    }
    if (find_size(p, deadline, &b->size, errp) < 0 || join(p, b->size, deadline, errp) < 0) {
        leave(p, 0, NULL);
        return -1;
    }
    b->ops = &pmix_ops;
    b->rank = (int)p->me.rank;
    b->state = p;
    return 0;
}
