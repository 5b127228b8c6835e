/* The block on a terminal: what it says, that it keeps to the terminal's width, and to ASCII where that is all. */
#include "t/unit/unit.h"

#include <math.h>

#include "runtime/train/live.h"

static const struct live_state half = {.step = 1500, .steps = 3000, .goal_s = 725, .limit_s = NAN, .loss = 2.83124,
                                       .items_per_s = 51234, .items = "tokens", .flops = NAN, .mfu = NAN,
                                       .efficiency = 0.9312, .exposed = 0.0821, .slow = ""};

static void assert_text(const struct live_state *s, int width, unsigned flags, const char *text)
{
    struct live_text t;
    live_format(s, width, flags, &t);
    assert_string_equal(t.text, text);
}

/* The columns of the longest line; escape sequences and all but the first byte of a character have none. */
static int longest(const char *text)
{
    int most = 0, n = 0;
    for (; *text; text++) {
        if (*text == '\033')
            text = strchr(text, 'm');
        else if (*text == '\n')
            n = 0;
        else
            n += ((unsigned char)*text & 0xc0) != 0x80;
        most = n > most ? n : most;
    }
    return most;
}

#define NUMBERS_40 "loss 2.8312 | tokens/s 51.2k\nefficiency 93.1% | exposed comm 8.2%\n"
#define NUMBERS_80 "loss 2.8312 | tokens/s 51.2k | efficiency 93.1% | exposed comm 8.2%\n"
#define HALF_40 "1500/3000 [######.......]  50%  12m 05s\n"
#define HALF_80 "step 1500/3000 [####################....................]  50%  12m 05s left\n"

static void bars(void **state)
{
    (void)state;
    struct live_state s = half;
    assert_text(&s, 80, 0, HALF_80 NUMBERS_80);
    assert_text(&s, 40, 0, HALF_40 NUMBERS_40);
    s.step = 0;
    assert_text(&s, 40, 0, "step 0/3000 [......]   0%  12m 05s left\n" NUMBERS_40);
    s.step = 2999;
    assert_text(&s, 40, 0, "2999/3000 [############.]  99%  12m 05s\n" NUMBERS_40);
    s.step = 3000;
    assert_text(&s, 40, 0, "3000/3000 [#############] 100%  12m 05s\n" NUMBERS_40);
    s.step = 3001;
    assert_text(&s, 40, 0, "3001/3000 [#############] 100%  12m 05s\n" NUMBERS_40);
}

static void an_unknown_end_has_no_bar(void **state)
{
    (void)state;
    struct live_state s = half;
    s.steps = 0;
    s.goal_s = NAN;
    assert_text(&s, 80, 0, "step 1500\n" NUMBERS_80);
}

static void what_is_not_known_is_not_shown(void **state)
{
    (void)state;
    struct live_state s = half;
    s.efficiency = s.exposed = s.goal_s = NAN;
    assert_text(&s, 40, 0, "step 1500/3000 [########.........]  50%\nloss 2.8312 | tokens/s 51.2k\n");
    s.items_per_s = s.loss = NAN;
    assert_text(&s, 40, 0, "step 1500/3000 [########.........]  50%\n");
}

static void a_gpu_has_flops(void **state)
{
    (void)state;
    struct live_state s = half;
    s.efficiency = s.exposed = NAN;
    s.flops = 412.3e12;
    s.mfu = 0.4131;
    assert_text(&s, 80, 0, HALF_80 "loss 2.8312 | tokens/s 51.2k | FLOP/s 412T | MFU 41.3%\n");
}

static void lines_are_utf8_where_they_may(void **state)
{
    (void)state;
    assert_text(&half, 40, LIVE_UTF8,
                "1500/3000 ━━━━━━━╸───────  50%  12m 05s\n"
                "loss 2.8312 · tokens/s 51.2k\nefficiency 93.1% · exposed comm 8.2%\n");
}

#define IN(color, text) "\033[" color "m" text "\033[0m"

static void colours(void **state)
{
    (void)state;
    struct live_state s = half;
    s.slow = "x";
    assert_text(&s, 40, LIVE_COLOR,
                "1500/3000 [" IN("32", "######") IN("2", ".......") "]  50%  12m 05s\n"
                IN("2", "loss") " 2.8312" IN("2", " | ") IN("2", "tokens/s") " 51.2k\n"
                IN("2", "efficiency") " 93.1%" IN("2", " | ") IN("2", "exposed comm") " 8.2%\n"
                IN("33", "slow: x") "\n");
}

static void the_limit_is_told(void **state)
{
    (void)state;
    struct live_state s = half;
    s.limit_s = 86400;
    assert_text(&s, 80, 0, HALF_80 NUMBERS_80 "job ends in 1d 00h\n");
    s.goal_s = NAN;
    s.efficiency = s.exposed = NAN;
    assert_text(&s, 80, 0, "step 1500/3000 [####################....................]  50%\n"
                "loss 2.8312 | tokens/s 51.2k | job ends in 1d 00h\n");
    s = half;
    s.limit_s = 145;
    assert_text(&s, 40, 0, HALF_40 NUMBERS_40 "job ends first, in 2m 25s (step 1800)\n");
    assert_text(&s, 30, 0, "1500/3000  50%  12m 05s\nloss 2.8312 | tokens/s 51.2k\nefficiency 93.1%\n"
                "exposed comm 8.2%\njob ends first, in 2m 25s\n");
    s.limit_s = -3;
    assert_text(&s, 40, 0, HALF_40 NUMBERS_40 "job ends first, in 0s (step 1500)\n");
}

static void a_slow_rank_is_named(void **state)
{
    (void)state;
    struct live_state s = half;
    s.slow = "rank 3 (n\0332) computes 1.43 times as long as the median rank";
    assert_text(&s, 40, 0, HALF_40 NUMBERS_40 "slow: rank 3 (n?2) computes 1.43 times \n");
    assert_text(&s, 80, 0, HALF_80 NUMBERS_80 "slow: rank 3 (n?2) computes 1.43 times as long as the median rank\n");
}

static void every_width(void **state)
{
    (void)state;
    struct live_state s = {.step = 123456, .steps = 1000000, .goal_s = 5e5, .limit_s = 4e5, .loss = 1234567,
                           .items_per_s = 1.5e9, .items = "tokens", .flops = 1e15, .mfu = 0.5, .efficiency = 1,
                           .exposed = 0, .slow = "rank 1023 (a-rather-long-name) computes 12.34 times as long as"};
    for (unsigned flags = 0; flags <= (LIVE_COLOR | LIVE_UTF8); flags++)
        for (int width = 1; width <= 250; width++) {
            struct live_text t;
            live_format(&s, width, flags, &t);
            if (longest(t.text) > (width > 1 ? width - 1 : 1) || longest(t.text) != t.n_cols)
                fail_msg("%d columns on a terminal of %d (n_cols %d):\n%s", longest(t.text), width, t.n_cols, t.text);
            for (const char *c = t.text; *c; c++)
                if ((*c == '\033' && !(flags & LIVE_COLOR)) || (*c & 0x80 && !(flags & LIVE_UTF8)))
                    fail_msg("byte %#x with flags %u:\n%s", (unsigned char)*c, flags, t.text);
            if (width >= 20)
                assert_non_null(strstr(t.text, "123456/1000000"));
        }
}

static void times(void **state)
{
    (void)state;
    static const struct {
        double s;
        const char *text;
    } of[] = {{NAN, ""}, {INFINITY, ""}, {-INFINITY, ""}, {-5, "0s"}, {0, "0s"}, {0.9, "0s"}, {59.99, "59s"},
              {60, "1m 00s"}, {725.6, "12m 05s"}, {3599.9, "59m 59s"}, {3600, "1h 00m"}, {86399, "23h 59m"},
              {86400, "1d 00h"}, {371000, "4d 07h"}, {8639999, "99d 23h"}, {8640000, "100d"}, {9e9, "104166d"},
              {1e300, ""}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[16];
        assert_string_equal(live_time(of[i].s, text, sizeof text), of[i].text);
    }
}

static void rates(void **state)
{
    (void)state;
    static const struct {
        double rate;
        const char *text;
    } of[] = {{0, "tokens/s 0 "}, {7.4, "tokens/s 7 "}, {999.4, "tokens/s 999 "}, {999.6, "tokens/s 1.00k "},
              {9996, "tokens/s 10.0k "}, {99960, "tokens/s 100k "}, {999600, "tokens/s 1.00M "},
              {1.234e7, "tokens/s 12.3M "}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct live_state s = half;
        struct live_text t;
        s.items_per_s = of[i].rate;
        live_format(&s, 80, 0, &t);
        if (!strstr(t.text, of[i].text))
            fail_msg("%g: %s lacks %s", of[i].rate, t.text, of[i].text);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bars),
    cmocka_unit_test(an_unknown_end_has_no_bar),
    cmocka_unit_test(what_is_not_known_is_not_shown),
    cmocka_unit_test(a_gpu_has_flops),
    cmocka_unit_test(lines_are_utf8_where_they_may),
    cmocka_unit_test(colours),
    cmocka_unit_test(the_limit_is_told),
    cmocka_unit_test(a_slow_rank_is_named),
    cmocka_unit_test(every_width),
    cmocka_unit_test(times),
    cmocka_unit_test(rates),
};

UNIT_MAIN(tests)
