/* The address towards MASTER_ADDR, as the resolver has it. */
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <netdb.h>

#include "runtime/base/address.h"
#include "runtime/base/clock.h"

static const char *numbers[3]; /* what a host's name stands for, ended by NULL */

int __real_resolve_host(const char *host, const char *port, int socktype, uint64_t deadline, struct addrinfo **ret,
                        ddp_error_t *errp);
int __wrap_resolve_host(const char *host, const char *port, int socktype, uint64_t deadline, struct addrinfo **ret,
                        ddp_error_t *errp);

int __wrap_resolve_host(const char *host, const char *port, int socktype, uint64_t deadline, struct addrinfo **ret,
                        ddp_error_t *errp)
{
    (void)host;
    for (int i = 0; numbers[i]; i++) {
        assert_int_equal(__real_resolve_host(numbers[i], port, socktype, deadline, ret, errp), 0);
        while (*ret)
            ret = &(*ret)->ai_next;
    }
    return 0;
}

static int towards(const char *master, const char *first, const char *second, union address *ret, bool *ret_is_only)
{
    numbers[0] = first;
    numbers[1] = second;
    setenv("MASTER_ADDR", master, 1);
    int rc = address_towards_master(deadline_in(20), ret, ret_is_only);
    unsetenv("MASTER_ADDR");
    return rc;
}

static void a_loopback_address_is_none_unless_it_was_asked_for(void **state)
{
    static const struct {
        const char *master, *number;
        int rc;
    } cases[] = {{"n1", "127.0.1.1", -1},       {"n1", "127.0.0.1", -1},     {"localhost.n1", "127.0.0.1", -1},
                 {"localhost", "127.0.0.1", 0}, {"127.0.1.1", "127.0.1.1", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        union address a;
        bool is_only = false;
        assert_int_equal(towards(cases[i].master, cases[i].number, NULL, &a, &is_only), cases[i].rc);
        assert_true(cases[i].rc < 0 || (is_only && address_is_loopback(&a)));
    }
}

/* As where a name has both, in any order. */
static void it_is_passed_over_for_one_that_others_reach(void **state)
{
    (void)state;
    char own[INET_ADDRSTRLEN];
    union address want, a;
    bool is_only = false;
    unit_needs(address_of_interface(NULL, &want) == 0 && want.any.sa_family == AF_INET, "an IPv4 network");
    inet_ntop(AF_INET, &want.v4.sin_addr, own, sizeof own);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(towards("n1", i ? own : "127.0.1.1", i ? "127.0.1.1" : own, &a, &is_only), 0);
        assert_int_equal(a.v4.sin_addr.s_addr, want.v4.sin_addr.s_addr);
        assert_true(is_only);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_loopback_address_is_none_unless_it_was_asked_for),
    cmocka_unit_test(it_is_passed_over_for_one_that_others_reach),
};
UNIT_MAIN(tests)
