/* lib.h - libnccl.so.2 behind plain types, opened at run time. nccl/lib.c is the one file that includes nccl.h,
 * and the one place where versions of NCCL differ; a build without nccl.h has nccl/lib_stub.c in its place. Private to
 * runtime/nccl.
 *
 * Communicators, streams and device memory are void *. A call returns an enum nccl_code, NCCL's own number; what NCCL
 * says about the last error of the process is last_error(). One thread at a time calls, on which the device is current.
 * */
#ifndef DDP_RUNTIME_NCCL_LIB_H
#define DDP_RUNTIME_NCCL_LIB_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

#define NCCL_ID_BYTES 128

enum nccl_code {
    NCCL_OK,
    NCCL_CUDA_ERROR,
    NCCL_SYSTEM_ERROR,
    NCCL_INTERNAL_ERROR,
    NCCL_INVALID_ARGUMENT,
    NCCL_INVALID_USAGE,
    NCCL_REMOTE_ERROR,
    NCCL_IN_PROGRESS,
};

/* What not every version has: neither the header that we were built with nor the library that is opened may lack it. */
enum nccl_feature {
    NCCL_SCALABLE, /* ncclCommInitRankScalable: several roots (2.23) */
    NCCL_FEATURES
};

/* A library that is open. */
struct nccl_lib {
    int version; /* 22809 is 2.28.9 */
    bool has[NCCL_FEATURES];
    const char *(*code_text)(int code);
    const char *(*last_error)(void);

    /* Starts a thread that listens for the wire-up; it ends when all ranks of its block have come. */
    int (*unique_id)(unsigned char id[NCCL_ID_BYTES]);

    /* Non-blocking: the wire-up goes on until state() says otherwise. ids: n_ids x NCCL_ID_BYTES; more than one only
     * with NCCL_SCALABLE. */
    int (*init)(void **ret_comm, int size, int rank, const unsigned char *ids, int n_ids);

    /* NCCL_OK: no call is under way (work on streams may be); NCCL_IN_PROGRESS; or an error. */
    int (*state)(void *comm);

    int (*finalize)(void *comm); /* then state() */
    int (*destroy)(void *comm);  /* after that; may wait */
    int (*abort)(void *comm);    /* frees too; joins NCCL's own threads */

    int (*alloc)(void **ret, size_t n_bytes);
    int (*free)(void *p);
    int (*reg)(void *comm, void *p, size_t n_bytes, void **ret_handle); /* *ret_handle may become NULL */
    int (*dereg)(void *comm, void *handle);

    /* Sums are ncclSum: ncclAvg and ncclRedOpCreatePreMulSum keep NCCL from its NVLS and symmetric kernels, so scaling
     * is the business of a kernel of ours. */
    int (*group_start)(void);
    int (*group_end)(void);
    int (*allreduce)(void *comm, const void *in, void *out, size_t n, enum ddp_dtype t, void *stream);
    int (*reduce_scatter)(void *comm, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream);
    int (*allgather)(void *comm, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream);
    int (*bcast)(void *comm, void *data, size_t n, enum ddp_dtype t, int root, void *stream);
    int (*send)(void *comm, const void *data, size_t n, enum ddp_dtype t, int peer, void *stream);
    int (*recv)(void *comm, void *data, size_t n, enum ddp_dtype t, int peer, void *stream);
};

/* Opens the library, once. NULL: an error that says what to install. */
const struct nccl_lib *nccl_lib_open(ddp_error_t *errp);

const char *nccl_version_text(int version, char buf[32]); /* "2.28.9" (nccl/error.c) */

#endif
