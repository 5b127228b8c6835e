#include "config.h"
#include "spank/gather/gather.h"

#include <errno.h>
#include <fcntl.h>
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
#include "spank/gather/impl.h"
#include "spank/net/listen.h"

#define END_S 0.2 /* how long srun's end waits for the thread */

struct gather {
    struct server_options server;
    char address[16 + TOKEN_LEN];
    int done[2]; /* the thread closes done[1] as the last thing that it does */
    pid_t pid;   /* whose thread it is */
    bool has_thread, is_started;
    pthread_t thread;
};

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
    int port = listen_take_port(&g->server.listen_fd, o->ports, errp);
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
