/* listen.h - TCP sockets of the plugin's that listen at all addresses of the machine. */
#ifndef DDP_SPANK_NET_LISTEN_H
#define DDP_SPANK_NET_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

#include "runtime/base/error.h"
#include "spank/net/port.h"

/* A non-blocking TCP socket for every address: IPv6 with IPv4 in it, or IPv4 where there is no IPv6. -1 with errno. */
int listen_socket(sa_family_t *ret_family);

/* Binds it to a port. 0, or -1 with errno. */
int listen_bind(int fd, sa_family_t family, int port);

/* Listens at an abstract unix socket (door.h). The socket, or -1 with errno: the name is taken. */
int listen_abstract(const char *name);

/* A socket for srun in *ret_fd (-1: none), bound to a port of the range, at random; {0, 0}: any free one. The port, or
 * -1; the caller closes the socket in any case. */
int listen_take_port(int *ret_fd, struct port_range range, ddp_error_t *errp);

/* True if nobody else could listen at this port of all addresses now: another socket is bound to it. What a connection
 * has left behind (TIME_WAIT) does not count. */
bool listen_is_taken(int port);

#endif
