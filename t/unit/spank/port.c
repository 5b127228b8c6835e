/* Which port a step meets at: what nobody else can know, and who never meets whom. */
#include "t/unit/unit.h"

#include "spank/net/port.h"

static const struct port_range usual = {20000, 29999};

static uint32_t any(void)
{
    return (uint32_t)rand() * 2u + (uint32_t)rand() % 2;
}

static struct port_range any_range(int n)
{
    int min = 1024 + rand() % (65536 - n - 1024);
    return (struct port_range){min, min + n - 1};
}

static int derive(uint32_t job, uint32_t step, uint32_t restart, uint32_t draw, struct port_range r)
{
    struct port_facts f = {.job = job, .step = step, .restart = restart, .draw = draw};
    int p = port_derive(&f, r);
    assert_true(port_in(p, r));
    return p;
}

/* Without srun's number: jobs in a row, each with 16 steps. */
static void ports_do_not_collide(void **state)
{
    (void)state;
    static unsigned char used[65536];
    memset(used, 0, sizeof used);
    for (uint32_t job = 4294967000u; job < 4294967200u; job++)
        for (uint32_t step = 0; step < PORT_STEPS_PER_JOB; step++) {
            int p = derive(job, step, 0, 0, usual);
            assert_true(!used[p]);
            used[p] = 1;
            assert_true(derive(job, step, 1, 0, usual) != p);
        }
    assert_int_equal(derive(10, 3, 0, 0, usual), 20173);
    assert_int_equal(derive(10, 3, 0, 700, usual), 21373);
    assert_int_equal(derive(10, 3, 1, 0, usual), 25174);
    assert_int_equal(derive(7, 9, 5, 8, (struct port_range){4000, 4000}), 4000);
    for (int i = 0; i < 10000; i++)
        derive(any(), any(), any(), any(), any_range(1 + rand() % 2000));
}

/* Steps of a job fewer than 16 apart differ whatever srun drew, and neighbouring jobs' steps of the same id, too. */
static void steps_of_a_job_never_meet(void **state)
{
    (void)state;
    for (int i = 0; i < 200000; i++) {
        int n = 16 + rand() % (i % 2 ? 40 : 20000);
        struct port_range r = any_range(n);
        uint32_t job = any(), step = any() % 1000000, restart = any() % 100, apart = 1 + (uint32_t)rand() % 15;
        int p = derive(job, step, restart, any(), r);
        assert_int_not_equal(p, derive(job, step + apart, restart, any(), r));
        if (job < UINT32_MAX - apart)
            assert_int_not_equal(p, derive(job + apart, step, restart, any(), r));
    }
    for (int n = 1; n < 16; n++) /* a small range: n steps in a row differ */
        for (int i = 0; i < 2000; i++) {
            struct port_range r = any_range(n);
            uint32_t job = any(), step = any() % 1000, apart = (uint32_t)rand() % (uint32_t)n;
            int p = derive(job, step, 0, any(), r);
            assert_true(apart == 0 || p != derive(job, step + apart, 0, any(), r));
        }
}

/* Of one step every block is as likely as any other, and over jobs every port of the range but the last n % 16. */
static void draws_spread_over_the_range(void **state)
{
    (void)state;
    static int seen[65536];
    for (int n = 16; n <= 10000; n = n * 3 + 7) {
        const uint32_t blocks = (uint32_t)n / 16, first = any() / 2, job = any() / 2;
        struct port_range r = any_range(n);
        memset(seen, 0, sizeof seen);
        for (uint32_t j = job; j < job + 16; j++)
            for (uint32_t draw = first; draw < first + blocks; draw++)
                seen[derive(j, 2, 0, draw, r)]++;
        for (int p = r.min; p <= r.max; p++)
            assert_int_equal(seen[p], p < r.min + 16 * (int)blocks);
    }
}

/* Who sees where a guard, or an earlier program, listens does not know how far from there MASTER_PORT, or the next one,
 * lies: of 625 blocks each is as likely as any other. */
static void ports_say_nothing_of_each_other(void **state)
{
    (void)state;
    enum { BLOCKS = 625, STEPS = 20 * BLOCKS };
    static int seen[4][BLOCKS];
    for (int i = 0; i < STEPS; i++) {
        struct port_facts f = {.job = 10, .step = 3, .draw = any()};
        for (size_t k = 0; k < sizeof f.key; k++)
            f.key[k] = (unsigned char)any();
        const int port[] = {port_derive(&f, usual), port_derive_other(&f, PORT_OF_GUARDS, 0, 0, usual),
                            port_derive_other(&f, PORT_OF_GUARDS, 1, 0, usual),
                            port_derive_other(&f, PORT_OF_RESTART, 0, 0, usual),
                            port_derive_other(&f, PORT_OF_RESTART, 0, 1, usual)};
        for (int k = 0; k < 4; k++) {
            assert_true(port_in(port[k + 1], usual));
            assert_int_equal((port[k + 1] - port[k]) % PORT_STEPS_PER_JOB, 0); /* steps of a job never meet there */
            seen[k][(port[k + 1] - port[k] + 10000) % 10000 / PORT_STEPS_PER_JOB]++;
        }
    }
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < BLOCKS; i++)
            assert_true(seen[k][i] >= 1 && seen[k][i] <= 3 * STEPS / BLOCKS);
}

/* All nodes compute the same, of whatever release their plugin is. */
static void secrets_are_srun_s(void **state)
{
    (void)state;
    static const char token[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct port_facts f = {.job = 10, .step = 3}, none = f;
    port_take_secrets(&f, "700", token);
    assert_int_equal(f.draw, 700);
    assert_memory_equal(f.key, "\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef", sizeof f.key);
    assert_int_equal(port_derive(&f, usual), 21373);
    assert_int_equal(port_derive_other(&f, PORT_OF_GUARDS, 0, 0, usual), 25149);
    assert_int_equal(port_derive_other(&f, PORT_OF_RESTART, 0, 0, usual), 22157);
    port_take_secrets(&none, NULL, NULL);
    assert_int_equal(port_derive(&none, usual), 20173);
    assert_int_not_equal(port_derive_other(&none, PORT_OF_GUARDS, 0, 0, usual),
                         port_derive_other(&f, PORT_OF_GUARDS, 0, 0, usual));
}

static void only_numbers_are_drawn(void **state)
{
    (void)state;
    static const char *const none[] = {NULL, "", "x", "-1", "1 ", "4294967296", "0x10", "99999999999999999999"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(port_draw_parse(none[i]), 0);
    assert_int_equal(port_draw_parse("7"), 7);
    assert_int_equal(port_draw_parse("4294967295"), UINT32_MAX);
}

static void other_ports_are_read(void **state)
{
    (void)state;
    int p = 0;
    struct port_range r = {1, 1};
    assert_int_equal(port_first_reserved("12000-12003", &p, NULL), 0);
    assert_int_equal(p, 12000);
    assert_int_equal(port_first_reserved("12001,12005-12007", &p, NULL), 0);
    assert_int_equal(p, 12001);
    static const char *const bad[] = {"", "-1", "x", "70000", "123456789", "0-3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(port_first_reserved(bad[i], &p, NULL), -1);
    assert_int_equal(p, 12001);
    assert_true(port_ephemeral_parse("32768\t60999\n", &r));
    assert_true(r.min == 32768 && r.max == 60999);
    assert_false(port_ephemeral_parse("60999 32768", &r));
    assert_false(port_ephemeral_parse("", &r));
    assert_int_equal(r.min, 32768);
    const struct port_ephemeral e = {r, "40000-40002,50000"};
    static const struct { int port; bool is; } ports[] = {
        {32767, false}, {32768, true}, {39999, true}, {40001, false}, {50000, false}, {60999, true}, {61000, false},
    };
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++)
        assert_int_equal(port_is_ephemeral(ports[i].port, &e), ports[i].is);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ports_do_not_collide),        cmocka_unit_test(steps_of_a_job_never_meet),
    cmocka_unit_test(draws_spread_over_the_range), cmocka_unit_test(only_numbers_are_drawn),
    cmocka_unit_test(other_ports_are_read),        cmocka_unit_test(ports_say_nothing_of_each_other),
    cmocka_unit_test(secrets_are_srun_s),
};
UNIT_MAIN(tests)
