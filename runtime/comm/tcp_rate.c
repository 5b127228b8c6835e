/* How fast connections send: the kernel's own estimate of each one's path (tcpi_delivery_rate), from acknowledgements
 * of what was sent as fast as the path took it. Bytes over time would not do: a rank that computes, or has no
 * processor, acknowledges late, and a link of 1 Gbit/s looked like any other on a busy machine. */
#include <errno.h>
#include <linux/tcp.h> /* glibc's <netinet/tcp.h> has an older tcp_info */
#include <math.h>
#include <netinet/in.h>

#include "runtime/comm/tcp_impl.h"

/* NAN: too little was sent since the last look, or the kernel (before 4.9) does not know. */
static double rate_of(struct tcp_conn *c)
{
    struct tcp_info now = {0};
    socklen_t len = sizeof now;
    if (c->fd < 0 || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &now, &len) < 0 ||
        len < offsetof(struct tcp_info, tcpi_delivery_rate) + sizeof now.tcpi_delivery_rate)
        return NAN;
    bool is_enough = now.tcpi_bytes_acked - c->acked >= TCP_RATE_BYTES;
    c->acked = now.tcpi_bytes_acked;
    return is_enough ? (double)now.tcpi_delivery_rate : NAN;
}

double tcp_rate(struct tcp *t)
{
    int saved = errno;
    double most = NAN;
    for (int k = 0; k < t->n_nodes; k++)
        most = fmax(most, rate_of(&t->conns[k])); /* of which it takes the one that is known */
    errno = saved;
    return most;
}
