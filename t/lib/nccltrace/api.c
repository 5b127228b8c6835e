/* api.c - NCCL's functions, as runtime/comm/nccl_lib.c and contrib/bench/barenccl.c open them. See trace.h. */
#include "t/lib/nccltrace/trace.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

ncclResult_t ncclGroupStart(void); /* nccl.h has them as C++ wants them */
ncclResult_t ncclGroupEnd(void);
int nccldouble_pending(void); /* what probes ask the double */

/* ---- every call: begin() says whether it is handed on, end() what is answered ---- */

/* Dies where NCCLTRACE_KILL wants it. */
static void kill_if_wanted(const struct call *k)
{
    static int n;
    char name[32];
    int rank, at;
    const char *wanted = getenv("NCCLTRACE_KILL");
    if (!wanted || sscanf(wanted, "%d %31s %d", &rank, name, &at) != 3 || rank != own_rank())
        return;
    if (strncmp(k->text, name, strlen(name)) != 0 || ++n != at)
        return;
    record_flush();
    raise(SIGKILL);
}

static bool begin(struct call *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool begin(struct call *k, const char *format, ...)
{
    va_list ap;
    memset(k, 0, sizeof *k);
    va_start(ap, format);
    vsnprintf(k->text, sizeof k->text, format, ap);
    va_end(ap);
    kill_if_wanted(k);
    k->at_ms = now_ms();
    return !replay_is_on() || replay_begin(k);
}

static int end(struct call *k, const char *note, ...) __attribute__((format(printf, 2, 3)));
static int end(struct call *k, const char *note, ...)
{
    va_list ap;
    va_start(ap, note);
    vsnprintf(k->note, sizeof k->note, note, ap);
    va_end(ap);
    k->took_ms = now_ms() - k->at_ms;
    if (replay_is_on())
        replay_end(k);
    if (record_is_on())
        record_call(k);
    return k->code;
}

static const char *type_name(ncclDataType_t t)
{
    static const char *const names[] = {
        [ncclInt32] = "int32",       [ncclInt64] = "int64",     [ncclFloat16] = "float16",
        [ncclBfloat16] = "bfloat16", [ncclFloat32] = "float32", [ncclFloat64] = "float64",
    };
    return (size_t)t < sizeof names / sizeof *names && names[t] ? names[t] : "other";
}

static const char *op_name(ncclRedOp_t op)
{
    return op == ncclSum ? "sum" : "other";
}

/* ---- what may be asked at any time ---- */

ncclResult_t ncclGetVersion(int *v)
{
    struct call k = {.text = "version", .at_ms = now_ms()};
    k.code = under()->ncclGetVersion(v);
    if (replay_is_on() && replay_version() > 0)
        *v = replay_version();
    snprintf(k.note, sizeof k.note, "%d", *v);
    if (record_is_on())
        record_call(&k);
    return k.code;
}

const char *ncclGetErrorString(ncclResult_t code)
{
    struct call k = {.at_ms = now_ms()};
    const char *text = under()->ncclGetErrorString(code);
    snprintf(k.text, sizeof k.text, "error_string %d", (int)code);
    snprintf(k.note, sizeof k.note, "%.200s", text);
    if (record_is_on())
        record_call(&k);
    return text;
}

const char *ncclGetLastError(ncclComm_t c)
{
    struct call k = {.text = "last_error", .at_ms = now_ms()};
    const char *text = replay_is_on() ? replay_last_error() : NULL;
    text = text ? text : under()->ncclGetLastError(c);
    snprintf(k.note, sizeof k.note, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
    if (record_is_on())
        record_call(&k);
    return text;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    char text[TEXT];
    double at_ms = now_ms();
    int rc = under()->ncclCommGetAsyncError(c, state);
    snprintf(text, sizeof text, "state %s", label_comm(c));
    if (rc == ncclSuccess && replay_is_on())
        *state = (ncclResult_t)replay_state(text, *state);
    if (record_is_on())
        record_state(text, rc == ncclSuccess ? (int)*state : rc, at_ms);
    return rc;
}

int nccldouble_pending(void)
{
    return under()->nccldouble_pending ? under()->nccldouble_pending() : 0;
}

/* ---- life ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    struct call k;
    if (begin(&k, "id"))
        k.code = under()->ncclGetUniqueId(id);
    return end(&k, "%s", k.code == ncclSuccess ? label_id(id) : "none");
}

static int blocking(const ncclConfig_t *config)
{
    return config ? config->blocking : 1;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    struct call k;
    if (begin(&k, "init size %d rank %d ids %s blocking %d", nranks, rank, label_id(&id), blocking(config)))
        k.code = under()->ncclCommInitRankConfig(comm, nranks, id, rank, config);
    return end(&k, "%s", label_comm(*comm));
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    struct call k;
    if (begin(&k, "init size %d rank %d ids %s blocking 1", nranks, rank, label_id(&id)))
        k.code = under()->ncclCommInitRank(comm, nranks, id, rank);
    return end(&k, "%s", label_comm(*comm));
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int n_ids, ncclUniqueId *ids,
                                      ncclConfig_t *config)
{
    struct call k;
    char text[TEXT / 2] = "";
    for (int i = 0, n = 0; i < n_ids && n < (int)sizeof text - 8; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", i ? "," : "", label_id(&ids[i]));
    if (begin(&k, "init size %d rank %d ids %s blocking %d", nranks, rank, text, blocking(config)))
        k.code = under()->ncclCommInitRankScalable(comm, nranks, rank, n_ids, ids, config);
    return end(&k, "%s", label_comm(*comm));
}
#endif

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    struct call k;
    if (begin(&k, "finalize %s", label_comm(c)))
        k.code = under()->ncclCommFinalize(c);
    return end(&k, "%s", "");
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    struct call k;
    if (begin(&k, "destroy %s", label_comm(c)))
        k.code = under()->ncclCommDestroy(c);
    label_forget(c);
    return end(&k, "%s", "");
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    struct call k;
    if (begin(&k, "abort %s", label_comm(c)))
        k.code = under()->ncclCommAbort(c);
    label_forget(c);
    return end(&k, "%s", "");
}

/* ---- memory ---- */

ncclResult_t ncclMemAlloc(void **ret, size_t n)
{
    struct call k;
    char text[32];
    if (begin(&k, "alloc %zu", n) && (k.code = under()->ncclMemAlloc(ret, n)) == ncclSuccess)
        label_memory(*ret, n);
    return end(&k, "%s", k.code == ncclSuccess ? label_pointer(*ret, text) : "none");
}

ncclResult_t ncclMemFree(void *p)
{
    struct call k;
    char text[32];
    label_pointer(p, text);
    if (begin(&k, "free"))
        k.code = under()->ncclMemFree(p);
    return end(&k, "%s", text);
}

ncclResult_t ncclCommRegister(ncclComm_t c, void *p, size_t n, void **handle)
{
    struct call k;
    char text[32];
    if (begin(&k, "register %s %zu", label_comm(c), n))
        k.code = under()->ncclCommRegister(c, p, n, handle);
    return end(&k, "%s", label_pointer(p, text));
}

ncclResult_t ncclCommDeregister(ncclComm_t c, void *handle)
{
    struct call k;
    if (begin(&k, "deregister %s", label_comm(c)))
        k.code = under()->ncclCommDeregister(c, handle);
    return end(&k, "%s", "");
}

/* ---- operations ---- */

ncclResult_t ncclGroupStart(void)
{
    struct call k;
    if (begin(&k, "group_start"))
        k.code = under()->ncclGroupStart();
    return end(&k, "%s", "");
}

ncclResult_t ncclGroupEnd(void)
{
    struct call k;
    if (begin(&k, "group_end"))
        k.code = under()->ncclGroupEnd();
    return end(&k, "%s", "");
}

static int end_operation(struct call *k, const void *in, const void *out)
{
    char from[32], to[32];
    return end(k, "%s to %s", label_pointer(in, from), label_pointer(out, to));
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t stream)
{
    struct call k;
    if (begin(&k, "allreduce %s %zu %s %s", label_comm(c), n, type_name(t), op_name(op)))
        k.code = under()->ncclAllReduce(in, out, n, t, op, c, stream);
    return end_operation(&k, in, out);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                               cudaStream_t stream)
{
    struct call k;
    if (begin(&k, "reduce_scatter %s %zu %s %s", label_comm(c), n, type_name(t), op_name(op)))
        k.code = under()->ncclReduceScatter(in, out, n, t, op, c, stream);
    return end_operation(&k, in, out);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t stream)
{
    struct call k;
    if (begin(&k, "allgather %s %zu %s", label_comm(c), n, type_name(t)))
        k.code = under()->ncclAllGather(in, out, n, t, c, stream);
    return end_operation(&k, in, out);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t t, int root, ncclComm_t c,
                           cudaStream_t stream)
{
    struct call k;
    if (begin(&k, "broadcast %s %zu %s root %d", label_comm(c), n, type_name(t), root))
        k.code = under()->ncclBroadcast(in, out, n, t, root, c, stream);
    return end_operation(&k, in, out);
}

ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t stream)
{
    struct call k;
    if (begin(&k, "send %s %zu %s peer %d", label_comm(c), n, type_name(t), peer))
        k.code = under()->ncclSend(in, n, t, peer, c, stream);
    return end_operation(&k, in, NULL);
}

ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t stream)
{
    struct call k;
    if (begin(&k, "recv %s %zu %s peer %d", label_comm(c), n, type_name(t), peer))
        k.code = under()->ncclRecv(out, n, t, peer, c, stream);
    return end_operation(&k, NULL, out);
}
