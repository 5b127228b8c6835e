/* impl.h - an NCCL communicator's inside. Private to runtime/nccl. */
#ifndef DDP_RUNTIME_NCCL_IMPL_H
#define DDP_RUNTIME_NCCL_IMPL_H

#include "runtime/comm/watch.h"
#include "runtime/nccl/lib.h"
#include "runtime/nccl/nccl.h"

/* See nccl.c. */
enum nccl_life {
    NCCL_CREATED,
    NCCL_STARTING,
    NCCL_READY,
    NCCL_ISSUED,
    NCCL_ENDING,
    NCCL_CLOSED,
    NCCL_BROKEN,
};

struct nccl_memory {
    struct nccl_memory *next;
    void *data, *handle; /* handle: of its registration, or NULL */
    size_t n_bytes;
};

struct nccl {
    const struct nccl_lib *lib; /* NULL: there is none; such a communicator does not outlive nccl_create */
    struct nccl_config cfg;     /* without its texts */
    const struct world *world;
    comm_t *comm;
    watch_t *watch; /* its */
    enum nccl_life life;
    void *handle; /* NCCL's communicator */
    bool leaves_memory; /* nccl_leave_memory */
    bool is_stuck; /* a thread of ours is inside NCCL, in a call that did not return: no more calls */
    unsigned char *ids;
    int n_ids;
    struct nccl_memory *memories;
    char version[32];
};

/* nccl_create with a library: lib NULL and why filled where there is none. */
nccl_t *nccl_create_with(const struct nccl_config *cfg, const struct nccl_lib *lib, const ddp_error_t *why,
                         const struct world *w, comm_t *c, ddp_error_t *errp);

/* nccl/env.c: sets what cfg asks for in the environment, never over a value that is there, and refuses what would keep
 * the communicator from working. */
int nccl_environment(const struct nccl_config *cfg, const struct world *w, ddp_error_t *errp);

/* nccl/error.c: "an operation of NCCL failed: ...", with NCCL's words and the cure. Returns -1. */
int nccl_error(const nccl_t *n, int code, enum watch_what what, ddp_error_t *errp);

/* nccl/wait.c: waits until NCCL has no call under way and, where done is not NULL, done(ctx) says yes. A failure has
 * been through nccl_break when it is returned. */
int nccl_await(nccl_t *n, enum watch_what what, nccl_done_f *done, void *ctx, ddp_error_t *errp);

/* Ends the communicator after an error of this rank: reports the error to the other ranks and aborts NCCL's
 * communicator. *errp becomes the first of these that exists: the cause that the watch has found; the text of NCCL's
 * error `code`; what *errp holds already (code 0). Returns -1. */
int nccl_break(nccl_t *n, int code, enum watch_what what, ddp_error_t *errp);

/* A call that may not return, in a thread that is then left behind. Its code, or -1: it has not returned (is_stuck). */
int nccl_call(nccl_t *n, int (*call)(void *comm));
void nccl_drop(nccl_t *n); /* aborts NCCL's part, if there is one */

/* Breaks n where a type is none of enum ddp_dtype. */
int nccl_check_ranges(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, ddp_error_t *errp);

/* nccl/fixed.c: can this world's sums be made in a fixed order? The same on all ranks: nobody waits for anybody. */
int nccl_check_fixed(const nccl_t *n, ddp_error_t *errp);

/* 0 when the next operation may be made: the last one stands on its stream. */
int nccl_begin(nccl_t *n, ddp_error_t *errp);

#endif
