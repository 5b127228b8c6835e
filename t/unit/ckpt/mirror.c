/* Copies of snapshots in another process's memory, over sockets. */
#include "t/unit/unit.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/ckpt/mirror.h"

#define BYTES ((size_t)1 << 20) /* more than a socket takes */
#define PATIENCE_S 20.0

struct ranks {
    struct slots own, guest; /* one rank's; what the other keeps of it */
    struct slots none[2];
    int out[2], back[2]; /* from the one to the other, and the other way round */
    mirror_t *from, *to;
};

static void start(struct ranks *r)
{
    ddp_error_t e;
    *r = (struct ranks){.from = NULL};
    assert_int_equal(slots_make(&r->own, BYTES, 1, &e), 0);
    assert_int_equal(slots_make(&r->guest, BYTES, 1, &e), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(slots_make(&r->none[i], BYTES, 1, &e), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->out), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->back), 0);
    r->from = mirror_create(&r->own, &r->none[0], r->out[0], r->back[0], &e);
    assert_non_null(r->from);
}

/* From here on what is sent is taken in. */
static void listen_to(struct ranks *r)
{
    ddp_error_t e;
    r->to = mirror_create(&r->none[1], &r->guest, r->back[1], r->out[1], &e);
    assert_non_null(r->to);
}

static void fill(struct ranks *r, int slot, int step)
{
    struct slots_seal seal = {.state = {.step = (uint64_t)step}};
    slots_clear(&r->own, slot);
    memset(slots_data(&r->own, slot), step, BYTES);
    slots_seal(&r->own, slot, &seal);
    mirror_send(r->from, slot);
}

static void wait_done(struct ranks *r)
{
    uint64_t deadline = deadline_in(PATIENCE_S);
    while (!mirror_is_done(r->from) && deadline_left_ns(deadline) > 0)
        poll(NULL, 0, 1);
    assert_true(mirror_is_done(r->from));
}

static void is_copy(const struct ranks *r, int slot, int step)
{
    struct slots_seal seal;
    assert_true(slots_read(&r->guest, slot, &seal));
    assert_int_equal(seal.state.step, step);
    assert_memory_equal(slots_data(&r->guest, slot), slots_data(&r->own, slot), BYTES);
}

static void end(struct ranks *r)
{
    mirror_destroy(r->from);
    mirror_destroy(r->to);
    struct slots *all[] = {&r->own, &r->guest, &r->none[0], &r->none[1]};
    for (int i = 0; i < 4; i++)
        close(slots_close(all[i]));
}

static void what_is_sent_arrives(void **state)
{
    (void)state;
    struct ranks r;
    start(&r);
    listen_to(&r);
    for (int step = 1; step < 6; step++) {
        fill(&r, step % SLOTS_N, step);
        wait_done(&r);
        is_copy(&r, step % SLOTS_N, step);
    }
    assert_false(mirror_has_failed(r.from));
    end(&r);
}

/* While the first one is on its way both are asked for. */
static void no_wish_is_forgotten(void **state)
{
    (void)state;
    struct ranks r;
    char byte;
    start(&r);
    fill(&r, 0, 1);
    assert_int_equal(recv(r.out[1], &byte, 1, MSG_PEEK), 1); /* it has begun */
    fill(&r, 1, 2);
    mirror_send(r.from, 0);
    listen_to(&r);
    wait_done(&r);
    is_copy(&r, 0, 1);
    is_copy(&r, 1, 2);
    end(&r);
}

static void a_lost_connection_is_known(void **state)
{
    (void)state;
    struct ranks r;
    start(&r);
    close(r.out[1]);
    fill(&r, 0, 1);
    wait_done(&r);
    assert_true(mirror_has_failed(r.from));
    fill(&r, 1, 2); /* nobody waits for what cannot be sent */
    wait_done(&r);
    close(r.back[1]);
    end(&r);
}

/* As the one who sends has it: what goes before the bytes. */
struct announce {
    uint64_t n_bytes, slot;
    struct slots_seal seal;
};

static void announce(const struct ranks *r, uint64_t n_bytes, uint64_t slot, uint64_t step)
{
    struct announce a = {.n_bytes = n_bytes, .slot = slot, .seal = {.state = {.step = step}}};
    assert_int_equal(send(r->out[0], &a, sizeof a, MSG_NOSIGNAL), sizeof a);
}

static void send_bytes(const struct ranks *r, size_t n)
{
    static char data[BYTES];
    ssize_t sent;
    for (size_t at = 0; at < n; at += (size_t)sent)
        assert_true((sent = send(r->out[0], data, n - at, MSG_NOSIGNAL)) > 0);
}

static void wait_lost(const struct ranks *r)
{
    uint64_t deadline = deadline_in(PATIENCE_S);
    while (!mirror_has_failed(r->to) && deadline_left_ns(deadline) > 0)
        poll(NULL, 0, 1);
    assert_true(mirror_has_failed(r->to));
}

/* A rank by hand, which sends. */
static void start_by_hand(struct ranks *r)
{
    start(r);
    mirror_destroy(r->from);
    r->from = NULL;
    close(r->out[1]);
    close(r->back[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->out), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->back), 0);
    listen_to(r);
}

/* The one who sends dies: what was there before is not taken for what has come. */
static void half_a_snapshot_is_none(void **state)
{
    (void)state;
    struct ranks r;
    struct slots_seal seal;
    char ack;
    start_by_hand(&r);
    announce(&r, BYTES, 1, 3);
    send_bytes(&r, BYTES);
    assert_int_equal(recv(r.out[0], &ack, 1, 0), 1);
    assert_true(slots_read(&r.guest, 1, &seal));
    assert_int_equal(seal.state.step, 3);
    announce(&r, BYTES, 1, 4);
    send_bytes(&r, BYTES / 2);
    close(r.out[0]);
    wait_lost(&r);
    assert_false(slots_read(&r.guest, 1, &seal));
    close(r.back[0]);
    end(&r);
}

static void a_snapshot_that_has_no_place_is_not_taken(void **state)
{
    (void)state;
    static const struct {
        uint64_t n_bytes, slot;
    } bad[] = {{BYTES + 1, 0}, {BYTES - 1, 0}, {BYTES, SLOTS_N}, {BYTES, UINT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ranks r;
        struct slots_seal seal;
        start_by_hand(&r);
        announce(&r, bad[i].n_bytes, bad[i].slot, 1);
        wait_lost(&r);
        for (int slot = 0; slot < SLOTS_N; slot++)
            assert_false(slots_read(&r.guest, slot, &seal));
        close(r.out[0]);
        close(r.back[0]);
        end(&r);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_sent_arrives),
    cmocka_unit_test(no_wish_is_forgotten),
    cmocka_unit_test(a_lost_connection_is_known),
    cmocka_unit_test(half_a_snapshot_is_none),
    cmocka_unit_test(a_snapshot_that_has_no_place_is_not_taken),
};

UNIT_MAIN(tests)
