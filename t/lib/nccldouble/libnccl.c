/* libnccl.c - A TEST DOUBLE of NCCL's API: see double.h. */
#include "t/lib/nccldouble/double.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static atomic_int n_pending;
static struct { /* of the one thread that makes operations */
    int depth;
    ncclComm_t comm;
    struct op *first, **end;
    ncclResult_t error;
} grouping;

/* For tests: groups that this process has called and that are not done. */
int nccldouble_pending(void);
int nccldouble_pending(void)
{
    return atomic_load(&n_pending);
}

/* ---- the worker ---- */

static void group_free(struct group *g)
{
    for (struct op *o = g->ops, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    free(g);
    atomic_fetch_sub(&n_pending, 1);
}

static void *work(void *arg)
{
    ncclComm_t c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        struct group *g = c->first;
        if (!g) {
            pthread_cond_wait(&c->turn, &c->lock);
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        move_group(c, g->ops);
        pthread_mutex_lock(&c->lock);
        if (atomic_load(&c->is_aborted))
            break;
        c->first = g->next;
        group_free(g);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

void comm_enqueue(ncclComm_t c, struct op *ops)
{
    struct group *g = calloc(1, sizeof *g), **at = &c->first;
    g->ops = ops;
    atomic_fetch_add(&n_pending, 1);
    pthread_mutex_lock(&c->lock);
    while (*at)
        at = &(*at)->next;
    *at = g;
    pthread_cond_signal(&c->turn);
    pthread_mutex_unlock(&c->lock);
}

static ncclResult_t comm_free(ncclComm_t c)
{
    atomic_store(&c->is_aborted, true);
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_signal(&c->turn);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->worker, NULL);
    for (struct group *g = c->first, *next; g; g = next) {
        next = g->next;
        group_free(g);
    }
    memory_forget(c);
    mapped_close(c->mapped);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->turn);
    free(c);
    return ncclSuccess;
}

ncclResult_t comm_answer(ncclComm_t c, struct answer a)
{
    if (a.what == DO_ERROR)
        return a.n;
    atomic_store(&c->is_ready, false);
    c->polls = a.what == DO_PROGRESS ? a.n : 1;
    if (a.what == DO_ASYNC)
        atomic_store(&c->async_code, a.n);
    c->is_hanging = c->is_hanging || a.what == DO_HANG;
    return ncclInProgress;
}

ncclResult_t comm_check_ready(ncclComm_t c)
{
    if (atomic_load(&c->is_ready) && !c->is_finalized)
        return ncclSuccess;
    return script_say(ncclInvalidArgument, "a call on a communicator whose last call is not known to be over");
}

/* ---- the API ---- */

ncclResult_t ncclGetVersion(int *v)
{
    *v = script_version();
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code)
{
    static const char *const texts[] = {"no error",         "unhandled cuda error", "unhandled system error",
                                        "internal error",   "invalid argument",     "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (size_t)code < sizeof texts / sizeof *texts ? texts[code] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t c)
{
    (void)c;
    return script_text();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    struct answer a = script_call("id");
    unsigned char token[8];
    script_log("id");
    if (a.what == DO_ERROR)
        return a.n;
    memset(id, 0, sizeof *id);
    if (getrandom(token, sizeof token, 0) != sizeof token)
        return ncclSystemError;
    int n = snprintf(id->internal, sizeof id->internal, "nccldouble.");
    for (size_t i = 0; i < sizeof token; i++)
        n += snprintf(id->internal + n, sizeof id->internal - (size_t)n, "%02x", token[i]);
    return mapped_create(id->internal) ? ncclSuccess : script_say(ncclSystemError, "the double's file cannot be made");
}

static ncclResult_t init(ncclComm_t *ret, int size, int rank, const ncclUniqueId *id, struct answer a)
{
    *ret = NULL;
    if (a.what == DO_ERROR)
        return a.n;
    ncclComm_t c = calloc(1, sizeof *c);
    c->rank = rank;
    c->size = size;
    memcpy(c->name, id->internal, sizeof c->name);
    c->name[sizeof c->name - 1] = 0;
    c->mapped = mapped_open(c->name, rank, size, &c->is_aborted);
    if (!c->mapped) {
        free(c);
        return script_say(ncclSystemError, "no such id");
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->turn, NULL);
    pthread_create(&c->worker, NULL, work, c);
    *ret = c;
    return comm_answer(c, a);
}

static void log_environment(void)
{
    static const char *const names[] = {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_HOSTID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            script_log("%s=%s", names[i], getenv(names[i]));
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    log_environment();
    script_log("init of %d, blocking %d", nranks, config->blocking);
    return init(comm, nranks, rank, &id, script_call("init"));
}

/* Blocking: returns when all ranks are there. */
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    ncclResult_t state = init(comm, nranks, rank, &id, script_call("init"));
    script_log("init of %d, blocking 1", nranks);
    while (state == ncclInProgress && ncclCommGetAsyncError(*comm, &state) == ncclSuccess && state == ncclInProgress)
        poll(NULL, 0, 1);
    return state;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int n_ids, ncclUniqueId *ids,
                                      ncclConfig_t *config)
{
    log_environment();
    script_log("init of %d, blocking %d, %d ids", nranks, config->blocking, n_ids);
    for (int i = 0; i < n_ids; i++)
        if (strncmp(ids[i].internal, "nccldouble.", 11) != 0 || (i && !memcmp(&ids[i], &ids[i - 1], sizeof *ids)))
            return script_say(ncclInvalidArgument, "an id is none, or there twice");
    return init(comm, nranks, rank, ids, script_call("init"));
}
#endif

static bool has_work(ncclComm_t c)
{
    pthread_mutex_lock(&c->lock);
    bool has = c->first != NULL;
    pthread_mutex_unlock(&c->lock);
    return has;
}

/* Streams are not told apart here; to whoever runs what comes behind on a stream at once, work is on the stream when it
 * is done. */
static bool waits_for_work(ncclComm_t c)
{
    return (c->is_finalized || getenv("NCCLDOUBLE_IN_ORDER")) && has_work(c);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    *state = ncclInProgress;
    if (c->is_hanging)
        return ncclSuccess;
    if (c->polls > 0)
        c->polls--;
    else if (atomic_load(&c->async_code) != 0)
        *state = (ncclResult_t)atomic_load(&c->async_code);
    else if (mapped_all_joined(c->mapped) && !atomic_load(&c->is_windowing) && !waits_for_work(c))
        *state = ncclSuccess;
    if (*state == ncclSuccess)
        atomic_store(&c->is_ready, true);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    script_log("finalize");
    if (comm_check_ready(c) != ncclSuccess)
        return ncclInvalidArgument;
    if (c->n_registered > 0)
        return script_say(ncclInvalidUsage, "finalized while memory is registered");
    ncclResult_t rc = comm_answer(c, script_call("finalize"));
    c->is_finalized = rc == ncclInProgress;
    return rc;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    struct answer a = script_call("destroy");
    script_log("destroy");
    if (!c->is_finalized || !atomic_load(&c->is_ready))
        return script_say(ncclInvalidUsage, "destroyed before it was finalized");
    return a.what == DO_ERROR ? (ncclResult_t)a.n : comm_free(c);
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    struct answer a = script_call("abort");
    script_log("abort");
    return a.what == DO_ERROR ? (ncclResult_t)a.n : comm_free(c);
}

/* ---- operations ---- */

ncclResult_t ncclGroupStart(void); /* nccl.h has them as C++ wants them */
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    if (grouping.depth++ == 0) {
        grouping.first = NULL;
        grouping.end = &grouping.first;
        grouping.comm = NULL;
        grouping.error = ncclSuccess;
    }
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (grouping.depth == 0)
        return script_say(ncclInvalidUsage, "a group ends that has not begun");
    if (--grouping.depth > 0 || !grouping.comm)
        return grouping.error;
    if (grouping.error != ncclSuccess) {
        for (struct op *o = grouping.first, *next; o; o = next) {
            next = o->next;
            free(o);
        }
        return grouping.error;
    }
    ncclResult_t rc = comm_answer(grouping.comm, script_call("group"));
    if (rc == ncclInProgress)
        comm_enqueue(grouping.comm, grouping.first);
    return rc;
}

static ncclResult_t operation(ncclComm_t c, const char *call, const struct op *o)
{
    struct answer a = script_call(call);
    script_log("%s %zu %s%s", call, o->n, type_name(o->type), grouping.depth ? " in a group" : "");
    ncclResult_t rc = a.what == DO_ERROR ? (ncclResult_t)a.n : comm_check_ready(c);
    if (rc != ncclSuccess) {
        grouping.error = grouping.depth ? rc : grouping.error;
        return rc;
    }
    struct op *copy = malloc(sizeof *copy);
    *copy = *o;
    if (a.what == DO_ASYNC)
        atomic_store(&c->async_code, a.n);
    if (a.what == DO_HANG)
        c->is_hanging = true;
    if (grouping.depth == 0) {
        comm_enqueue(c, copy);
        return comm_answer(c, a);
    }
    grouping.comm = c;
    *grouping.end = copy;
    grouping.end = &copy->next;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t stream)
{
    (void)stream;
    if (op != ncclSum)
        return script_say(ncclInvalidArgument, "the double knows ncclSum alone");
    return operation(c, "allreduce", &(struct op){.kind = ALLREDUCE, .in = in, .out = out, .n = n, .type = t});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                               cudaStream_t stream)
{
    (void)stream;
    if (op != ncclSum)
        return script_say(ncclInvalidArgument, "the double knows ncclSum alone");
    return operation(c, "reducescatter", &(struct op){.kind = REDUCE_SCATTER, .in = in, .out = out, .n = n, .type = t});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t stream)
{
    (void)stream;
    return operation(c, "allgather", &(struct op){.kind = ALLGATHER, .in = in, .out = out, .n = n, .type = t});
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t t, int root, ncclComm_t c,
                           cudaStream_t stream)
{
    (void)stream;
    return operation(c, "broadcast",
                     &(struct op){.kind = BROADCAST, .in = in, .out = out, .n = n, .type = t, .peer = root});
}

ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t stream)
{
    (void)stream;
    return operation(c, "send", &(struct op){.kind = SEND, .in = in, .n = n, .type = t, .peer = peer});
}

ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t stream)
{
    (void)stream;
    return operation(c, "recv", &(struct op){.kind = RECV, .out = out, .n = n, .type = t, .peer = peer});
}
