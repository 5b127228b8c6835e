/* address.h - which of this machine's IP addresses the other nodes of a job reach it by. */
#ifndef DDP_BASE_ADDRESS_H
#define DDP_BASE_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

socklen_t address_size(const union address *a);
bool address_is_loopback(const union address *a);

/* The first address, IPv4 before IPv6, of `interface`, or (NULL) of any that is up and not the loopback; no link-local
 * IPv6. 0, or -1: there is none. */
int address_of_interface(const char *interface, union address *ret);

/* The local address from which this machine reaches the node that MASTER_ADDR names; on that node itself, the address
 * of MASTER_ADDR. Sends nothing; a name is looked up until `deadline` (clock.h). The result is a loopback address only
 * if MASTER_ADDR is one as a number or is "localhost", since Debian gives a machine's own name 127.0.1.1. Of several
 * addresses the first is taken; *ret_is_only (may be NULL) says whether there is only one. 0, or -1: it is not
 * known. */
int address_towards_master(uint64_t deadline, union address *ret, bool *ret_is_only);

#endif
