/* peers - a program that knows nothing of slurm-ddp: all ranks meet at MASTER_ADDR:MASTER_PORT, as torch's env:// does.
 * Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT alone. Rank 0 listens; every other rank connects, says its rank
 * and is told how many came. Each prints "rank R met N". Gives up after 30 seconds. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 64

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static const char *need(const char *name)
{
    const char *v = getenv(name);
    if (!v) {
        fprintf(stderr, "%s is not set\n", name);
        exit(1);
    }
    return v;
}

static struct addrinfo *resolve(void)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *ret;
    int rc = getaddrinfo(need("MASTER_ADDR"), need("MASTER_PORT"), &hints, &ret);
    if (rc) {
        fprintf(stderr, "%s: %s\n", getenv("MASTER_ADDR"), gai_strerror(rc));
        exit(1);
    }
    return ret;
}

static int serve(int size)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0), peer[RANKS_MAX] = {0}, met = 1;
    struct addrinfo *a = resolve();
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, RANKS_MAX) < 0)
        die("listen");
    while (met < size) {
        int rank, c = accept(fd, NULL, NULL);
        if (c < 0 || recv(c, &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank < 1 || rank >= size || peer[rank])
            die("a peer");
        peer[rank] = c;
        met++;
    }
    for (int r = 1; r < size; r++)
        if (send(peer[r], &met, sizeof met, MSG_NOSIGNAL) != sizeof met)
            die("send");
    return met;
}

static int join(int rank)
{
    struct addrinfo *a = resolve();
    int met, fd;
    while ((fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
        close(fd); /* rank 0 does not listen yet; alarm() bounds this */
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    if (fd < 0 || send(fd, &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank ||
        recv(fd, &met, sizeof met, MSG_WAITALL) != sizeof met)
        die("rank 0");
    return met;
}

int main(void)
{
    int rank = atoi(need("RANK")), size = atoi(need("WORLD_SIZE"));
    if (size < 1 || size > RANKS_MAX)
        return 1;
    alarm(30);
    printf("rank %d met %d\n", rank, rank == 0 ? serve(size) : join(rank));
    return 0;
}
