/* What NCCL is told: configuration files, the interface of a route. */
#include "t/unit/spank/vars.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include "runtime/base/clock.h"
#include "spank/nccl.h"
#include "t/lib/folder.h"

static void configuration_is_read_as_nccl_reads_it(void **state)
{
    (void)state;
    static const struct { const char *text; bool sets; } cases[] = {
        {"NCCL_SOCKET_IFNAME=ib0\n", true},        {"NCCL_SOCKET_IFNAME=ib0", true},
        {"NCCL_SOCKET_IFNAME=\n", true},           {"A=1\r\nNCCL_SOCKET_IFNAME=x\r\n", true},
        {"NCCL_SOCKET_IFNAME", false},             {"#NCCL_SOCKET_IFNAME=ib0\n", false},
        {" NCCL_SOCKET_IFNAME=ib0\n", false},      {"NCCL_SOCKET_IFNAME =ib0\n", false},
        {"NCCL_SOCKET_IFNAMES=ib0\n", false},      {"X=NCCL_SOCKET_IFNAME=ib0\n", false},
        {"\n\n\nNCCL_SOCKET_IFNAME==ib0\n", true}, {"", false},
        {"\n", false},                             {"nccl_socket_ifname=ib0\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (nccl_conf_sets(cases[i].text, strlen(cases[i].text), "NCCL_SOCKET_IFNAME") != cases[i].sets)
            fail_msg("case %zu: %s", i, cases[i].text);
    assert_false(nccl_conf_sets("NCCL_SOCKET_IFNAME=x", 18, "NCCL_SOCKET_IFNAME")); /* cut before the = */
}

static void write_file(const char *file, const char *text)
{
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void who_has_said_it_already_is_found(void **state)
{
    (void)state;
    char home_file[80], own_file[80];
    struct vars v = {0};
    snprintf(home_file, sizeof home_file, "%s/.nccl.conf", test_folder);
    snprintf(own_file, sizeof own_file, "%s/own", test_folder);
    put(&v, "HOME", test_folder);
    assert_false(nccl_is_configured("NCCL_SOCKET_IFNAME", lookup, &v));
    write_file(home_file, "NCCL_SOCKET_IFNAME=x\n");
    assert_true(nccl_is_configured("NCCL_SOCKET_IFNAME", lookup, &v));
    assert_false(nccl_is_configured("NCCL_IB_HCA", lookup, &v));
    put(&v, "NCCL_CONF_FILE", own_file); /* in place of ~/.nccl.conf, also where it is not there */
    assert_false(nccl_is_configured("NCCL_SOCKET_IFNAME", lookup, &v));
    write_file(own_file, "NCCL_IB_HCA=x\n");
    assert_true(nccl_is_configured("NCCL_IB_HCA", lookup, &v));
    put(&v, "NCCL_SOCKET_IFNAME", "");
    assert_true(nccl_is_configured("NCCL_SOCKET_IFNAME", lookup, &v));
}

static void loopback_and_strangers_have_no_interface(void **state)
{
    (void)state;
    ddp_error_t e;
    char buf[NCCL_INTERFACE_TEXT] = "as it was";
    assert_int_equal(nccl_interface("127.0.0.1", deadline_in(5), buf, &e), -1);
    assert_error_has(e, "loopback");
    assert_int_equal(nccl_interface("no-such-host.invalid", deadline_in(5), buf, &e), -1);
    assert_error_has(e, "no-such-host.invalid");
    assert_int_equal(nccl_interface("0:0:0:0:0:0:0:0:0", deadline_in(5), buf, &e), -1);
    assert_string_equal(buf, "as it was");
}

/* The name of an interface here that is no loopback, and its address; false: there is none. */
static bool find_own(char name[NCCL_INTERFACE_TEXT], char *address, socklen_t size)
{
    struct ifaddrs *mine = NULL;
    bool found = false;
    assert_int_equal(getifaddrs(&mine), 0);
    for (const struct ifaddrs *i = mine; i && !found; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && !(i->ifa_flags & IFF_LOOPBACK) &&
            (i->ifa_flags & IFF_UP) && strlen(i->ifa_name) < NCCL_INTERFACE_TEXT) {
            found = getnameinfo(i->ifa_addr, sizeof(struct sockaddr_in), address, size, NULL, 0, NI_NUMERICHOST) == 0;
            strcpy(name, i->ifa_name);
        }
    freeifaddrs(mine);
    return found;
}

static void another_node_tells_where_the_own_name_is_loopback(void **state)
{
    (void)state;
    ddp_error_t e;
    char own[NCCL_INTERFACE_TEXT], buf[NCCL_INTERFACE_TEXT] = "", address[64], list[80];
    if (!find_own(own, address, sizeof address))
        return;
    snprintf(list, sizeof list, "127.0.1.1,%s", address);
    assert_int_equal(nccl_step_interface("127.0.1.1", list, "127.0.1.1", deadline_in(5), buf, &e), 0);
    assert_string_equal(buf, own);
    assert_int_equal(nccl_step_interface(address, "127.0.1.1,127.0.1.2", "127.0.1.1", deadline_in(5), buf, &e), 0);
    assert_string_equal(buf, own);
    strcpy(buf, ""); /* another name of this node */
    assert_int_equal(nccl_step_interface("127.0.1.3", list, "127.0.1.1", deadline_in(5), buf, &e), 0);
    assert_string_equal(buf, own);
    assert_int_equal(nccl_step_interface("127.0.1.3", NULL, "127.0.1.1", deadline_in(5), buf, &e), -1);
    assert_int_equal(nccl_step_interface("127.0.1.1", "127.0.1.1", "127.0.1.1", deadline_in(5), buf, &e), -1);
    assert_int_equal(nccl_step_interface("127.0.1.1", NULL, "127.0.1.1", deadline_in(5), buf, &e), -1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(configuration_is_read_as_nccl_reads_it),
    cmocka_unit_test_setup_teardown(who_has_said_it_already_is_found, folder_make, folder_remove),
    cmocka_unit_test(loopback_and_strangers_have_no_interface),
    cmocka_unit_test(another_node_tells_where_the_own_name_is_loopback),
};
UNIT_MAIN(tests)
