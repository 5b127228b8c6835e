/* boot_host.h - a boot server in a thread of this process (rank 0's, under srun). Private to pmix/. */
#ifndef DDP_PMIX_BOOT_HOST_H
#define DDP_PMIX_BOOT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

typedef struct boot_host boot_host_t;

/* Listens at the address that the other ranks reach this machine by: the loopback one where all are on one node, else
 * that of DDP_INTERFACE, else the one towards MASTER_ADDR; at every address where none of these is known. */
boot_host_t *boot_host_create(int size, bool is_one_node, ddp_error_t *errp);

/* A text that tells other processes how to join: see boot_host_addrs. */
const char *boot_host_card(const boot_host_t *h);

/* Serves until every rank has come and gone, or until the deadline, or, where the exchange has failed, a second more
 * for those who have not heard it; then ends and frees. NULL is allowed. */
void boot_host_destroy(boot_host_t *h, uint64_t deadline);

/* In any process: what a card says. *ret_token and *ret_addrs (as struct boot_join wants them) point into buf. The
 * loopback address is among them only where this process shares the host's network. 0, or -1: it is no card. */
int boot_host_addrs(const char *card, char *buf, size_t size, const char **ret_token, const char **ret_addrs);

#endif
