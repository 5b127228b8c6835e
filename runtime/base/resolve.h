/* resolve.h - the addresses of a host by a deadline, which getaddrinfo does not take. */
#ifndef DDP_BASE_RESOLVE_H
#define DDP_BASE_RESOLVE_H

#include <netdb.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* *ret = the addresses (freeaddrinfo) of host, a name or a number, for sockets of `socktype`; port is a number. A name
 * is looked up until `deadline` (clock.h). 0, or -1 with an error that names the host and, where the resolver did not
 * answer, what to check (DDP_E_TIMEOUT); the look-up then goes on in a thread that nobody waits for. */
int resolve_host(const char *host, const char *port, int socktype, uint64_t deadline, struct addrinfo **ret,
                 ddp_error_t *errp);

#endif
