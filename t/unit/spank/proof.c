/* What two guards of a step show each other, and what somebody in between can make of it. */
#include "t/unit/unit.h"

#include "spank/guards/proof.h"

static const char token[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const char other[] = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const unsigned char nonce[PROOF_NONCE_LEN] = "fifteen and NUL";
static const struct proof_asker who = {.rank = 7, .node = 3, .looks_for = 1, .port = 60001, .name = "node3"};

static void a_head_is_right_for_one_nonce_alone(void **state)
{
    (void)state;
    unsigned char head[PROOF_HEAD_LEN], later[PROOF_NONCE_LEN];
    assert_int_equal(proof_ask(token, nonce, &who, head), 0);
    assert_true(proof_is_right(token, nonce, head));
    assert_false(proof_is_right(other, nonce, head));
    memcpy(later, nonce, sizeof later);
    later[PROOF_NONCE_LEN - 1] ^= 1;
    assert_false(proof_is_right(token, later, head));
    for (size_t i = 0; i < sizeof head; i++) {
        head[i] ^= 0x10;
        assert_false(proof_is_right(token, nonce, head));
        head[i] ^= 0x10;
    }
}

/* Who listens without the token may send any nonce, and gets a head for it: that tells it no answer. */
static void a_head_does_not_tell_its_answer(void **state)
{
    (void)state;
    static const unsigned char zeros[PROOF_NONCE_LEN];
    unsigned char head[PROOF_HEAD_LEN], again[PROOF_HEAD_LEN];
    char answer[PROOF_ANSWER_LEN + 1], another[PROOF_ANSWER_LEN + 1];
    assert_int_equal(proof_ask(token, zeros, &who, head), 0);
    proof_answer(token, head, answer);
    uint64_t signature = 0;
    for (int i = 7; i >= 0; i--)
        signature = signature << 8 | head[i];
    snprintf(another, sizeof another, "%016llx", (unsigned long long)signature);
    assert_string_not_equal(answer, another);
    assert_int_equal(proof_ask(token, zeros, &who, again), 0);
    proof_answer(token, again, another);
    assert_string_not_equal(answer, another); /* and is good once */
    proof_answer(other, head, another);
    assert_string_not_equal(answer, another);
}

static void who_asks_is_read_as_told_and_drives_no_terminal(void **state)
{
    (void)state;
    struct proof_asker read, wild = who;
    unsigned char head[PROOF_HEAD_LEN];
    assert_int_equal(proof_ask(token, nonce, &who, head), 0);
    proof_read(head, &read);
    assert_int_equal(read.rank, who.rank);
    assert_int_equal(read.node, who.node);
    assert_int_equal(read.looks_for, who.looks_for);
    assert_int_equal(read.port, who.port);
    assert_string_equal(read.name, who.name);
    memset(wild.name, '\033', sizeof wild.name); /* no end */
    assert_int_equal(proof_ask(token, nonce, &wild, head), 0);
    memset(head + sizeof head - PROOF_NAME_LEN, '\033', PROOF_NAME_LEN);
    proof_read(head, &read);
    assert_true(strlen(read.name) < PROOF_NAME_LEN);
    assert_null(strchr(read.name, '\033'));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_head_is_right_for_one_nonce_alone),
    cmocka_unit_test(a_head_does_not_tell_its_answer),
    cmocka_unit_test(who_asks_is_read_as_told_and_drives_no_terminal),
};
UNIT_MAIN(tests)
