/* boot_host.h - a boot server in a thread of this process (rank 0's, under srun). Private to pmix/. */
#ifndef DDP_PMIX_BOOT_HOST_H
#define DDP_PMIX_BOOT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

typedef struct boot_host boot_host_t;

/* Listens at the address by which the other ranks reach this machine: the loopback address if all ranks are on one
 * node, else the address of DDP_INTERFACE, else the one towards MASTER_ADDR; if none of these is known, at every
 * address. */
boot_host_t *boot_host_create(int size, bool is_one_node, ddp_error_t *errp);

/* The server's card: a text with which other processes join (boot_host_addrs). */
const char *boot_host_card(const boot_host_t *h);

/* Serves until every rank has connected and left, or until the deadline; if the exchange has failed, for one more
 * second, so that ranks that do not know it yet receive the error. Then ends the thread and frees. NULL is allowed. */
void boot_host_destroy(boot_host_t *h, uint64_t deadline);

/* In any process: reads a card. *ret_token and *ret_addrs (for struct boot_join) point into buf. The loopback address
 * is among the addresses only if this process shares the server's network namespace, and one of this machine's own only
 * if it may be the server's. 0; -1: the text is no card, or names none; BOOT_HOST_FORGED: it is not of this step's
 * secret (boot_card.h). */
enum { BOOT_HOST_FORGED = -2 };
int boot_host_addrs(const char *card, char *buf, size_t size, const char **ret_token, const char **ret_addrs);

#endif
