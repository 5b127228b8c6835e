/* impl.h - the data structures of the NCCL communicator. Private to runtime/nccl. */
#ifndef DDP_RUNTIME_NCCL_IMPL_H
#define DDP_RUNTIME_NCCL_IMPL_H

#include "runtime/comm/watch.h"
#include "runtime/nccl/lib.h"
#include "runtime/nccl/nccl.h"

/* The states of a communicator; nccl.c describes them. */
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
    void *data;
    void *handle, *window; /* of the memory's registration: at most one is not NULL */
    size_t n_bytes;
};

struct nccl {
    const struct nccl_lib *lib; /* NULL: no library; nccl_create then fails, and destroys the communicator */
    struct nccl_config cfg;     /* its texts are NULL */
    const struct world *world;
    comm_t *comm;
    watch_t *watch; /* of comm */
    enum nccl_life life;
    void *handle; /* NCCL's communicator */
    bool leaves_memory; /* nccl_leave_memory was called */
    bool is_stuck; /* one of our threads is in a call of NCCL that has not returned: make no more calls */
    unsigned char *ids;
    int n_ids;
    struct nccl_memory *memories;
    char version[32];
};

/* nccl_create with a library of the caller's choice. lib NULL: this rank has none, and *why says why. */
nccl_t *nccl_create_with(const struct nccl_config *cfg, const struct nccl_lib *lib, const ddp_error_t *why,
                         const struct world *w, comm_t *c, ddp_error_t *errp);

/* nccl/env.c: sets NCCL's environment variables as cfg asks, but never one that is set already, and refuses values with
 * which the communicator could not work. */
int nccl_environment(const struct nccl_config *cfg, const struct world *w, ddp_error_t *errp);

/* nccl/error.c: fills *errp with "an operation of NCCL failed: ...", NCCL's own text for `code`, and the cure. Returns
 * -1. */
int nccl_error(const nccl_t *n, int code, enum watch_what what, ddp_error_t *errp);

/* The first line of what NCCL says of its last error, or that it says nothing. Returns buf. */
#define NCCL_SAID_MAX 100
const char *nccl_said(const nccl_t *n, char buf[NCCL_SAID_MAX]);

void nccl_warn(const nccl_t *n, const char *line); /* by nccl_config.warn, if there is one */

/* nccl/memory.c: ends the registrations of all memory of nccl_memory_create; frees it, except after nccl_leave_memory.
 * Neither is called where NCCL is stuck. */
int nccl_memory_release(nccl_t *n, ddp_error_t *errp);
void nccl_memory_free(nccl_t *n);

/* nccl/wait.c: waits until NCCL has no call under way and, where done is not NULL, until done(ctx) returns 1. On a
 * failure it calls nccl_break before it returns. */
int nccl_await(nccl_t *n, enum watch_what what, nccl_done_f *done, void *ctx, ddp_error_t *errp);

void nccl_forget_ids(nccl_t *n); /* nccl/nccl.c: wipes them */

/* nccl/nccl.c: waits for what NCCL has begun, having answered `code` (an error: nccl_break); READY then. */
int nccl_become_ready(nccl_t *n, int code, enum watch_what what, ddp_error_t *errp);

/* Ends the communicator after an error of this rank: reports the error to the other ranks and aborts NCCL's
 * communicator. *errp becomes the first of these that exists: the cause that the watch has found; the text of NCCL's
 * error `code`; what *errp holds already (code 0). Returns -1. */
int nccl_break(nccl_t *n, int code, enum watch_what what, ddp_error_t *errp);

/* Makes a call that may never return, in a thread of its own. Returns the call's code; or -1 if it has not returned in
 * time: then is_stuck is set, and the thread is left behind. */
int nccl_call(nccl_t *n, int (*call)(void *comm));
void nccl_drop(nccl_t *n); /* aborts NCCL's communicator, if there is one */

/* Fails, by nccl_break, if a range's type is none of enum ddp_dtype. */
int nccl_check_ranges(nccl_t *n, const struct nccl_range *ranges, size_t n_ranges, ddp_error_t *errp);

/* nccl/fixed.c: 0 if this world's sums can be made in the fixed order, else -1. All ranks get the same result without
 * communication, so none waits for another. */
int nccl_check_fixed(const nccl_t *n, ddp_error_t *errp);

/* Called before each operation: waits until NCCL has enqueued the last one on its stream. 0, or -1 with an error. */
int nccl_begin(nccl_t *n, ddp_error_t *errp);

#endif
