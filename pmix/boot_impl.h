/* boot_impl.h - what a backend of boot.h provides. Private to pmix/. */
#ifndef DDP_PMIX_BOOT_IMPL_H
#define DDP_PMIX_BOOT_IMPL_H

#include <stdbool.h>

#include "pmix/boot.h"

struct boot_ops {
    int (*put)(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp);
    int (*fence)(boot_t *b, uint64_t deadline, ddp_error_t *errp);
    int (*get)(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
               ddp_error_t *errp);
    int (*close)(boot_t *b, ddp_error_t *errp); /* frees b->state, not b, whatever it returns */
};

struct boot {
    const struct boot_ops *ops;
    int rank, size;
    void *state;
};

/* Each opens one backend: fills b->ops, rank, size and state; or frees what it has made and returns -1. */
int boot_pmix_open(boot_t *b, uint64_t deadline, ddp_error_t *errp);
int boot_local_open(boot_t *b, uint64_t deadline, ddp_error_t *errp); /* from DDP_BOOT_ADDR, _TOKEN, DDP_RANK, _SIZE */
int boot_pmi_open(boot_t *b, uint64_t deadline, ddp_error_t *errp); /* from PMI_FD, PMI_RANK, PMI_SIZE */
int boot_guard_open(boot_t *b, uint64_t deadline, ddp_error_t *errp); /* from DDP_GUARD_DOOR (door.h) */
int boot_single_open(boot_t *b, uint64_t deadline, ddp_error_t *errp);

/* Heeds the guard (notice.h) for a group of these ranks that another framework has started; where there is no guard,
 * or the step has other ranks, it does nothing. */
void boot_guard_heed(int rank, int size);

/* How a rank joins a boot server. */
struct boot_join {
    const char *who;   /* the server's name in errors: "boot server" */
    const char *addrs; /* the server's addresses to try, separated by spaces */
    const char *token;
    int rank, size;
    /* Called after each try that failed, where not NULL: looks whether the server is at other addresses by now, and if
     * so changes addrs and token. */
    bool (*look)(struct boot_join *j);
    void *ctx;
};

/* As boot_local_open, but by *j (borrowed for the call) in place of the environment. */
int boot_local_join(boot_t *b, const struct boot_join *j, uint64_t deadline, ddp_error_t *errp);

#endif
