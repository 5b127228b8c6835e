#include "t/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/door.h"
#include "runtime/base/dtype.h"
#include "runtime/base/duration.h"
#include "runtime/base/io.h"
#include "runtime/base/json_read.h"
#include "runtime/base/num.h"
#include "runtime/base/plain.h"
#include "runtime/base/siphash.h"

static void numbers_are_strict(void **state)
{
    (void)state;
    int64_t i = 77;
    static const char *const bad[] = {"", " 1", "1 ", "+1", "0x10", "1e3", "-", "--1", "1.0", NULL};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(num_i64(bad[k], -100, 100, &i), -1);
        assert_int_equal(errno, EINVAL);
    }
    assert_int_equal(num_i64("101", -100, 100, &i), -1);
    assert_int_equal(errno, ERANGE);
    assert_int_equal(num_i64("99999999999999999999", -100, 100, &i), -1);
    assert_int_equal(i, 77);
    assert_int_equal(num_i64("-100", -100, 100, &i), 0);
    assert_int_equal(i, -100);
    uint64_t u = 5;
    assert_int_equal(num_u64("-1", UINT64_MAX, &u), -1);
    assert_int_equal(num_u64("18446744073709551615", UINT64_MAX, &u), 0);
    assert_true(u == UINT64_MAX);
    double d = 1;
    static const char *const bad_d[] = {"nan", "inf", "0x1p3", "1 ", "1e", ".", "1e999"};
    for (size_t k = 0; k < sizeof bad_d / sizeof *bad_d; k++)
        assert_int_equal(num_double(bad_d[k], -1e308, 1e308, &d), -1);
    assert_int_equal(num_double("3e-3", 0, 1, &d), 0);
    assert_true(d == 3e-3);
    bool b = false;
    assert_int_equal(num_bool("on", &b), 0);
    assert_true(b);
    assert_int_equal(num_bool("On", &b), -1);
}

static void a_variable_that_is_no_number_counts_as_none(void **state)
{
    static const char *const bad[] = {"", "x", "-1", "1 ", "2147483648"};
    (void)state;
    assert_int_equal(num_variable("DDP_UNIT_NUMBER", INT32_MAX), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("DDP_UNIT_NUMBER", bad[i], 1);
        assert_int_equal(num_variable("DDP_UNIT_NUMBER", INT32_MAX), 0);
    }
    setenv("DDP_UNIT_NUMBER", "2147483647", 1);
    assert_int_equal(num_variable("DDP_UNIT_NUMBER", INT32_MAX), INT32_MAX);
    unsetenv("DDP_UNIT_NUMBER");
}

static void lists_are_asked_whether_they_have_all(void **state)
{
    (void)state;
    static const char list[] = "8080,20000-25000,25001-30000\n";
    assert_true(num_list_has(list, 20000, 30000) && num_list_has(list, 8080, 8080));
    assert_false(num_list_has(list, 8080, 20000) || num_list_has(list, 30000, 30001) || num_list_has("\n", 1, 1));
}

static void errors_are_one_line_that_fits(void **state)
{
    (void)state;
    ddp_error_t e = {0};
    errno = 42;
    assert_int_equal(error_set(&e, DDP_E_DATA, 7, "a\nb %d", 3), -1);
    assert_string_equal(e.text, "a b 3");
    assert_int_equal(e.code, 7);
    assert_int_equal(errno, 42);
    error_prefix(&e, "rank %d", 3);
    assert_string_equal(e.text, "rank 3: a b 3");
    assert_int_equal(e.domain, DDP_E_DATA);
    assert_string_equal(error_of_rank(e.text, 3), "a b 3");
    assert_string_equal(error_of_rank(e.text, 33), "rank 3: a b 3");
    assert_int_equal(error_set(NULL, DDP_E_DATA, 0, "nobody listens"), -1);
}

/* Each ends as the second one of the pair. */
static void text_from_elsewhere_is_made_plain(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"Größe 大 😀 ~", "Größe 大 😀 ~"},
        {"a\tb\nc\rd\ve\ff", "a b c d e f"},
        {"\033[2J\007\177", "?[2J??"},
        {"C1 \302\233 \233", "C1 ? ?"},               /* in UTF-8, and as one byte */
        {"turned \342\200\256", "turned ?"},          /* U+202E */
        {"\300\212 \355\240\200 \342\202", "?? ??? ??"}, /* too long for a newline, a surrogate, cut short */
        {"", ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[64];
        ddp_error_t e;
        strcpy(text, pairs[i][0]);
        plain_line(text);
        assert_string_equal(text, pairs[i][1]);
        error_set(&e, DDP_E_DATA, 0, "%s", pairs[i][0]);
        assert_string_equal(e.text, pairs[i][1]);
        error_prefix(&e, "%s", pairs[i][0]);
        assert_null(strpbrk(e.text, "\033\007\177\n\r\t"));
    }
    char lines[] = "a\r\n\033b\n";
    plain_lines(lines);
    assert_string_equal(lines, "a \n?b\n");
}

static void an_error_names_the_limit_that_it_met(void **state)
{
    (void)state;
    ddp_error_t e;
    errno = EMFILE;
    assert_int_equal(error_errno(&e, "socket of rank %d", 3), -1);
    assert_string_equal(e.text, "socket of rank 3: Too many open files (ulimit -n)");
    assert_int_equal(e.code, EMFILE);
    errno = EFBIG;
    error_errno(&e, "file");
    assert_string_equal(e.text, "file: File too large (ulimit -f)");
    static const mode_t masks[] = {0777, 0277, 077};
    for (size_t i = 0; i < 3; i++) {
        mode_t before = umask(masks[i]);
        errno = EACCES;
        error_errno(&e, "file");
        umask(before);
        assert_string_equal(e.text, i < 2 ? "file: Permission denied (umask)" : "file: Permission denied");
    }
}

static void of_a_long_error_the_middle_goes(void **state)
{
    (void)state;
    for (size_t n_path = 1; n_path < 350; n_path++) { /* characters of two bytes, at odd places and even ones */
        char path[2000] = "";
        ddp_error_t e;
        memset(path, 'x', n_path % 2);
        for (size_t i = 0; i < n_path; i++)
            strcat(path, "ö");
        errno = ENOSPC;
        error_errno(&e, "%s/model: %d bytes cannot be allocated", path, 4096);
        error_prefix(&e, "the checkpoint of step %d failed: rank %d", 2, 1);
        error_prefix(&e, "rank %d", 0);
        size_t n = strlen(e.text), n_whole = strlen(path) + strlen("rank 0: the checkpoint of step 2 failed: rank 1: "
                                                                   "/model: 4096 bytes cannot be allocated: "
                                                                   "No space left on device");
        const char *gap = strstr(e.text, " ... ");
        assert_int_equal(!gap, n_whole < sizeof e.text);
        assert_true(gap ? n > 240 && n < sizeof e.text && !strstr(gap + 1, " ... ") : n == n_whole);
        plain_line(e.text);
        assert_null(strchr(e.text, '?'));
        assert_ptr_equal(strstr(e.text, "rank 0: the checkpoint of step 2 failed: rank 1: "), e.text);
        assert_string_equal(e.text + n - strlen(": No space left on device"), ": No space left on device");
    }
}

static void a_deadline_is_never_in_the_past(void **state)
{
    (void)state;
    static const double s[] = {5, 1e10, 2e10, 1e300, INFINITY};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++)
        assert_true(deadline_left_ns(deadline_in(s[i])) > 4 * NS_PER_S);
    assert_int_equal(deadline_left_ns(deadline_in(-1)), 0);
    assert_int_equal(deadline_left_ns(deadline_in(NAN)), 0);
}

static void io_is_whole_and_bounded(void **state)
{
    (void)state;
    int fd[2];
    ddp_error_t e;
    char buf[8];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    assert_int_equal(io_send_all(fd[0], "abc", 3, deadline_in(5), "rank 1", &e), 0);
    assert_int_equal(io_recv_all(fd[1], buf, 3, deadline_in(5), "rank 0", &e), 0);
    assert_memory_equal(buf, "abc", 3);
    assert_int_equal(io_recv_all(fd[1], buf, 1, deadline_in(0.01), "rank 0", &e), -1);
    assert_int_equal(e.domain, DDP_E_TIMEOUT);
    close(fd[0]);
    assert_int_equal(io_recv_all(fd[1], buf, 1, deadline_in(5), "rank 0", &e), -1);
    assert_int_equal(e.domain, DDP_E_PEER);
    assert_error_has(e, "rank 0");
    close(fd[1]);
}

static int tcp_socket(int flags)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    assert_true(fd >= 0);
    return fd;
}

/* A listener whose queue is full answers nobody; one that is gone refuses. */
static void connections_are_bounded(void **state)
{
    (void)state;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *to = (struct sockaddr *)&a;
    socklen_t len = sizeof a;
    int listener = tcp_socket(0), fd[8], n = 0, rc = 0;
    assert_int_equal(bind(listener, to, len), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, to, &len), 0);
    for (; rc == 0 && n < 8; n++) {
        fd[n] = tcp_socket(SOCK_NONBLOCK);
        rc = io_connect(fd[n], to, len, deadline_in(n == 0 ? 10 : 0.1));
    }
    assert_true(rc < 0 && errno == ETIMEDOUT && n > 1);
    while (n > 0)
        close(fd[--n]);
    close(listener);
    fd[0] = tcp_socket(SOCK_NONBLOCK);
    assert_int_equal(io_connect(fd[0], to, len, deadline_in(10)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd[0]);
}

static void numbers_travel(void **state)
{
    (void)state;
    unsigned char p[5] = {0};
    bytes_put32(p + 1, 0x01020384);
    assert_memory_equal(p, "\0\x84\x03\x02\x01", 5);
    assert_int_equal(bytes_get32(p + 1), 0x01020384);
}

/* Key and texts 00 01 02 ...; figures: appendix A of the paper, and its authors' vectors. */
static void hashes_with_a_key_are_siphash(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint64_t hash;
    } known[] = {{0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {15, 0xa129ca6149be45e5}};
    unsigned char bytes[SIPHASH_KEY_LEN], read[SIPHASH_KEY_LEN];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(siphash(bytes, bytes, known[i].n) == known[i].hash);
    siphash_key("000102030405060708090a0b0c0d0e0fff", read);
    assert_memory_equal(read, bytes, sizeof read);
}

/* Who sees one, or some, knows none of the others: two hashes have one digit of 16 in common, as a rule. */
static void doors_do_not_name_each_other(void **state)
{
    (void)state;
    static const char token[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char other[] = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    char name[64][DOOR_NAME_MAX], more[DOOR_NAME_MAX];
    for (int i = 0; i < 64; i++)
        door_name(token, i % 2 ? DOOR_OF_NODE : DOOR_OF_RANK, i / 2, name[i]);
    for (int i = 0; i < 64; i++)
        for (int k = 0; k < i; k++) {
            size_t n_same = 0, n = strlen(name[i]);
            assert_int_equal(n, strlen(name[k]));
            for (size_t c = strlen("ddp-guard-"); c < n; c++)
                n_same += name[i][c] == name[k][c];
            assert_true(n_same <= 8);
        }
    assert_string_equal(door_name(token, DOOR_OF_RANK, 0, more), name[0]);
    assert_string_not_equal(door_name(other, DOOR_OF_RANK, 0, more), name[0]);
    for (size_t i = 0; i + 4 <= strlen(token); i += 4) { /* nor tell the token */
        snprintf(more, sizeof more, "%.4s", token + i);
        assert_null(strstr(name[0], more));
    }
}

static void types_have_sizes(void **state)
{
    (void)state;
    static const size_t want[DTYPE_COUNT] = {4, 8, 2, 2, 4, 8};
    for (int t = 0; t < DTYPE_COUNT; t++)
        assert_int_equal(dtype_size((enum ddp_dtype)t), want[t]);
    assert_int_equal(dtype_size((enum ddp_dtype)99), 0);
}

static void durations_have_the_unit_that_fits(void **state)
{
    (void)state;
    static const struct { double s; const char *want; } known[] = {
        {0, "0 us"},           {1.5e-6, "1.5 us"},   {999.4e-6, "999 us"}, {999.7e-6, "1 ms"},    {.0612, "61.2 ms"},
        {.9994, "999 ms"},     {.9997, "1.0 s"},     {59.94, "59.9 s"},    {59.96, "1 min 00 s"}, {NAN, "?"},
        {3599.6, "1 h 00 min"}, {7980, "2 h 13 min"}, {86400, "1 d 00 h"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_string_equal(duration_text(known[i].s, text, sizeof text), known[i].want);
}

static void want_of_memory_makes_no_json_wrong(void **state)
{
    (void)state;
    json_error_t why;
    errno = ENOMEM; /* of a call before */
    assert_null(json_read("{", 1, 0, &why));
    assert_int_equal(errno, EINVAL);
    json_set_alloc_funcs(unit_no_memory, free);
    json_t *root = json_read("{}", 2, 0, &why);
    int code = errno;
    json_set_alloc_funcs(malloc, free);
    assert_null(root);
    assert_int_equal(code, ENOMEM);
    assert_string_equal(why.text, "no memory to read it");
    json_decref(root = json_read("{}", 2, 0, &why));
    assert_non_null(root);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(numbers_are_strict),           cmocka_unit_test(errors_are_one_line_that_fits),
    cmocka_unit_test(a_variable_that_is_no_number_counts_as_none),
    cmocka_unit_test(lists_are_asked_whether_they_have_all),
    cmocka_unit_test(a_deadline_is_never_in_the_past),
    cmocka_unit_test(io_is_whole_and_bounded),      cmocka_unit_test(connections_are_bounded),
    cmocka_unit_test(an_error_names_the_limit_that_it_met),
    cmocka_unit_test(text_from_elsewhere_is_made_plain), cmocka_unit_test(of_a_long_error_the_middle_goes),
    cmocka_unit_test(numbers_travel),               cmocka_unit_test(types_have_sizes),
    cmocka_unit_test(hashes_with_a_key_are_siphash), cmocka_unit_test(durations_have_the_unit_that_fits),
    cmocka_unit_test(doors_do_not_name_each_other), cmocka_unit_test(want_of_memory_makes_no_json_wrong),
};
UNIT_MAIN(tests)
