#include "config.h"
#include "spank/gather.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/base/thread.h"
#include "spank/gather_impl.h"
#include "spank/listen.h"

#define END_S 0.2 /* how long srun's end waits for the thread */

struct gather {
    struct server_options server;
    char address[16 + TOKEN_LEN];
    int done[2]; /* the thread closes done[1] as the last thing that it does */
    pid_t pid;   /* whose thread it is */
    bool has_thread, is_started;
    pthread_t thread;
};

static int bind_range(int fd, sa_family_t family, struct port_range r, ddp_error_t *errp)
{
    uint32_t start = 0, n = (uint32_t)(r.max - r.min) + 1;
    if (io_random(&start, sizeof start, errp) < 0)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        if (listen_bind(fd, family, r.min + (int)((start % n + i) % n)) == 0)
            return 0;
        else if (errno != EADDRINUSE && errno != EACCES)
            break;
    return error_errno(errp, "no port from %d to %d is free for srun", r.min, r.max);
}

/* Returns the port, or -1. */
static int take_port(int *ret_fd, struct port_range range, ddp_error_t *errp)
{
    sa_family_t family;
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof sa;
    int fd = listen_socket(&family);
    *ret_fd = fd;
    if (fd < 0)
        return error_errno(errp, "srun gets no socket");
    if (bind_range(fd, family, range, errp) < 0)
        return -1;
    if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
        return error_errno(errp, "srun's port");
    return ntohs(family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port : ((struct sockaddr_in *)&sa)->sin_port);
}

static void gather_free(gather_t *g)
{
    int saved = errno;
    io_close(g->server.listen_fd);
    io_close(g->server.stop_fd);
    io_close(g->done[0]);
    io_close(g->done[1]);
    free(g);
    errno = saved;
}

gather_t *gather_create(const struct gather_options *o, ddp_error_t *errp)
{
    gather_t *g = calloc(1, sizeof *g);
    if (!g) {
        error_errno(errp, "gather");
        return NULL;
    }
    *g = (gather_t){.server = {-1, -1, o->out_fd, o->collect_s, ""}, .done = {-1, -1}, .pid = getpid()};
    int port = take_port(&g->server.listen_fd, o->ports, errp);
    if (port < 0 || io_random_hex(g->server.token, TOKEN_BYTES, errp) < 0) {
        gather_free(g);
        return NULL;
    }
    snprintf(g->address, sizeof g->address, "%d:%s", port, g->server.token);
    return g;
}

const char *gather_address(const gather_t *g)
{
    return g->address;
}

static void *run(void *arg)
{
    gather_t *g = arg;
    gather_serve(&g->server);
    close(g->done[1]);
    return NULL;
}

int gather_start(gather_t *g, ddp_error_t *errp)
{
    if (g->is_started)
        return 0;
    g->is_started = true;
    if (listen(g->server.listen_fd, SOMAXCONN) < 0 || (g->server.stop_fd = eventfd(0, EFD_CLOEXEC)) < 0 ||
        pipe2(g->done, O_CLOEXEC) < 0 || thread_start(&g->thread, run, g) != 0) {
        shutdown(g->server.listen_fd, SHUT_RDWR);
        return error_errno(errp, "srun cannot listen for its nodes");
    }
    g->has_thread = true;
    return 0;
}

/* Whether the thread has let go of everything; if not, it is told to, and waited for. */
static bool end_thread(gather_t *g)
{
    uint64_t deadline = deadline_in(END_S);
    struct pollfd p = {.fd = g->done[0], .events = POLLIN};
    int n;
    if (eventfd_write(g->server.stop_fd, 1) < 0)
        return false;
    while ((n = poll(&p, 1, deadline_left_ms(deadline))) < 0 && errno == EINTR)
        ;
    if (n <= 0) {
        pthread_detach(g->thread);
        return false;
    }
    pthread_join(g->thread, NULL);
    g->done[1] = -1;
    return true;
}

void gather_destroy(gather_t *g)
{
    int saved = errno;
    if (g && g->pid == getpid() && (!g->has_thread || end_thread(g)))
        gather_free(g);
    errno = saved;
}
