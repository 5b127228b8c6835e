/* The card that tells where a boot server is: its addresses, where the server listens, and who can read its token. */
#include "t/unit/unit.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <unistd.h>

#include "pmix/boot_host.h"
#include "pmix/boot_wire.h"
#include "runtime/base/address.h"
#include "runtime/base/secret.h"

static const char step_secret[] = "0123456789abcdef0123456789abcdeffedcba9876543210fedcba9876543210";

static void loopback_is_for_the_same_network_only(void **state)
{
    (void)state;
    char buf[2048], card[1024];
    const char *token, *addrs;
    boot_host_t *h = boot_host_create(1, false, NULL);
    assert_int_equal(boot_host_addrs(boot_host_card(h), buf, sizeof buf, &token, &addrs), 0);
    assert_int_equal(strlen(token), 64);
    assert_ptr_equal(strstr(addrs, "tcp:127.0.0.1:"), addrs);
    assert_int_equal(boot_host_addrs("aa other/net:[1] 4711 10.0.0.1 [fd00::1]", buf, sizeof buf, &token, &addrs), 0);
    assert_string_equal(token, "aa");
    assert_string_equal(addrs, "tcp:10.0.0.1:4711 tcp:[fd00::1]:4711");
    static const char *const bad[] = {"", "aa", "aa net", "aa other 4711"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(boot_host_addrs(bad[i], buf, sizeof buf, &token, &addrs), -1);
    snprintf(card, sizeof card, "%s", boot_host_card(h));
    assert_int_equal(boot_host_addrs(card, buf, 80, &token, &addrs), -1); /* no room */
    boot_host_destroy(h, 0);
}

static int read_with(const char *secret, const char *card, char token[65])
{
    char buf[2048];
    const char *found, *addrs;
    if (secret)
        setenv(SECRET_VARIABLE, secret, 1);
    else
        unsetenv(SECRET_VARIABLE);
    int rc = boot_host_addrs(card, buf, sizeof buf, &found, &addrs);
    if (rc == 0)
        snprintf(token, 65, "%s", found);
    return rc;
}

/* PMIx and PMI let others on the machine read what rank 0 publishes, or write it. */
static void the_card_of_a_step_with_a_secret_tells_nobody_and_is_nobody_elses(void **state)
{
    (void)state;
    static const char other[] = "0123456789abcdef0123456789abcdeefedcba9876543210fedcba9876543210";
    char token[65], again[65], card[1024];
    setenv(SECRET_VARIABLE, step_secret, 1);
    boot_host_t *h = boot_host_create(1, false, NULL), *later = boot_host_create(1, false, NULL);
    snprintf(card, sizeof card, "%s", boot_host_card(h));
    assert_int_equal(read_with(step_secret, card, token), 0);
    assert_int_equal(strlen(token), 64);
    assert_null(strstr(card, token));
    assert_int_equal(read_with(step_secret, boot_host_card(later), again), 0);
    assert_string_not_equal(token, again);
    assert_int_equal(read_with(other, card, again), BOOT_HOST_FORGED);
    assert_int_equal(read_with(NULL, card, again), BOOT_HOST_FORGED);
    for (size_t i = 0; card[i]; i++) {
        card[i] ^= 1;
        assert_int_equal(read_with(step_secret, card, again), BOOT_HOST_FORGED);
        card[i] ^= 1;
    }
    setenv("PMIX_NAMESPACE", "prterun-4711@1", 1); /* mpirun's */
    assert_int_equal(read_with(step_secret, card, again), BOOT_HOST_FORGED);
    setenv("PMIX_NAMESPACE", "slurm.pmix.4711.0", 1);
    assert_int_equal(read_with(step_secret, card, again), 0);
    unsetenv("PMIX_NAMESPACE");
    unsetenv(SECRET_VARIABLE);
    boot_host_destroy(h, 0);
    boot_host_destroy(later, 0);
    h = boot_host_create(1, false, NULL);
    assert_int_equal(read_with(step_secret, boot_host_card(h), again), BOOT_HOST_FORGED);
    unsetenv(SECRET_VARIABLE);
    boot_host_destroy(h, 0);
}

static void an_address_of_ones_own_is_no_other_machines(void **state)
{
    (void)state;
    char buf[2048];
    const char *token, *addrs, *card = "aa other/net:[1] 4711 127.0.0.1 10.255.254.253 [::1]";
    assert_int_equal(boot_host_addrs(card, buf, sizeof buf, &token, &addrs), 0);
    assert_string_equal(addrs, "tcp:10.255.254.253:4711");
    assert_int_equal(boot_host_addrs("aa other/net:[1] 4711 127.0.0.1", buf, sizeof buf, &token, &addrs), -1);
    assert_int_equal(boot_host_addrs("aa ? 4711 127.0.0.1", buf, sizeof buf, &token, &addrs), 0); /* the only one */
}

/* Whether something listens at addr, which has the port of the card. */
static bool is_open(const char *host, const char *addrs)
{
    char addr[128];
    struct wire_addr a;
    snprintf(addr, sizeof addr, "tcp:%s%s", host, strrchr(addrs, ':'));
    assert_int_equal(wire_addr_parse(addr, 0, &a, NULL), 0);
    int fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is = connect(fd, (struct sockaddr *)&a.sa, a.len) == 0;
    close(fd);
    return is;
}

/* *ret = where the card of a host that was made with DDP_INTERFACE=name says it is. */
static boot_host_t *host_on(const char *name, char *buf, size_t size, const char **ret)
{
    const char *token;
    setenv("DDP_INTERFACE", name, 1);
    boot_host_t *h = boot_host_create(1, false, NULL);
    unsetenv("DDP_INTERFACE");
    assert_non_null(h);
    assert_int_equal(boot_host_addrs(boot_host_card(h), buf, size, &token, ret), 0);
    return h;
}

static void one_interface_is_one_address(void **state)
{
    (void)state;
    char buf[2048], host[NI_MAXHOST];
    const char *addrs;
    struct ifaddrs *all, *i;
    static const char *const here[] = {"lo", "ddp-t-none"}; /* no other host gets there: loopback, for this one */
    for (size_t k = 0; k < 2; k++) {
        boot_host_t *h = host_on(here[k], buf, sizeof buf, &addrs);
        assert_ptr_equal(strstr(addrs, "tcp:127.0.0.1:"), addrs);
        assert_null(strchr(addrs, ' '));
        assert_true(is_open("127.0.0.1", addrs));
        assert_false(is_open("127.0.0.2", addrs));
        boot_host_destroy(h, 0);
    }
    assert_int_equal(getifaddrs(&all), 0);
    for (i = all; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && i->ifa_flags & IFF_UP && !(i->ifa_flags & IFF_LOOPBACK))
            break;
    if (i) { /* else this machine has no network */
        getnameinfo(i->ifa_addr, sizeof(struct sockaddr_in), host, sizeof host, NULL, 0, NI_NUMERICHOST);
        boot_host_t *h = host_on(i->ifa_name, buf, sizeof buf, &addrs);
        assert_ptr_equal(strstr(addrs + 4, host), addrs + 4);
        assert_null(strchr(addrs, ' '));
        assert_true(is_open(host, addrs));
        assert_false(is_open("127.0.0.1", addrs));
        boot_host_destroy(h, 0);
    }
    freeifaddrs(all);
}

/* The first IPv4 address that is not the loopback's. False: this machine has no network. */
static bool find_host(char *host, size_t size)
{
    union address a;
    return address_of_interface(NULL, &a) == 0 && a.any.sa_family == AF_INET &&
           getnameinfo(&a.any, address_size(&a), host, (socklen_t)size, NULL, 0, NI_NUMERICHOST) == 0;
}

/* Where MASTER_ADDR is, or all ranks on one node: at the one address that others need. */
static void a_known_address_is_the_only_one(void **state)
{
    (void)state;
    char buf[2048], host[NI_MAXHOST];
    const char *token, *addrs;
    bool has_network = find_host(host, sizeof host);
    boot_host_t *h = boot_host_create(1, true, NULL);
    assert_int_equal(boot_host_addrs(boot_host_card(h), buf, sizeof buf, &token, &addrs), 0);
    assert_ptr_equal(strstr(addrs, "tcp:127.0.0.1:"), addrs);
    assert_null(strchr(addrs, ' '));
    assert_true(is_open("127.0.0.1", addrs));
    assert_false(has_network && is_open(host, addrs));
    boot_host_destroy(h, 0);
    if (!has_network)
        return;
    static const char *const elsewhere[] = {"127.0.0.1", "localhost", "no-such-host.invalid"}; /* tell nothing */
    for (size_t i = 0; i < 1 + sizeof elsewhere / sizeof *elsewhere; i++) {
        setenv("MASTER_ADDR", i == 0 ? host : elsewhere[i - 1], 1);
        h = boot_host_create(1, false, NULL);
        unsetenv("MASTER_ADDR");
        assert_int_equal(boot_host_addrs(boot_host_card(h), buf, sizeof buf, &token, &addrs), 0);
        assert_true(is_open(host, addrs));
        assert_int_equal(is_open("127.0.0.1", addrs), i > 0);
        assert_int_equal(strchr(addrs, ' ') != NULL, i > 0);
        boot_host_destroy(h, 0);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(loopback_is_for_the_same_network_only),
    cmocka_unit_test(the_card_of_a_step_with_a_secret_tells_nobody_and_is_nobody_elses),
    cmocka_unit_test(an_address_of_ones_own_is_no_other_machines),
    cmocka_unit_test(one_interface_is_one_address),
    cmocka_unit_test(a_known_address_is_the_only_one),
};
UNIT_MAIN(tests)
