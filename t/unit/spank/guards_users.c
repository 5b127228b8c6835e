/* The guards of a node among other users, who see the names of their sockets. */
#include "config.h"
#include "t/unit/unit.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/door.h"
#include "runtime/base/io.h"
#include "spank/guards/guards.h"
#include "spank/guards/proof.h"
#include "spank/net/listen.h"

static struct guards_facts facts_of(int local_rank)
{
    static char token[GUARDS_TOKEN_LEN + 1];
    struct guards_facts f = {.rank = local_rank, .local_rank = local_rank, .size = 2, .local_size = 2, .n_nodes = 1,
                             .join_s = GUARDS_JOIN_S, .stuck_s = GUARDS_STUCK_S, .wake_s = GUARDS_WAKE_S,
                             .silent_s = 3, .name = "n1"};
    if (local_rank == 0)
        assert_int_equal(io_random_hex(token, GUARDS_TOKEN_LEN / 2, NULL), 0);
    strcpy(f.token, token);
    return f;
}

static guards_t *volatile opened[3]; /* all: what guards_leave leaves of them ends with the process */

static guards_t *open_guards(const struct guards_facts *f)
{
    static int n_opened;
    guards_t *g = opened[n_opened++] = guards_open(f);
    assert_non_null(g);
    return g;
}

static int call_leader(const struct guards_facts *f)
{
    char name[DOOR_NAME_MAX];
    struct sockaddr_un a;
    socklen_t n = door_address(door_name(f->token, DOOR_OF_NODE, 0, name), &a);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, n), 0);
    return fd;
}

static void the_leader_asks_nobody_of_another_user(void **state)
{
    (void)state;
    struct guards_facts f = facts_of(0);
    unsigned char nonce[PROOF_NONCE_LEN];
    int stranger;
    unit_needs(geteuid() == 0, "root's rights");
    guards_t *g = open_guards(&f);
    unit_as_another_user(stranger = call_leader(&f));
    int own = call_leader(&f);
    guards_step(g);
    assert_int_equal(recv(own, nonce, sizeof nonce, 0), sizeof nonce);
    assert_int_equal(recv(stranger, nonce, sizeof nonce, 0), 0);
    close(own);
    close(stranger);
    guards_leave(g);
}

/* Who listens in the leader's place first. */
static int impostor_hears(bool is_another_user)
{
    struct guards_facts leader = facts_of(0), f = facts_of(1);
    unsigned char nonce[PROOF_NONCE_LEN] = {0}, head[PROOF_HEAD_LEN];
    char name[DOOR_NAME_MAX];
    int door;
    door_name(leader.token, DOOR_OF_NODE, 0, name);
    if (is_another_user)
        unit_as_another_user(door = listen_abstract(name));
    else
        door = listen_abstract(name);
    guards_t *g = open_guards(&f);
    guards_step(g);
    assert_int_equal(poll(&(struct pollfd){.fd = door, .events = POLLIN}, 1, 20000), 1);
    int fd = accept(door, NULL, NULL);
    assert_true(fd >= 0);
    (void)!send(fd, nonce, sizeof nonce, MSG_NOSIGNAL);
    for (int i = 0; i < 3; i++) /* it is connected, then asked, and answers */
        guards_step(g);
    int n = (int)recv(fd, head, sizeof head, MSG_DONTWAIT);
    close(fd);
    close(door);
    guards_leave(g);
    return n;
}

static void a_leader_of_another_user_is_told_nothing(void **state)
{
    (void)state;
    unit_needs(geteuid() == 0, "root's rights");
    assert_int_equal(impostor_hears(false), PROOF_HEAD_LEN);
    assert_int_equal(impostor_hears(true), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_leader_asks_nobody_of_another_user),
    cmocka_unit_test(a_leader_of_another_user_is_told_nothing),
};
UNIT_MAIN(tests)
