/* boot_server.h - the server side of the `local` boot: waits for `size` ranks, stores what they put, runs their fences.
 *
 * One thread drives the server: it calls boot_server_step in a loop; or, if it waits for other descriptors too, it
 * polls boot_server_fd for POLLIN and calls boot_server_step with timeout 0 when that is readable.
 *
 * The server accepts nothing from a client before a hello with the token; what a stranger sends only closes the
 * stranger's connection. A rank that dies, or ends without leaving in order, makes every present and later fence fail
 * with an error that names it. When every rank has left in order, the server forgets all that was stored, so that the
 * same ranks may connect again (a script that runs two programs, one after the other). A rank that connects again
 * before all have left has to wait for them. */
#ifndef DDP_PMIX_BOOT_SERVER_H
#define DDP_PMIX_BOOT_SERVER_H

#include <stdbool.h>

#include "runtime/base/error.h"

#define BOOT_TOKEN_BYTES 32 /* DDP_BOOT_TOKEN is this many bytes, in hexadecimal */

typedef struct boot_server boot_server_t;

/* Listens at addr (boot_wire.h; tcp with port 0 picks one). token: 2 * BOOT_TOKEN_BYTES lower-case hexadecimal
 * digits. */
boot_server_t *boot_server_create(const char *addr, const char *token, int size, ddp_error_t *errp);

/* The server is for one exchange: when every rank has left in order it ends, and lets none of them in again. */
void boot_server_end_with_round(boot_server_t *s);

const char *boot_server_addr(const boot_server_t *s); /* for DDP_BOOT_ADDR, with the port that was picked */
int boot_server_fd(const boot_server_t *s);           /* readable when there is something to do */

/* Waits up to timeout_ms (-1: without a limit) for something to do, and does it. 0, or -1 if the server itself is
 * broken, never because of what a client did. */
int boot_server_step(boot_server_t *s, int timeout_ms, ddp_error_t *errp);

/* Reports to the server that the process of `rank` has ended, and how ("was killed by signal 9"). This is a failure
 * unless the rank had left in order. */
void boot_server_rank_gone(boot_server_t *s, int rank, const char *how);

/* Makes the exchange fail, as the death of `rank` would, by *why: the server is in that rank, and cannot go on. */
void boot_server_fail(boot_server_t *s, int rank, const ddp_error_t *why);

/* The rank that made the exchange fail (it died, left or gave up), or -1. */
int boot_server_failed_rank(const boot_server_t *s);

/* True once every rank has connected and has either left in order or been lost. */
bool boot_server_is_done(const boot_server_t *s);

/* Closes all connections; if the exchange has failed, the ranks that are still connected receive the error first. NULL
 * is allowed; preserves errno. */
void boot_server_destroy(boot_server_t *s);

#endif
