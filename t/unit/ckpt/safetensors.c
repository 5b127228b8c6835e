#include "t/unit/unit.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "runtime/base/bytes.h"
#include "runtime/ckpt/safetensors.h"

static unsigned random_number(void)
{
    static uint32_t state = 2463534242u;
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state;
}

static struct st_tensor tensor(const char *name, enum st_dtype dtype, int ndim, const uint64_t *shape)
{
    struct st_tensor t = {.dtype = dtype, .ndim = ndim};
    snprintf(t.name, sizeof t.name, "%s", name);
    for (int i = 0; i < ndim; i++)
        t.shape[i] = shape[i];
    return t;
}

/* JSON with its length before it. */
static char *head_of(const char *json, size_t *ret_n)
{
    size_t n = strlen(json);
    unsigned char *head = malloc(8 + n);
    bytes_put32(head, (uint32_t)n);
    bytes_put32(head + 4, 0);
    memcpy(head + 8, json, n);
    *ret_n = 8 + n;
    return (char *)head;
}

static int decode(const char *json, uint64_t data_bytes, struct st_head *ret, ddp_error_t *e)
{
    size_t n;
    char *head = head_of(json, &n);
    *e = (ddp_error_t){0};
    int rc = st_decode(head, n, n + data_bytes, ret, e);
    free(head);
    return rc;
}

#define assert_refused(json, data_bytes, why) refused(json, data_bytes, why, __LINE__)
static void refused(const char *json, uint64_t data_bytes, const char *why, int line)
{
    struct st_head h = {.n = 77};
    ddp_error_t e;
    if (decode(json, data_bytes, &h, &e) == 0)
        fail_msg("line %d: accepted: %s", line, json);
    if (!strstr(e.text, why) || e.domain != DDP_E_DATA)
        fail_msg("line %d: \"%s\" lacks \"%s\"", line, e.text, why);
    assert_int_equal(h.n, 77);
}

static void the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    static const char want[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                               "\"b\\\"\\\\\\n\xc3\xa4\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]}}";
    struct st_tensor t[] = {tensor("a", ST_F32, 2, (uint64_t[]){2, 3}), tensor("b\"\\\n\xc3\xa4", ST_BF16, 0, NULL)};
    size_t n;
    ddp_error_t e;
    char *head = st_encode(t, 2, &n, &e);
    assert_non_null(head);
    assert_int_equal(n, ST_DATA_ALIGN);
    assert_int_equal(bytes_get32((unsigned char *)head), n - 8);
    assert_int_equal(bytes_get32((unsigned char *)head + 4), 0);
    assert_memory_equal(head + 8, want, sizeof want - 1);
    for (size_t i = 8 + sizeof want - 1; i < n; i++)
        assert_int_equal(head[i], ' ');
    assert_int_equal(st_head_bytes((unsigned char *)head, n + 26, &e), n);
    struct st_head h;
    assert_int_equal(st_decode(head, n, n + 26, &h, &e), 0);
    assert_int_equal(h.n, 2);
    assert_string_equal(h.tensor[1].name, t[1].name);
    assert_int_equal(h.tensor[1].first, 24);
    assert_int_equal(h.data_bytes, 26);
    st_clear(&h);
    st_clear(&h);
    free(head);
}

/* What is written is read back, whatever the tensors are; the data begin at a multiple; no cut head is accepted. */
static void what_is_written_is_read(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct st_tensor t[40] = {0};
        size_t n = random_number() % 41, n_bytes;
        uint64_t all = 0;
        for (size_t i = 0; i < n; i++) {
            snprintf(t[i].name, sizeof t[i].name, "%zu%.*s", i, (int)(random_number() % 200),
                     "............................................................................................."
                     ".............................................................................................");
            t[i].dtype = random_number() % ST_COUNT;
            t[i].ndim = (int)(random_number() % (ST_DIMS_MAX + 1));
            t[i].n_bytes = st_dtype_size(t[i].dtype);
            for (int d = 0; d < t[i].ndim; d++)
                t[i].n_bytes *= t[i].shape[d] = random_number() % 30 ? 1 + random_number() % 9 : 0;
            t[i].first = all;
            all += t[i].n_bytes;
        }
        ddp_error_t e;
        struct st_head h;
        char *head = st_encode(t, n, &n_bytes, &e);
        assert_non_null(head);
        assert_int_equal(n_bytes % ST_DATA_ALIGN, 0);
        assert_int_equal(st_decode(head, n_bytes, n_bytes + all, &h, &e), 0);
        assert_int_equal(h.n, n);
        assert_memory_equal(h.tensor, t, n * sizeof *t);
        st_clear(&h);
        assert_int_equal(st_decode(head, n_bytes, n_bytes + all + 1, &h, &e), -1);
        if (all)
            assert_int_equal(st_decode(head, n_bytes, n_bytes + all - 1, &h, &e), -1);
        size_t json = n_bytes - 8;
        while (head[8 + json - 1] == ' ')
            json--;
        size_t cut = random_number() % json;
        bytes_put32((unsigned char *)head, (uint32_t)cut);
        assert_int_equal(st_decode(head, 8 + cut, 8 + cut + all, &h, &e), -1);
        free(head);
    }
}

static void others_files_are_read(void **state)
{
    (void)state;
    struct st_head h;
    ddp_error_t e;
    /* members in another order, unknown ones, white space, tensors out of order, an escaped name */
    assert_int_equal(decode(" { \"\\u0062\\ud83d\\ude00\" : { \"data_offsets\" : [ 4 , 6 ] ,"
                            "\n\"x\":[{\"y\":[1e5,-0.5]},[]],\"dtype\":\"F16\",\"shape\":[1]}, \"__metadata__\" : {},"
                            "\"a\":{\"shape\":[4,1,1],\"dtype\":\"BOOL\",\"data_offsets\":[0,4]}}  ", 6, &h, &e), 0);
    assert_string_equal(h.tensor[0].name, "a");
    assert_string_equal(h.tensor[1].name, "b\xf0\x9f\x98\x80");
    assert_int_equal(h.tensor[1].dtype, ST_F16);
    st_clear(&h);
    assert_int_equal(decode("{}", 0, &h, &e), 0);
    assert_int_equal(h.n, 0);
    st_clear(&h);
}

#define T(name, dtype, shape, from, to)                                                                                \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #from "," #to "]}"

static void the_hostile_is_refused(void **state)
{
    (void)state;
    assert_refused("{" T("a", "F32", "1", 0, 4) "," T("a", "F32", "1", 4, 8) "}", 8, "duplicate object key");
    assert_refused("{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 8, 12) "}", 12, "tensor b begins at byte 8");
    assert_refused("{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 0, 4) "}", 4, "tensor b begins at byte 0");
    assert_refused("{" T("a", "F32", "2", 0, 8) "," T("b", "F32", "1", 4, 8) "}", 8, "tensor b begins at byte 4");
    assert_refused("{" T("a", "F32", "1", 4, 8) "}", 8, "tensor a begins at byte 4");
    assert_refused("{" T("a", "F32", "1", 0, 4) "}", 5, "the tensors have 4 bytes, the file has 5");
    assert_refused("{" T("a", "F32", "1", 0, 4) "}", 3, "the tensors have 4 bytes, the file has 3");
    assert_refused("{" T("a", "F32", "1", 0, 8) "}", 8, "do not fit");
    assert_refused("{" T("a", "F32", "1", 4, 0) "}", 4, "do not fit");
    assert_refused("{" T("a", "F31", "1", 0, 4) "}", 4, "tensor a: no type and shape");
    assert_refused("{" T("a", "F32", "1.0", 0, 4) "}", 4, "tensor a: no type and shape");
    assert_refused("{" T("a", "F32", "1e0", 0, 4) "}", 4, "tensor a: no type and shape");
    assert_refused("{" T("a", "F32", "-1", 0, 4) "}", 4, "tensor a: no type and shape");
    assert_refused("{" T("a", "F32", "01", 0, 4) "}", 4, "invalid token");
    assert_refused("{" T("a", "F32", "4611686018427387905", 0, 4) "}", 4, "no type and shape"); /* 2^64 + 4 bytes */
    assert_refused("{" T("a", "U8", "4294967296,4294967296", 0, 0) "}", 0, "no type and shape"); /* 2^64: 0 */
    assert_refused("{" T("a", "U8", "18446744073709551616", 0, 0) "}", 0, "too big integer");
    assert_refused("{" T("a", "U8", "1,1,1,1,1,1,1,1,1", 0, 1) "}", 1, "tensor a: no type and shape");
    char many[9000], *p = many + sprintf(many, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1");
    for (int i = 0; i < 4000; i++)
        p += sprintf(p, ",1");
    sprintf(p, "],\"data_offsets\":[0,1]}}");
    assert_refused(many, 1, "tensor a: no type and shape");
    assert_refused("{" T("", "U8", "1", 0, 1) "}", 1, "name has 0 bytes");
    assert_refused("{" T("\\u0000", "U8", "1", 0, 1) "}", 1, "NUL byte");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "data_offsets are not two numbers");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "two numbers");
    assert_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "two numbers");
    assert_refused("{\"a\":7}", 0, "tensor a");
    assert_refused("{\"__metadata__\":{\"a\":7}}", 0, "not a string");
    assert_refused("{\"__metadata__\":[]}", 0, "not an object");
    assert_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate");
    assert_refused("[]", 0, "not a JSON object");
    assert_refused("{} {}", 0, "end of file expected");
    assert_refused("{\"a\":{}", 0, "expected");
    assert_refused("{\"__metadata__\":{}", 0, "'}' expected");
    assert_refused("{,}", 0, "expected");
    assert_refused("{\"__metadata__\":[]}", 0, "not an object");
    assert_refused("{\"__metadata__\":{},}", 0, "expected");
    assert_refused("{\"\xff\":{}}", 0, "byte");
    assert_refused("{\"\xc0\x80\":{}}", 0, "byte");
    assert_refused("{\"\xed\xa0\x80\":{}}", 0, "byte");
    assert_refused("{\"\\ud800\":{}}", 0, "invalid Unicode");
    assert_refused("{\"\\udc00\":{}}", 0, "invalid Unicode");
    assert_refused("{\"\\q\":{}}", 0, "invalid escape");
    assert_refused("{\"a\tb\":{}}", 0, "control character");
    assert_refused("{\"a", 0, "premature end");
}

static void depth_and_length_are_bounded(void **state)
{
    (void)state;
    enum { DEEP = 1 << 20 };
    struct st_head h;
    ddp_error_t e;
    char *text = malloc(DEEP + 100), *p = text + sprintf(text, "{\"a\":{\"x\":");
    memset(p, '[', DEEP);
    p[DEEP] = 0;
    assert_int_equal(decode(text, 0, &h, &e), -1);
    assert_error_has(e, "more than 16 levels");
    memset(text + 2, 'n', DEEP);
    strcpy(text + 2 + DEEP, "\":{}}");
    assert_int_equal(decode(text, 0, &h, &e), -1);
    assert_error_has(e, "1048576 bytes, not 1 to 255");
    free(text);
    /* lengths that no file has */
    unsigned char first[8] = {0};
    assert_int_equal(st_head_bytes(first, 8, &e), 0);
    bytes_put32(first, 1000);
    assert_int_equal(st_head_bytes(first, 1007, &e), 0);
    assert_error_has(e, "truncated");
    assert_int_equal(st_head_bytes(first, 1008, &e), 1008);
    assert_int_equal(st_head_bytes(first, 7, &e), 0);
    bytes_put32(first, ST_HEAD_MAX + 1);
    assert_int_equal(st_head_bytes(first, UINT64_MAX, &e), 0);
    bytes_put32(first, 2);
    bytes_put32(first + 4, 1);
    assert_int_equal(st_head_bytes(first, UINT64_MAX, &e), 0);
    char *seven = memcpy(malloc(7), "\2\0\0\0\0\0\0", 7); /* exactly: a read beyond it is seen */
    assert_int_equal(st_decode(seven, 7, 7, &h, &e), -1);
    free(seven);
    assert_int_equal(st_decode("\2\0\0\0\0\0\0\0{} ", 11, 11, &h, &e), -1);
    assert_error_has(e, "the head has 10 bytes, not 11");
    assert_int_equal(st_decode("\2\0\0\0\0\0\0\0{}", 10, 10, &h, &e), 0);
    st_clear(&h);
    assert_int_equal(st_decode("\3\0\0\0\0\0\0\0{}", 10, 11, &h, &e), -1);
}

static void names_and_shapes_are_checked_when_written(void **state)
{
    (void)state;
    struct st_tensor t = tensor("__metadata__", ST_F32, 0, NULL);
    size_t n;
    ddp_error_t e;
    assert_null(st_encode(&t, 1, &n, &e));
    assert_error_has(e, "no tensor can be named __metadata__");
    struct st_tensor twice[] = {tensor("a", ST_F32, 0, NULL), tensor("a", ST_F32, 0, NULL)};
    assert_null(st_encode(twice, 2, &n, &e));
    assert_error_has(e, "two tensors are named a");
    t = tensor("", ST_F32, 0, NULL);
    assert_null(st_encode(&t, 1, &n, &e));
    t = tensor("\xff", ST_F32, 0, NULL);
    assert_null(st_encode(&t, 1, &n, &e));
    assert_error_has(e, "UTF-8");
    memset(t.name, 'x', sizeof t.name);
    assert_null(st_encode(&t, 1, &n, &e));
    t = tensor("a", ST_F32, 2, (uint64_t[]){1u << 31, (uint64_t)1 << 31});
    assert_null(st_encode(&t, 1, &n, &e));
    assert_error_has(e, "tensor a");
    t = tensor("a", ST_COUNT, 0, NULL);
    assert_null(st_encode(&t, 1, &n, &e));
    t = tensor("a", ST_F32, ST_DIMS_MAX + 1 - 1, (uint64_t[ST_DIMS_MAX]){1, 1, 1, 1, 1, 1, 1, 1});
    t.ndim++;
    assert_null(st_encode(&t, 1, &n, &e));
    enum st_dtype type;
    assert_int_equal(st_dtype_find("BF16", &type), 0);
    assert_int_equal(type, ST_BF16);
    assert_int_equal(st_dtype_find("bf16", &type), -1);
    assert_int_equal(st_dtype_size(ST_COUNT), 0);
}

static void a_name_is_not_called_wrong_for_want_of_memory(void **state)
{
    (void)state;
    ddp_error_t e;
    json_set_alloc_funcs(unit_no_memory, free);
    int rc = st_check_name("a", &e);
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(rc, -1);
    assert_error_has(e, "no memory for the name of tensor \"a\"");
    errno = ENOMEM; /* of a call before */
    assert_int_equal(st_check_name("\xff", &e), -1);
    assert_error_has(e, "UTF-8");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_bytes_are_those_of_the_format), cmocka_unit_test(what_is_written_is_read),
    cmocka_unit_test(others_files_are_read),             cmocka_unit_test(the_hostile_is_refused),
    cmocka_unit_test(depth_and_length_are_bounded),      cmocka_unit_test(names_and_shapes_are_checked_when_written),
    cmocka_unit_test(a_name_is_not_called_wrong_for_want_of_memory),
};
UNIT_MAIN(tests)
