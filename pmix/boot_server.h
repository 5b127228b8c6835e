/* boot_server.h - the server side of the `local` boot: gathers size ranks, keeps what they put, runs their fences.
 *
 * One thread drives it: either boot_server_step in a loop, or, beside other things to wait for, by polling
 * boot_server_fd for POLLIN and calling boot_server_step with timeout 0 when it is readable.
 *
 * Nobody is believed before a hello with the token; what a stranger sends closes its own connection only. A rank that
 * dies, or ends without leaving in order, makes every present and later fence fail with an error that names it. When
 * every rank has left in order, the server starts over with nothing stored, so that the same ranks may come again (a
 * script that runs two programs, one after the other). A rank that comes again early waits for the others. */
#ifndef DDP_PMIX_BOOT_SERVER_H
#define DDP_PMIX_BOOT_SERVER_H

#include <stdbool.h>

#include "runtime/base/error.h"

#define BOOT_TOKEN_BYTES 32 /* DDP_BOOT_TOKEN is this many bytes, in hexadecimal */

typedef struct boot_server boot_server_t;

/* Listens at addr (boot_wire.h; tcp with port 0 picks one). token: 2 * BOOT_TOKEN_BYTES lower-case hexadecimal
 * digits. */
boot_server_t *boot_server_create(const char *addr, const char *token, int size, ddp_error_t *errp);

const char *boot_server_addr(const boot_server_t *s); /* for DDP_BOOT_ADDR, with the port that was picked */
int boot_server_fd(const boot_server_t *s);           /* readable when there is something to do */

/* Waits up to timeout_ms (-1: without end) for something to do, and does it. 0, or -1 when the server itself is
 * broken, never because of what a client did. */
int boot_server_step(boot_server_t *s, int timeout_ms, ddp_error_t *errp);

/* Tells the server that the process of `rank` has ended ("was killed by signal 9"). A rank that had left in order is
 * not missed. */
void boot_server_rank_gone(boot_server_t *s, int rank, const char *how);

/* The rank that broke the exchange (died, left, gave up), or -1. */
int boot_server_failed_rank(const boot_server_t *s);

/* Every rank has come and gone: left in order, or was lost. */
bool boot_server_is_done(const boot_server_t *s);

/* Closes all connections; where the exchange has failed, the ranks still connected are told why. NULL is allowed;
 * preserves errno. */
void boot_server_destroy(boot_server_t *s);

#endif
