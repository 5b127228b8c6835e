/* lib.c - see nccl/lib.h. What differs between versions, from NCCL's tags v2.19.1-1 to v2.30.7-1 (src/nccl.h.in): all
 * that is called here is there from 2.19.1 on, declared alike, with the same numbers of results, types and operations,
 * except ncclCommInitRankScalable (2.23) and ncclCommWindowRegister (2.27). ncclConfig_t grows at its end, and begins
 * with its own size and its header's version: a library copies as much of it as it knows, and fills in what that header
 * did not know (src/init.cc, parseCommConfig).
 *
 * Windows are used from 2.30.7 on. Before, the symmetric kernels that they bring
 *   - with 2.27 to 2.29.3 spin without looking whether the communicator was aborted
 *     (src/include/nccl_device/impl/lsa_barrier__funcs.h), so that a rank's death would leave them on the others' GPUs;
 *   - with 2.28.3 corrupt what a group sums (release notes of 2.28.7);
 *   - with 2.28.3 to 2.30.4 may read what the kernel before them on the stream has yet to write: they are launched to
 *     overlap it, and did not wait for it (commit 2948185d, which is in 2.30.7). */
#include <config.h> /* explicit_bzero */

#include "runtime/nccl/lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libnccl.so.2"
#define OLDEST NCCL_VERSION(2, 19, 0)
#define SOUND_WINDOWS NCCL_VERSION(2, 30, 7)

_Static_assert(NCCL_OK == (int)ncclSuccess && NCCL_CUDA_ERROR == (int)ncclUnhandledCudaError &&
                   NCCL_SYSTEM_ERROR == (int)ncclSystemError && NCCL_INTERNAL_ERROR == (int)ncclInternalError &&
                   NCCL_INVALID_ARGUMENT == (int)ncclInvalidArgument && NCCL_INVALID_USAGE == (int)ncclInvalidUsage &&
                   NCCL_REMOTE_ERROR == (int)ncclRemoteError && NCCL_IN_PROGRESS == (int)ncclInProgress,
               "codes are NCCL's");
_Static_assert(NCCL_ID_BYTES == NCCL_UNIQUE_ID_BYTES && sizeof(ncclUniqueId) == NCCL_ID_BYTES, "ids are NCCL's");

static struct {
    void *handle; /* stays open: the library has threads */
    int version;
    __typeof__(ncclGetVersion) *get_version;
    __typeof__(ncclGetUniqueId) *get_unique_id;
    __typeof__(ncclCommInitRankConfig) *init;
    __typeof__(ncclCommGetAsyncError) *get_async_error;
    __typeof__(ncclCommFinalize) *finalize;
    __typeof__(ncclCommDestroy) *destroy;
    __typeof__(ncclCommAbort) *abort;
    __typeof__(ncclGetErrorString) *get_error_string;
    __typeof__(ncclGetLastError) *get_last_error;
    __typeof__(ncclMemAlloc) *mem_alloc;
    __typeof__(ncclMemFree) *mem_free;
    __typeof__(ncclCommRegister) *comm_register;
    __typeof__(ncclCommDeregister) *comm_deregister;
    __typeof__(ncclGroupStart) *group_start;
    __typeof__(ncclGroupEnd) *group_end;
    __typeof__(ncclAllReduce) *allreduce;
    __typeof__(ncclReduceScatter) *reduce_scatter;
    __typeof__(ncclAllGather) *allgather;
    __typeof__(ncclBroadcast) *bcast;
    __typeof__(ncclSend) *send;
    __typeof__(ncclRecv) *recv;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
    __typeof__(ncclCommInitRankScalable) *init_scalable;
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    __typeof__(ncclCommWindowRegister) *window_register;
    __typeof__(ncclCommWindowDeregister) *window_deregister;
#endif
} lib;

/* Functions that come with a version: NULL where the library is older, even if it should have the symbol. */
static const struct symbol {
    const char *name;
    void *at;
    int since; /* 0: every version that we take */
} symbols[] = {
    {"ncclGetVersion", &lib.get_version, 0},
    {"ncclGetUniqueId", &lib.get_unique_id, 0},
    {"ncclCommInitRankConfig", &lib.init, 0},
    {"ncclCommGetAsyncError", &lib.get_async_error, 0},
    {"ncclCommFinalize", &lib.finalize, 0},
    {"ncclCommDestroy", &lib.destroy, 0},
    {"ncclCommAbort", &lib.abort, 0},
    {"ncclGetErrorString", &lib.get_error_string, 0},
    {"ncclGetLastError", &lib.get_last_error, 0},
    {"ncclMemAlloc", &lib.mem_alloc, 0},
    {"ncclMemFree", &lib.mem_free, 0},
    {"ncclCommRegister", &lib.comm_register, 0},
    {"ncclCommDeregister", &lib.comm_deregister, 0},
    {"ncclGroupStart", &lib.group_start, 0},
    {"ncclGroupEnd", &lib.group_end, 0},
    {"ncclAllReduce", &lib.allreduce, 0},
    {"ncclReduceScatter", &lib.reduce_scatter, 0},
    {"ncclAllGather", &lib.allgather, 0},
    {"ncclBroadcast", &lib.bcast, 0},
    {"ncclSend", &lib.send, 0},
    {"ncclRecv", &lib.recv, 0},
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
    {"ncclCommInitRankScalable", &lib.init_scalable, NCCL_VERSION(2, 23, 0)},
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    {"ncclCommWindowRegister", &lib.window_register, SOUND_WINDOWS},
    {"ncclCommWindowDeregister", &lib.window_deregister, SOUND_WINDOWS},
#endif
};

static void *find(void *handle, const struct symbol *s)
{
    void *symbol = dlsym(handle, s->name);
    memcpy(s->at, &symbol, sizeof symbol);
    return symbol;
}

static int check_version(void *handle, ddp_error_t *errp)
{
    char have[32];
    if (!find(handle, &symbols[0]) || lib.get_version(&lib.version) != ncclSuccess)
        return error_set(errp, DDP_E_COMM, ENOSYS, "%s does not tell its version: install NCCL 2.19 or newer", LIBRARY);
    nccl_version_text(lib.version, have);
    if (lib.version >= 30000)
        return error_set(errp, DDP_E_COMM, ENOSYS, "%s is NCCL %s, another major version than this build's %d.%d: put "
                         "the folder of an NCCL 2 first in LD_LIBRARY_PATH", LIBRARY, have, NCCL_MAJOR, NCCL_MINOR);
    if (lib.version < OLDEST)
        return error_set(errp, DDP_E_COMM, ENOSYS, "%s is NCCL %s, which is too old: install 2.19 or newer", LIBRARY,
                         have);
    return 0;
}

static int load(void *handle, ddp_error_t *errp)
{
    if (check_version(handle, errp) < 0)
        return -1;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        const struct symbol *s = &symbols[i];
        if (s->since > lib.version)
            memset(s->at, 0, sizeof(void *));
        else if (!find(handle, s) && s->since == 0)
            return error_set(errp, DDP_E_COMM, ENOSYS, "%s lacks %s: install NCCL 2.19 or newer", LIBRARY, s->name);
    }
    return 0;
}

static const char *call_code_text(int code)
{
    return lib.get_error_string((ncclResult_t)code);
}

static const char *call_last_error(void)
{
    return lib.get_last_error(NULL);
}

/* ---- life ---- */

static int call_unique_id(unsigned char id[NCCL_ID_BYTES])
{
    return lib.get_unique_id((ncclUniqueId *)id);
}

static int call_init(void **ret_comm, int size, int rank, const unsigned char *ids, int n_ids)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclResult_t rc = ncclInvalidUsage;
    config.blocking = 0;
    if (n_ids == 1) {
        ncclUniqueId id;
        memcpy(&id, ids, sizeof id);
        rc = lib.init(&comm, size, id, rank, &config);
        explicit_bzero(&id, sizeof id);
    }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
    else if (lib.init_scalable)
        rc = lib.init_scalable(&comm, size, rank, n_ids, (ncclUniqueId *)ids, &config);
#endif
    *ret_comm = comm;
    return rc;
}

static int call_state(void *comm)
{
    ncclResult_t state = ncclInternalError, rc = lib.get_async_error(comm, &state);
    return rc == ncclSuccess ? state : rc;
}

static int call_finalize(void *comm)
{
    return lib.finalize(comm);
}

static int call_destroy(void *comm)
{
    return lib.destroy(comm);
}

static int call_abort(void *comm)
{
    return lib.abort(comm);
}

/* ---- memory ---- */

static int call_alloc(void **ret, size_t n_bytes)
{
    return lib.mem_alloc(ret, n_bytes);
}

static int call_free(void *p)
{
    return lib.mem_free(p);
}

static int call_register(void *comm, void *p, size_t n_bytes, void **ret_handle)
{
    return lib.comm_register(comm, p, n_bytes, ret_handle);
}

static int call_deregister(void *comm, void *handle)
{
    return lib.comm_deregister(comm, handle);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
static int call_window(void *comm, void *p, size_t n_bytes, void **ret_window)
{
    return lib.window_register(comm, p, n_bytes, (ncclWindow_t *)ret_window, NCCL_WIN_COLL_SYMMETRIC);
}

static int call_unwindow(void *comm, void *window)
{
    return lib.window_deregister(comm, window);
}
#endif

/* ---- operations ---- */

static ncclDataType_t type_of(enum ddp_dtype t)
{
    static const ncclDataType_t types[DTYPE_COUNT] = {
        [DDP_F32] = ncclFloat32, [DDP_F64] = ncclFloat64, [DDP_BF16] = ncclBfloat16,
        [DDP_F16] = ncclFloat16, [DDP_I32] = ncclInt32,   [DDP_I64] = ncclInt64,
    };
    return types[t];
}

static int call_group_start(void)
{
    return lib.group_start();
}

static int call_group_end(void)
{
    return lib.group_end();
}

static int call_allreduce(void *comm, const void *in, void *out, size_t n, enum ddp_dtype t, void *stream)
{
    return lib.allreduce(in, out, n, type_of(t), ncclSum, comm, stream);
}

static int call_reduce_scatter(void *comm, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream)
{
    return lib.reduce_scatter(in, out, n_each, type_of(t), ncclSum, comm, stream);
}

static int call_allgather(void *comm, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream)
{
    return lib.allgather(in, out, n_each, type_of(t), comm, stream);
}

static int call_bcast(void *comm, void *data, size_t n, enum ddp_dtype t, int root, void *stream)
{
    return lib.bcast(data, data, n, type_of(t), root, comm, stream);
}

static int call_send(void *comm, const void *data, size_t n, enum ddp_dtype t, int peer, void *stream)
{
    return lib.send(data, n, type_of(t), peer, comm, stream);
}

static int call_recv(void *comm, void *data, size_t n, enum ddp_dtype t, int peer, void *stream)
{
    return lib.recv(data, n, type_of(t), peer, comm, stream);
}

const struct nccl_lib *nccl_lib_open(ddp_error_t *errp)
{
    static struct nccl_lib table = {
        .code_text = call_code_text,
        .last_error = call_last_error,
        .unique_id = call_unique_id,
        .init = call_init,
        .state = call_state,
        .finalize = call_finalize,
        .destroy = call_destroy,
        .abort = call_abort,
        .alloc = call_alloc,
        .free = call_free,
        .reg = call_register,
        .dereg = call_deregister,
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
        .window = call_window,
        .unwindow = call_unwindow,
#endif
        .group_start = call_group_start,
        .group_end = call_group_end,
        .allreduce = call_allreduce,
        .reduce_scatter = call_reduce_scatter,
        .allgather = call_allgather,
        .bcast = call_bcast,
        .send = call_send,
        .recv = call_recv,
    };
    if (lib.handle)
        return &table;
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        error_set(errp, DDP_E_COMM, ENOENT, "%s cannot be opened on this node: install NCCL (libnccl2), or put its "
                  "folder in LD_LIBRARY_PATH (%s)", LIBRARY, dlerror());
        return NULL;
    }
    if (load(handle, errp) < 0) {
        dlclose(handle);
        return NULL;
    }
    lib.handle = handle;
    table.version = lib.version;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
    table.has[NCCL_SCALABLE] = lib.init_scalable;
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    table.has[NCCL_WINDOWS] = lib.window_register && lib.window_deregister;
#endif
    return &table;
}
