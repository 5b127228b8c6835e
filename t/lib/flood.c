/* flood - a stranger on this machine that wears out whoever listens. For tests, in a network namespace of their own.
 *
 *   flood SECONDS THREADS close|silence|garbage UID [ADDRESS]
 *
 * Finds, again and again, every TCP port that a process of user UID listens at (with ADDRESS: at that IPv4 address, or
 * at all of IPv6) and every listening unix socket whose name begins with "ddp-" (abstract) or whose folder's name does,
 * and connects to them from THREADS threads:
 *
 *   close     closes at once
 *   silence   holds HELD_MAX connections of each thread, saying nothing
 *   garbage   sends what is no token, and closes
 *
 * Ends after SECONDS, CONNECTIONS_MAX connections, or when its parent ends; says how many connections there were. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/base/clock.h"

enum { TARGETS_MAX = 64, THREADS_MAX = 16, HELD_MAX = 200, LISTEN = 10 /* TCP_LISTEN in /proc/net/tcp */ };
#define CONNECTIONS_MAX 20000000ul

struct target {
    struct sockaddr_storage sa;
    socklen_t len;
};

static struct {
    pthread_mutex_t lock;
    struct target target[TARGETS_MAX];
    size_t n;
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum { CLOSE, SILENCE, GARBAGE } way;
static atomic_bool is_over;
static atomic_ulong n_connections;

static void add(struct target *list, size_t *n, const void *sa, size_t len)
{
    if (*n == TARGETS_MAX)
        return;
    memcpy(&list[*n].sa, sa, len);
    list[(*n)++].len = (socklen_t)len;
}

static void find_tcp(struct target *list, size_t *n, const char *table, unsigned uid, uint32_t only)
{
    char line[512], address[40];
    unsigned port, state, owner;
    FILE *f = fopen(table, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, " %*d: %39[0-9A-F]:%x %*s %x %*s %*s %*s %u", address, &port, &state, &owner) != 4 ||
            state != LISTEN || owner != uid)
            continue;
        size_t digits = strlen(address);
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        if (digits == 8)
            four.sin_addr.s_addr = (uint32_t)strtoul(address, NULL, 16);
        if (only && digits == 8 && four.sin_addr.s_addr != only)
            continue;
        if (digits != 8 || four.sin_addr.s_addr == 0) /* IPv6: at all addresses */
            four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        add(list, n, &four, sizeof four);
    }
    if (f)
        fclose(f);
}

/* Not Slurm's and munge's, which lie deeper in a test's folder. */
static bool is_ours(const char *name)
{
    const char *folder = strstr(name, "/ddp-"), *file = folder ? strchr(folder + 1, '/') : NULL;
    return strncmp(name, "@ddp-", 5) == 0 || (file && !strchr(file + 1, '/'));
}

static void find_unix(struct target *list, size_t *n)
{
    char line[512], name[256];
    unsigned flags;
    FILE *f = fopen("/proc/net/unix", "re");
    while (f && fgets(line, sizeof line, f)) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        if (sscanf(line, "%*s %*s %*s %x %*s %*s %*s %255s", &flags, name) != 2 || !(flags & 0x10000) ||
            !is_ours(name) || strlen(name) >= sizeof un.sun_path)
            continue;
        memcpy(un.sun_path, name, strlen(name));
        if (name[0] == '@')
            un.sun_path[0] = 0;
        add(list, n, &un, offsetof(struct sockaddr_un, sun_path) + strlen(name) + (name[0] != '@'));
    }
    if (f)
        fclose(f);
}

static void find(unsigned uid, uint32_t only)
{
    static struct target list[TARGETS_MAX];
    size_t n = 0;
    find_tcp(list, &n, "/proc/net/tcp", uid, only);
    find_tcp(list, &n, "/proc/net/tcp6", uid, only);
    find_unix(list, &n);
    pthread_mutex_lock(&found.lock);
    memcpy(found.target, list, n * sizeof *list);
    found.n = n;
    pthread_mutex_unlock(&found.lock);
}

static void strike(const struct target *t, int *held)
{
    static const char garbage[256] = "GET / HTTP/1.0\r\n\r\n";
    int fd = socket(t->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&t->sa, t->len) == 0 || errno == EINPROGRESS)
        atomic_fetch_add(&n_connections, 1);
    if (way == GARBAGE)
        send(fd, garbage, sizeof garbage, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (way == SILENCE) {
        int old = *held;
        *held = fd;
        fd = old;
    }
    if (fd >= 0)
        close(fd);
}

static void *run(void *arg)
{
    int held[HELD_MAX];
    for (int i = 0; i < HELD_MAX; i++)
        held[i] = -1;
    (void)arg;
    for (size_t i = 0; !is_over && n_connections < CONNECTIONS_MAX; i++) {
        struct target t = {.len = 0};
        pthread_mutex_lock(&found.lock);
        if (found.n)
            t = found.target[i % found.n];
        pthread_mutex_unlock(&found.lock);
        if (t.len)
            strike(&t, &held[i % HELD_MAX]);
        else
            poll(NULL, 0, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS_MAX];
    struct in_addr only = {0};
    int n = argc == 5 || argc == 6 ? atoi(argv[2]) : 0;
    if (n < 1 || n > THREADS_MAX || (argc == 6 && inet_pton(AF_INET, argv[5], &only) != 1))
        return fprintf(stderr, "usage: flood SECONDS THREADS close|silence|garbage UID [ADDRESS]\n"), 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    way = !strcmp(argv[3], "silence") ? SILENCE : !strcmp(argv[3], "garbage") ? GARBAGE : CLOSE;
    uint64_t deadline = deadline_in(atof(argv[1]));
    for (int i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, run, NULL) != 0)
            return 1;
    puts("flooding");
    fflush(stdout);
    while (deadline_left_ns(deadline) > 0 && n_connections < CONNECTIONS_MAX) {
        find((unsigned)atoi(argv[4]), only.s_addr);
        poll(NULL, 0, 2);
    }
    is_over = true;
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    printf("%lu connections\n", (unsigned long)n_connections);
    return 0;
}
