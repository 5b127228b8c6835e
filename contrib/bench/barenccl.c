#include "contrib/bench/barenccl.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* Of nccl.h, which need not be there: the same in every NCCL 2. */
enum { NCCL_SUCCESS = 0, NCCL_FLOAT32 = 7, NCCL_SUM = 0, NCCL_STILL_BUSY = 7 };

static struct {
    void *library, *comm;
    int (*get_id)(struct bare_id *id);
    int (*init)(void **comm, int size, struct bare_id id, int rank);
    int (*allreduce)(const void *in, void *out, size_t n, int type, int op, void *comm, void *stream);
    int (*get_state)(void *comm, int *state);
    int (*abort)(void *comm);
    const char *(*text)(int code);
    int (*pending)(void); /* the double's */
} nccl;

static int find(const char *name, void *at, bool is_needed, ddp_error_t *errp)
{
    void *symbol = dlsym(nccl.library, name);
    memcpy(at, &symbol, sizeof symbol);
    return symbol || !is_needed ? 0 : error_set(errp, DDP_E_COMM, ENOSYS, "libnccl.so.2 lacks %s", name);
}

static int check(int code, const char *call, ddp_error_t *errp)
{
    return code == NCCL_SUCCESS ? 0 : error_set(errp, DDP_E_COMM, code, "%s: %s", call, nccl.text(code));
}

int bare_open(ddp_error_t *errp)
{
    nccl.library = dlopen("libnccl.so.2", RTLD_NOW);
    if (!nccl.library)
        return error_set(errp, DDP_E_COMM, ENOENT, "no NCCL: %s", dlerror());
    return find("ncclGetUniqueId", &nccl.get_id, true, errp) < 0 ||
                   find("ncclCommInitRank", &nccl.init, true, errp) < 0 ||
                   find("ncclAllReduce", &nccl.allreduce, true, errp) < 0 ||
                   find("ncclCommGetAsyncError", &nccl.get_state, true, errp) < 0 ||
                   find("ncclCommAbort", &nccl.abort, true, errp) < 0 ||
                   find("ncclGetErrorString", &nccl.text, true, errp) < 0
               ? -1
               : find("nccldouble_pending", &nccl.pending, false, errp);
}

int bare_make_id(struct bare_id *ret, ddp_error_t *errp)
{
    return check(nccl.get_id(ret), "ncclGetUniqueId", errp);
}

int bare_init(int size, int rank, const struct bare_id *id, ddp_error_t *errp)
{
    return check(nccl.init(&nccl.comm, size, *id, rank), "ncclCommInitRank", errp);
}

int bare_allreduce(float *data, size_t n, void *stream, ddp_error_t *errp)
{
    int state = nccl.allreduce(data, data, n, NCCL_FLOAT32, NCCL_SUM, nccl.comm, stream);
    while (state == NCCL_STILL_BUSY) /* which a blocking communicator never is, but a double of it */
        if (check(nccl.get_state(nccl.comm, &state), "ncclCommGetAsyncError", errp) < 0)
            return -1;
    return check(state, "ncclAllReduce", errp);
}

bool bare_is_over(void)
{
    return !nccl.pending || nccl.pending() == 0;
}

void bare_close(void)
{
    if (nccl.comm)
        nccl.abort(nccl.comm); /* nothing is under way: it only frees */
    nccl.comm = NULL;
}
