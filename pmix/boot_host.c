/* boot_host.c - the card is "TOKEN NETWORK PORT HOST...": NETWORK tells network namespaces of all machines apart, HOST
 * are the addresses of this machine's interfaces, IPv4 first (of DDP_INTERFACE alone, where that is set). */
#include "pmix/boot_host.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmix/boot_server.h"
#include "runtime/base/clock.h"
#include "runtime/base/io.h"

#define STEP_MS 50 /* how soon the thread sees that its deadline has changed */
#define TELL_S 1.0 /* where the exchange has failed: for those who have not heard it yet */
#define NETWORK_MAX 96
#define HOSTS_MAX 8

struct boot_host {
    boot_server_t *server;
    pthread_t thread;
    bool is_running;
    _Atomic uint64_t until;
    char card[1024];
};

/* When to stop serving. After a failure nobody completes anything, and whoever waited was told at once: the rest, who are
 * late or hang, get a short grace, counted from the first call in which the end is wanted (*grace, 0 before). */
static uint64_t serve_until(const boot_host_t *h, uint64_t *grace)
{
    uint64_t until = h->until;
    if (until == UINT64_MAX || boot_server_failed_rank(h->server) < 0)
        return until;
    if (*grace == 0)
        *grace = deadline_in(TELL_S);
    return *grace < until ? *grace : until;
}

static void *serve(void *arg)
{
    boot_host_t *h = arg;
    uint64_t grace = 0;
    while (!boot_server_is_done(h->server) && clock_ns() < serve_until(h, &grace))
        if (boot_server_step(h->server, STEP_MS, NULL) < 0)
            break; /* the ranks' deadlines say the rest */
    return NULL;
}

/* "BOOT-ID/net:[INODE]" of this process's network; "?" where it cannot be told. */
static void name_network(char name[NETWORK_MAX])
{
    char id[40] = "", net[40] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool is_known = f && fscanf(f, "%39s", id) == 1 && readlink("/proc/self/ns/net", net, sizeof net - 1) > 0;
    if (f)
        fclose(f);
    if (is_known)
        snprintf(name, NETWORK_MAX, "%s/%s", id, net);
    else
        snprintf(name, NETWORK_MAX, "?");
}

static bool is_usable(const struct ifaddrs *i, int family)
{
    const char *only = getenv("DDP_INTERFACE");
    if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP))
        return false;
    const struct sockaddr_in6 *v6 = (const void *)i->ifa_addr;
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
        return false;
    return only && *only ? !strcmp(i->ifa_name, only) : !(i->ifa_flags & IFF_LOOPBACK);
}

/* Appends " HOST" for every address of the family. Returns how many. */
static int add_hosts(const struct ifaddrs *all, int family, char *text, size_t size)
{
    int n = 0;
    socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    for (const struct ifaddrs *i = all; i && n < HOSTS_MAX; i = i->ifa_next) {
        char host[NI_MAXHOST];
        size_t used = strlen(text);
        if (!is_usable(i, family) || getnameinfo(i->ifa_addr, len, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0 ||
            strlen(host) + 4 > size - used)
            continue;
        snprintf(text + used, size - used, family == AF_INET6 ? " [%s]" : " %s", host);
        n++;
    }
    return n;
}

static int write_card(boot_host_t *h, const char *token, ddp_error_t *errp)
{
    struct ifaddrs *all = NULL;
    char network[NETWORK_MAX];
    const char *port = strrchr(boot_server_addr(h->server), ':') + 1;
    name_network(network);
    if (getifaddrs(&all) < 0)
        return error_errno(errp, "boot server: network interfaces");
    int used = snprintf(h->card, sizeof h->card, "%s %s %s", token, network, port);
    int n = add_hosts(all, AF_INET, h->card, sizeof h->card) + add_hosts(all, AF_INET6, h->card, sizeof h->card);
    freeifaddrs(all);
    if (n == 0) /* a machine without a network: all ranks are here */
        snprintf(h->card + used, sizeof h->card - (size_t)used, " 127.0.0.1");
    return 0;
}

static int start_thread(boot_host_t *h, ddp_error_t *errp)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the program's own business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(&h->thread, NULL, serve, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    h->is_running = e == 0;
    errno = e;
    return e ? error_errno(errp, "boot server: thread") : 0;
}

boot_host_t *boot_host_create(int size, ddp_error_t *errp)
{
    boot_host_t *h = calloc(1, sizeof *h);
    char token[2 * BOOT_TOKEN_BYTES + 1];
    if (!h) {
        error_errno(errp, "boot server");
        return NULL;
    }
    h->until = UINT64_MAX;
    if (io_random_hex(token, BOOT_TOKEN_BYTES, errp) < 0)
        goto fail;
    h->server = boot_server_create("tcp:[::]:0", token, size, NULL); /* IPv4 as well */
    if (!h->server)
        h->server = boot_server_create("tcp:0.0.0.0:0", token, size, errp);
    if (!h->server || write_card(h, token, errp) < 0 || start_thread(h, errp) < 0)
        goto fail;
    return h;
fail:
    boot_host_destroy(h, 0);
    return NULL;
}

const char *boot_host_card(const boot_host_t *h)
{
    return h->card;
}

void boot_host_destroy(boot_host_t *h, uint64_t deadline)
{
    if (!h)
        return;
    int saved = errno;
    h->until = deadline;
    if (h->is_running)
        pthread_join(h->thread, NULL);
    boot_server_destroy(h->server);
    free(h);
    errno = saved;
}

int boot_host_addrs(const char *card, char *buf, size_t size, const char **ret_token, const char **ret_addrs)
{
    char *copy = strdup(card), *rest = copy, mine[NETWORK_MAX];
    const char *token = strsep(&rest, " "), *network = strsep(&rest, " "), *port = strsep(&rest, " ");
    const char *host;
    size_t used = port ? (size_t)snprintf(buf, size, "%s", token) + 1 : size, start = used;
    name_network(mine);
    if (used < size && strcmp(mine, "?") != 0 && !strcmp(mine, network))
        used += (size_t)snprintf(buf + used, size - used, "tcp:127.0.0.1:%s", port);
    while (used < size && (host = strsep(&rest, " ")))
        used += (size_t)snprintf(buf + used, size - used, "%stcp:%s:%s", used > start ? " " : "", host, port);
    free(copy);
    if (used >= size || used == start)
        return -1;
    *ret_token = buf;
    *ret_addrs = buf + start;
    return 0;
}
