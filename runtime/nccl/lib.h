/* lib.h - the functions of libnccl.so.2, which is opened at run time, with plain types. nccl/lib.c is the one file that
 * includes nccl.h and that knows how NCCL's versions differ; a build without nccl.h has nccl/lib_stub.c in its place.
 * Private to runtime/nccl.
 *
 * Communicators, streams and device memory are void *. A call returns an enum nccl_code, which is NCCL's own number;
 * last_error() is NCCL's text about the last error of the process. One thread at a time makes calls; the device must be
 * current in it. */
#ifndef DDP_RUNTIME_NCCL_LIB_H
#define DDP_RUNTIME_NCCL_LIB_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

#define NCCL_ID_BYTES 128

/* Versions that NVIDIA advises against where a job is to survive a failure, for a segmentation fault then: "NCCL <
 * v2.28.3 OR >= 2.28.9" (nvidia-resiliency-ext, docs/source/release-notes.md, v0.5; README.md says the same). */
#define NCCL_CRASHES_FROM 22803
#define NCCL_CRASHES_UNTIL 22809

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

/* Features that not every version has. A feature can be used if both the header that we were built with and the library
 * that is opened have it. */
enum nccl_feature {
    NCCL_SCALABLE, /* ncclCommInitRankScalable: several roots (2.23) */
    NCCL_WINDOWS,  /* ncclCommWindowRegister, where what it brings is sound (2.30.7; lib.c says why) */
    NCCL_FEATURES
};

/* A library that is open. */
struct nccl_lib {
    int version; /* 22809 is 2.28.9 */
    bool has[NCCL_FEATURES];
    const char *(*code_text)(int code);
    const char *(*last_error)(void);

    /* Makes an id. NCCL starts a thread that listens for the wire-up and ends when all ranks of the id's block have
     * connected. */
    int (*unique_id)(unsigned char id[NCCL_ID_BYTES]);

    /* Non-blocking: the wire-up goes on while state() returns NCCL_IN_PROGRESS. ids: n_ids x NCCL_ID_BYTES; more than
     * one only with NCCL_SCALABLE. */
    int (*init)(void **ret_comm, int size, int rank, const unsigned char *ids, int n_ids);

    /* NCCL_OK: no call is under way (work on streams may still be); NCCL_IN_PROGRESS; or an error. */
    int (*state)(void *comm);

    int (*finalize)(void *comm); /* non-blocking: ask state() */
    int (*destroy)(void *comm);  /* after finalize; may wait */
    int (*abort)(void *comm);    /* frees the communicator too; joins NCCL's own threads */

    int (*alloc)(void **ret, size_t n_bytes);
    int (*free)(void *p);

    /* Of memory from alloc. *ret_handle may become NULL. reg and dereg concern this rank alone, but NCCL waits for ever
     * where some ranks of a node have registered what they sum and others have not. */
    int (*reg)(void *comm, void *p, size_t n_bytes, void **ret_handle);
    int (*dereg)(void *comm, void *handle);

    /* With NCCL_WINDOWS: maps the memory of all ranks into all, so that NCCL's symmetric kernels reduce it in place.
     * Collective, non-blocking: *ret_window is valid once state() is NCCL_OK; NULL then: this communicator has no such
     * kernels, and nothing is registered. Sums must begin at the same offset of the memory on all ranks. The end of a
     * window is this rank's alone, when its device is done with all operations. */
    int (*window)(void *comm, void *p, size_t n_bytes, void **ret_window);
    int (*unwindow)(void *comm, void *window);

    /* Reductions are ncclSum; the caller scales with a kernel of its own, since ncclAvg and ncclRedOpCreatePreMulSum
     * would keep NCCL from using its NVLS and symmetric kernels. */
    int (*group_start)(void);
    int (*group_end)(void);
    int (*allreduce)(void *comm, const void *in, void *out, size_t n, enum ddp_dtype t, void *stream);
    int (*reduce_scatter)(void *comm, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream);
    int (*allgather)(void *comm, const void *in, void *out, size_t n_each, enum ddp_dtype t, void *stream);
    int (*bcast)(void *comm, void *data, size_t n, enum ddp_dtype t, int root, void *stream);
    int (*send)(void *comm, const void *data, size_t n, enum ddp_dtype t, int peer, void *stream);
    int (*recv)(void *comm, void *data, size_t n, enum ddp_dtype t, int peer, void *stream);
};

/* Opens the library at the first call. NULL: *errp says what to install. */
const struct nccl_lib *nccl_lib_open(ddp_error_t *errp);

const char *nccl_version_text(int version, char buf[32]); /* "2.28.9" (nccl/error.c) */

#endif
