/* boot_host.c - the card is "TOKEN NETWORK PORT HOST..." (TOKEN: boot_card.h): whoever is in NETWORK, which tells
 * network namespaces of all machines apart, tries the loopback address first; HOST are addresses of this machine. The
 * server listens where the card says and nowhere else, at one address where the one that the other ranks need is known:
 *
 *   all ranks on one node        at the loopback address, which is the only HOST: ranks of a node share its network,
 *                                for it is over that address that the PMIx library asks Slurm's daemon
 *   DDP_INTERFACE is set         at that interface's address (IPv4 if it has one); NETWORK is "?", which nobody is in.
 *                                Where it has none, or is the loopback: as without a usable interface
 *   MASTER_ADDR has one address  at the one by which this machine reaches it, where the ranks' data goes as well
 *                                (runtime/base/address.h); NETWORK is "?"
 *   no usable interface          at the loopback address; no HOST
 *   else                         at every address, for rank 0 cannot know by which of them the other hosts reach it: a
 *                                guess would end jobs whose nodes have several networks */
#include "pmix/boot_host.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmix/boot_card.h"
#include "runtime/base/address.h"
#include "runtime/base/clock.h"
#include "runtime/base/thread.h"

#define STEP_MS 50 /* how soon the thread sees that its deadline has changed */
#define TELL_S 1.0 /* where the exchange has failed: for those who have not heard it yet */
#define NETWORK_MAX 96
#define HOSTS_MAX 8
#define RESOLVE_S 2.0 /* for MASTER_ADDR's name; without an answer the server listens at every address */

struct boot_host {
    boot_server_t *server;
    pthread_t thread;
    bool is_running;
    _Atomic uint64_t until;
    char card[1024];
};

/* When to stop serving. After a failure nobody completes anything, and whoever waited was told at once: the rest, who
 * are late or hang, get a short grace, counted from the first call in which the end is wanted (*grace, 0 before). */
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
    ddp_error_t e;
    while (!boot_server_is_done(h->server) && clock_ns() < serve_until(h, &grace))
        if (boot_server_step(h->server, STEP_MS, &e) < 0) {
            boot_server_fail(h->server, 0, &e);
            poll(NULL, 0, STEP_MS); /* those who are told so leave, and make room for others to be told */
        }
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
    if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
        return false;
    const struct sockaddr_in6 *v6 = (const void *)i->ifa_addr;
    return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

/* Appends " HOST", where there is room. */
static bool add_host(const union address *a, char *text, size_t size)
{
    char host[NI_MAXHOST];
    size_t used = strlen(text);
    if (getnameinfo(&a->any, address_size(a), host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0 ||
        strlen(host) + 4 > size - used)
        return false;
    snprintf(text + used, size - used, a->any.sa_family == AF_INET6 ? " [%s]" : " %s", host);
    return true;
}

static void add_hosts(const struct ifaddrs *all, int family, char *text, size_t size)
{
    int n = 0;
    for (const struct ifaddrs *i = all; i && n < HOSTS_MAX; i = i->ifa_next)
        n += is_usable(i, family) && add_host((const union address *)i->ifa_addr, text, size);
}

/* The address that the other ranks need, where it is known. */
static bool know_address(bool is_one_node, union address *ret)
{
    const char *interface = getenv("DDP_INTERFACE");
    *ret = (union address){.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    if (is_one_node)
        return true;
    if (interface && *interface) {
        address_of_interface(interface, ret); /* none: the loopback one stays, and nobody comes from elsewhere */
        return true;
    }
    /* A resolver may have all addresses of a machine under its name: the others may not reach the first one. */
    bool is_only;
    return address_towards_master(deadline_in(RESOLVE_S), ret, &is_only) == 0 && is_only && !address_is_loopback(ret);
}

/* " HOST..." into text, and whether that is the one to listen at. */
static int list_hosts(bool is_one_node, char *text, size_t size, bool *ret_is_known, ddp_error_t *errp)
{
    union address known;
    struct ifaddrs *all = NULL;
    text[0] = 0;
    *ret_is_known = know_address(is_one_node, &known);
    if (*ret_is_known && (is_one_node || !address_is_loopback(&known))) /* another machine's is not this one's */
        add_host(&known, text, size);
    if (*ret_is_known)
        return 0;
    if (getifaddrs(&all) < 0)
        return error_errno(errp, "boot server: network interfaces");
    add_hosts(all, AF_INET, text, size);
    add_hosts(all, AF_INET6, text, size);
    freeifaddrs(all);
    return 0;
}

static boot_server_t *listen_for(const char *hosts, bool is_known, const char *token, int size, ddp_error_t *errp)
{
    char addr[NI_MAXHOST + 16] = "tcp:127.0.0.1:0";
    if (hosts[0] && !is_known) {
        boot_server_t *s = boot_server_create("tcp:[::]:0", token, size, NULL); /* IPv4 as well */
        return s ? s : boot_server_create("tcp:0.0.0.0:0", token, size, errp);
    }
    if (hosts[0])
        snprintf(addr, sizeof addr, "tcp:%s:0", hosts + 1);
    return boot_server_create(addr, token, size, errp);
}

static int start_server(boot_host_t *h, int size, bool is_one_node, ddp_error_t *errp)
{
    char network[NETWORK_MAX] = "?", hosts[sizeof h->card - 256], rest[sizeof h->card - CARD_HEAD_MAX];
    char token[CARD_HEAD_MAX];
    struct card_head head;
    bool is_known;
    if (card_begin(&head, errp) < 0 || list_hosts(is_one_node, hosts, sizeof hosts, &is_known, errp) < 0 ||
        !(h->server = listen_for(hosts, is_known, head.token, size, errp)))
        return -1;
    boot_server_end_with_round(h->server); /* a later program has a host of its own */
    if (!is_known || !hosts[0])
        name_network(network);
    const char *port = strrchr(boot_server_addr(h->server), ':') + 1;
    snprintf(rest, sizeof rest, "%s %s%s", network, port, hosts);
    card_sign(&head, rest, token);
    snprintf(h->card, sizeof h->card, "%s %s", token, rest);
    return 0;
}

static int start_thread(boot_host_t *h, ddp_error_t *errp)
{
    h->is_running = thread_start(&h->thread, serve, h) == 0;
    return h->is_running ? 0 : error_errno(errp, "boot server: thread " THREAD_LIMITS);
}

boot_host_t *boot_host_create(int size, bool is_one_node, ddp_error_t *errp)
{
    boot_host_t *h = calloc(1, sizeof *h);
    if (!h) {
        error_errno(errp, "boot server");
        return NULL;
    }
    h->until = UINT64_MAX;
    if (start_server(h, size, is_one_node, errp) < 0 || start_thread(h, errp) < 0)
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

/* A bridge of containers, say, has the same address on many machines: who listens there on this one is no server of
 * another's, and is not to see the token. */
static bool is_own(const char *host)
{
    struct ifaddrs *all = NULL;
    char text[NI_MAXHOST + 4] = "";
    bool is = false;
    if (getifaddrs(&all) < 0)
        return false;
    for (const struct ifaddrs *i = all; i && !is; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        text[0] = 0;
        is = (family == AF_INET || family == AF_INET6) && add_host((const void *)i->ifa_addr, text, sizeof text) &&
             !strcmp(text + 1, host);
    }
    freeifaddrs(all);
    return is;
}

int boot_host_addrs(const char *card, char *buf, size_t size, const char **ret_token, const char **ret_addrs)
{
    char token[CARD_TOKEN_LEN + 1], mine[NETWORK_MAX];
    const char *host, *text;
    if (card_read(card, token, &text) < 0)
        return BOOT_HOST_FORGED;
    char *copy = strdup(text), *rest = copy;
    const char *network = strsep(&rest, " "), *port = strsep(&rest, " ");
    size_t used = port ? (size_t)snprintf(buf, size, "%s", token) + 1 : size, start = used;
    name_network(mine);
    bool is_known = strcmp(mine, "?") != 0 && network && strcmp(network, "?") != 0;
    bool is_here = is_known && !strcmp(mine, network);
    if (used < size && is_here)
        used += (size_t)snprintf(buf + used, size - used, "tcp:127.0.0.1:%s", port);
    while (used < size && (host = strsep(&rest, " ")))
        if (is_here || !is_known || !is_own(host))
            used += (size_t)snprintf(buf + used, size - used, "%stcp:%s:%s", used > start ? " " : "", host, port);
    free(copy);
    if (used >= size || used == start)
        return -1;
    *ret_token = buf;
    *ret_addrs = buf + start;
    return 0;
}
