/* Ports that are free and that are not, and descriptors, of which none is lost. */
#include "t/unit/unit.h"

#include <netinet/in.h>

#include "spank/net/lifeline.h"
#include "spank/net/listen.h"
#include "t/lib/network.h"

/* Listens at a free port, behind which so many more are free, and stay so where the network is this test's. */
static int listen_before(int n_free, int *ret_port)
{
    network_enter_own();
    for (int i = 0; i < 100; i++) {
        int fd, port = listen_take_port(&fd, (struct port_range){0, 0}, NULL);
        assert_true(port > 0);
        assert_int_equal(listen(fd, 4), 0);
        int k = 1;
        while (k <= n_free && !listen_is_taken(port + k))
            k++;
        *ret_port = port;
        if (k > n_free)
            return fd;
        close(fd);
    }
    fail_msg("no free ports");
    return -1;
}

static void a_port_of_the_range_that_is_free_is_found(void **state)
{
    (void)state;
    int port, taken = listen_before(2, &port);
    for (int i = 0; i < 30; i++) {
        int fd, got = listen_take_port(&fd, (struct port_range){port, port + 2}, NULL);
        assert_true(got == port + 1 || got == port + 2);
        close(fd);
        assert_int_equal(listen_take_port(&fd, (struct port_range){port, port + 1}, NULL), port + 1);
        close(fd);
        ddp_error_t e;
        assert_int_equal(listen_take_port(&fd, (struct port_range){port, port}, &e), -1);
        assert_error_has(e, "is free for srun: Address already in use");
        close(fd);
        int next = unit_next_descriptor();
        assert_int_equal(lifeline_listen((struct port_range){port, port}, NULL, &e), -1);
        assert_int_equal(unit_next_descriptor(), next);
    }
    close(taken);
}

/* As those below net.ipv4.ip_unprivileged_port_start. */
static void ports_that_a_user_may_not_have_are_passed_over(void **state)
{
    (void)state;
    int fd, got = 0;
    unit_needs(geteuid() == 0, "root, to become another user");
    for (int i = 0; i < 30 && got >= 0; i++) {
        unit_as_another_user(got = listen_take_port(&fd, (struct port_range){1000, 1100}, NULL));
        close(fd);
    }
    assert_true(got >= 0);
}

static void a_connection_that_is_over_takes_no_port(void **state)
{
    (void)state;
    int first = unit_next_descriptor(), port, door = listen_before(0, &port), out;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0); /* as PyTorch's store */
    assert_int_equal(connect(out, (struct sockaddr *)&to, sizeof to), 0);
    int in = accept(door, NULL, NULL);
    assert_true(in >= 0);
    assert_true(listen_is_taken(port));
    close(in); /* this side first, which the kernel remembers for a minute */
    close(out);
    assert_true(listen_is_taken(port));
    close(door);
    assert_false(listen_is_taken(port));
    assert_int_equal(unit_next_descriptor(), first);
}

static void a_name_that_is_taken_costs_no_descriptor(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "ddp-t-listen-%d", (int)getpid());
    int fd = listen_abstract(name), first = unit_next_descriptor();
    assert_true(fd >= 0);
    assert_int_equal(listen_abstract(name), -1);
    assert_int_equal(unit_next_descriptor(), first);
    close(fd);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_port_of_the_range_that_is_free_is_found),
    cmocka_unit_test(ports_that_a_user_may_not_have_are_passed_over),
    cmocka_unit_test(a_connection_that_is_over_takes_no_port),
    cmocka_unit_test(a_name_that_is_taken_costs_no_descriptor),
};
UNIT_MAIN(tests)
