/* io.h - whole reads and writes on sockets and files with a deadline, and random tokens. */
#ifndef DDP_BASE_IO_H
#define DDP_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "runtime/base/error.h"

/* Waits until fd has one of poll's `events`; errors on the descriptor count as one, the next call reports them. 1; 0:
 * the deadline; -1: DDP_E_PEER, a rank died of which notice.h tells, or DDP_E_SYSTEM. */
int io_wait(int fd, short events, uint64_t deadline, const char *what, ddp_error_t *errp);

/* Moves exactly n bytes over a socket or pipe, polling until `deadline` (clock.h). Works on blocking and non-blocking
 * descriptors; never raises SIGPIPE on a socket. 0, or -1: DDP_E_TIMEOUT at the deadline, DDP_E_PEER when the other end
 * closed, DDP_E_SYSTEM otherwise. `what` names the other end in the error ("rank 3 (n2)"). */
int io_recv_all(int fd, void *buf, size_t n, uint64_t deadline, const char *what, ddp_error_t *errp);
int io_send_all(int fd, const void *buf, size_t n, uint64_t deadline, const char *what, ddp_error_t *errp);

/* Receives 1 to n bytes, whatever is there first; else as io_recv_all. Returns how many, or -1. */
ssize_t io_recv_some(int fd, void *buf, size_t n, uint64_t deadline, const char *what, ddp_error_t *errp);

/* connect() of a non-blocking socket; waits until `deadline`, also while the queue of a unix socket is full. 0, or -1
 * with errno: the connection's error, or ETIMEDOUT at the deadline. A signal does not end the wait. */
int io_connect(int fd, const struct sockaddr *to, socklen_t len, uint64_t deadline);

/* True if the process at the other end of a unix socket runs under our effective uid. */
bool io_same_user(int fd);

/* All n bytes, to a file. 0, or -1 with errno. */
int io_write_all(int fd, const void *buf, size_t n);

/* Up to n bytes of a file, fewer where it ends before. How many, or -1 with errno. */
ssize_t io_read_up_to(int fd, void *buf, size_t n);

/* Opens a regular file for reading; a pipe in its place does not hold anyone up. The descriptor, or -1: the error names
 * the path. */
int io_open_file(const char *path, uint64_t *ret_bytes, ddp_error_t *errp);

/* The whole of such a file of at most max_bytes, with a null byte behind it, which *ret_bytes does not count; malloc,
 * the caller frees. NULL: the error names the path. */
char *io_read_file(const char *path, size_t max_bytes, size_t *ret_bytes, ddp_error_t *errp);

/* ftruncate() of a file that grows, with EFBIG where `ulimit -f` allows less, by which ftruncate ends the process
 * (SIGXFSZ). The file may be memory (memfd). 0, or -1 with errno. */
int io_grow(int fd, size_t n_bytes);

/* io_random: n bytes from the kernel's random source. io_random_hex: the same as 2n lower-case hexadecimal digits (buf
 * holds 2n + 1). */
int io_random(void *buf, size_t n, ddp_error_t *errp);
int io_random_hex(char *buf, size_t n, ddp_error_t *errp);

/* Compares n bytes in a time that does not depend on where the first difference is. */
int io_token_equal(const void *a, const void *b, size_t n);

/* close(fd) unless fd < 0, preserving errno; for destroy functions. */
void io_close(int fd);

#endif
