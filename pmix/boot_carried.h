/* boot_carried.h - a boot under a launcher that carries one value, rank 0's card: all else goes over the boot server in
 * rank 0 (boot_host.h) that the card names. What boot_pmix.c, boot_pmi.c and boot_guard.c share. Private to pmix/. */
#ifndef DDP_PMIX_BOOT_CARRIED_H
#define DDP_PMIX_BOOT_CARRIED_H

#include "pmix/boot_host.h"
#include "pmix/boot_impl.h"

#define CARRIED_CARD_MAX 1024 /* bytes of a card */

/* The first member of b->state where b->ops has the functions below. */
struct boot_carried {
    boot_host_t *host; /* rank 0 */
    boot_t local;      /* this rank's place at rank 0's server */
};

/* Where a launcher may still carry the card of a program before this one: asks it anew, while the server that the card
 * names cannot be joined. 0, or -1: nothing is to be had now. */
typedef int carried_card_f(void *ctx, char card[CARRIED_CARD_MAX], uint64_t deadline);

/* Joins the server that the card names, or the one that a later card does (again, NULL: there is none). c is closed by
 * carried_close, also after a failure. */
int carried_join(struct boot_carried *c, int rank, int size, const char *card, carried_card_f *again, void *ctx,
                 uint64_t deadline, ddp_error_t *errp);

/* Leaves the server; where it is this rank's own, it stays until `deadline` for those who have not left. */
void carried_close(struct boot_carried *c, uint64_t deadline);

#define CARRIED_LEAVE_S 10.0 /* of the deadline of carried_close, after an exchange that went well */

/* boot_ops.put, fence and get. */
int carried_put(boot_t *b, const char *key, const void *data, size_t n, ddp_error_t *errp);
int carried_fence(boot_t *b, uint64_t deadline, ddp_error_t *errp);
int carried_get(boot_t *b, int rank, const char *key, void **ret_data, size_t *ret_n, uint64_t deadline,
                ddp_error_t *errp);

#endif
