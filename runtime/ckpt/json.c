#include "runtime/ckpt/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_begin(struct json *j, const char *text, size_t n)
{
    *j = (struct json){.start = text, .p = text, .end = text + n};
}

int json_refuse(struct json *j, const char *why)
{
    if (!j->why)
        j->why = why;
    return -1;
}

int json_fail(const struct json *j, const char *what, ddp_error_t *errp)
{
    return error_set(errp, DDP_E_DATA, 0, "%s: %s at byte %zu", what, j->why ? j->why : "not as expected",
                     (size_t)(j->p - j->start));
}

/* The next byte that is not white space; -1: there is none, or something failed before. */
static int peek(struct json *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\t' || *j->p == '\r'))
        j->p++;
    return j->why || j->p == j->end ? -1 : (unsigned char)*j->p;
}

static int expect(struct json *j, char c, const char *why)
{
    if (peek(j) != c)
        return json_refuse(j, why);
    j->p++;
    return 0;
}

int json_end(struct json *j)
{
    return peek(j) == -1 && !j->why ? 0 : json_refuse(j, "more than one value");
}

int json_object(struct json *j, bool *first)
{
    *first = true;
    return expect(j, '{', "not an object");
}

int json_array(struct json *j, bool *first)
{
    *first = true;
    return expect(j, '[', "not an array");
}

static int next(struct json *j, bool *first, char close)
{
    if (peek(j) == close) {
        j->p++;
        return 0;
    }
    if (!*first && expect(j, ',', "neither a comma nor the end") < 0)
        return -1;
    *first = false;
    return 1;
}

int json_item(struct json *j, bool *first)
{
    return next(j, first, ']');
}

int json_member(struct json *j, bool *first, char *ret_key, size_t size)
{
    int more = next(j, first, '}');
    if (more == 1 && (json_string(j, ret_key, size) < 0 || expect(j, ':', "no colon after a name") < 0))
        return -1;
    return more;
}

/* ---- strings ---- */

size_t json_character(const char *text, const char *end)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    if (text >= end)
        return 0;
    size_t n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
    if (n == 0 || (size_t)(end - text) < n)
        return 0;
    uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

static int hex4(struct json *j, uint32_t *ret)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++, j->p++) {
        if (j->p == j->end)
            return json_refuse(j, "a string without an end");
        int c = *j->p, letter = c | 32;
        int d = c >= '0' && c <= '9' ? c - '0' : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
        if (d < 0)
            return json_refuse(j, "not a hexadecimal digit");
        v = v << 4 | (uint32_t)d;
    }
    *ret = v;
    return 0;
}

/* What follows \u, as UTF-8. */
static int unicode(struct json *j, char out[4], size_t *ret_n)
{
    uint32_t c, low;
    if (hex4(j, &c) < 0)
        return -1;
    if (c >= 0xd800 && c < 0xdc00) {
        if (j->end - j->p < 2 || j->p[0] != '\\' || j->p[1] != 'u')
            return json_refuse(j, "half a surrogate pair");
        j->p += 2;
        if (hex4(j, &low) < 0)
            return -1;
        if (low < 0xdc00 || low > 0xdfff)
            return json_refuse(j, "half a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) {
        return json_refuse(j, "half a surrogate pair");
    }
    if (c == 0)
        return json_refuse(j, "a NUL in a string");
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(n == 1 ? c : (0xf00u >> n & 0xf0u) | c);
    *ret_n = n;
    return 0;
}

/* One character of a string, escaped or not, into out. */
static int character(struct json *j, char out[4], size_t *ret_n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (*j->p != '\\') {
        *ret_n = json_character(j->p, j->end);
        if (*ret_n == 0 || (unsigned char)*j->p < ' ')
            return json_refuse(j, "not UTF-8, or a control character, in a string");
        memcpy(out, j->p, *ret_n);
        j->p += *ret_n;
        return 0;
    }
    if (++j->p == j->end)
        return json_refuse(j, "a string without an end");
    char c = *j->p++;
    if (c == 'u')
        return unicode(j, out, ret_n);
    const char *at = c ? strchr(from, c) : NULL;
    if (!at)
        return json_refuse(j, "an unknown escape");
    *ret_n = 1;
    out[0] = to[at - from];
    return 0;
}

/* Without ret: read over. */
static int string(struct json *j, char *ret, size_t size)
{
    size_t n = 0, k;
    char out[4];
    if (expect(j, '"', "not a string") < 0)
        return -1;
    for (;;) {
        if (j->p == j->end)
            return json_refuse(j, "a string without an end");
        if (*j->p == '"')
            break;
        if (character(j, out, &k) < 0)
            return -1;
        if (ret && k >= size - n)
            return json_refuse(j, "a string that is too long");
        if (ret)
            memcpy(ret + n, out, k);
        n += k;
    }
    j->p++;
    if (ret)
        ret[n] = 0;
    return 0;
}

int json_string(struct json *j, char *ret, size_t size)
{
    return string(j, ret, size);
}

int json_skip_string(struct json *j)
{
    return string(j, NULL, 0);
}

/* ---- numbers ---- */

static bool is_digit(const struct json *j)
{
    return j->p < j->end && *j->p >= '0' && *j->p <= '9';
}

static int digits(struct json *j, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;
    int c = peek(j);
    if (c < '0' || c > '9')
        return json_refuse(j, "not a number, or a negative one");
    if (c == '0' && j->end - j->p > 1 && j->p[1] >= '0' && j->p[1] <= '9')
        return json_refuse(j, "a number that begins with 0");
    for (; is_digit(j); j->p++) {
        unsigned d = (unsigned)(*j->p - '0');
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, d, &v) || v > max)
            return json_refuse(j, "a number that is too large");
    }
    *ret = v;
    return 0;
}

static bool is_more(const struct json *j)
{
    return j->p < j->end && (*j->p == '.' || *j->p == 'e' || *j->p == 'E');
}

int json_u64(struct json *j, uint64_t max, uint64_t *ret)
{
    uint64_t v;
    if (digits(j, max, &v) < 0)
        return -1;
    if (is_more(j))
        return json_refuse(j, "not an integer");
    *ret = v;
    return 0;
}

int json_millionths(struct json *j, uint64_t *ret)
{
    uint64_t v, part = 0;
    if (digits(j, UINT64_MAX / 1000000 - 1, &v) < 0)
        return -1;
    if (j->p < j->end && *j->p == '.') {
        const char *dot = j->p++;
        for (; is_digit(j); j->p++)
            if (j->p - dot <= 6)
                part = part * 10 + (uint64_t)(*j->p - '0');
        long n = j->p - dot - 1;
        if (n < 1 || n > 6)
            return json_refuse(j, "not one to six decimals");
        for (; n < 6; n++)
            part *= 10;
    }
    if (is_more(j))
        return json_refuse(j, "a number with an exponent");
    *ret = v * 1000000 + part;
    return 0;
}

/* ---- what nobody asked for ---- */

static int skip_number(struct json *j)
{
    if (j->p < j->end && *j->p == '-')
        j->p++;
    const char *start = j->p;
    for (; is_digit(j); j->p++)
        ;
    if (j->p == start || (*start == '0' && j->p - start > 1))
        return json_refuse(j, "not a value");
    if (j->p < j->end && *j->p == '.') {
        j->p++;
        if (!is_digit(j))
            return json_refuse(j, "not a number");
        for (; is_digit(j); j->p++)
            ;
    }
    if (j->p < j->end && (*j->p | 32) == 'e') {
        j->p++;
        if (j->p < j->end && (*j->p == '+' || *j->p == '-'))
            j->p++;
        if (!is_digit(j))
            return json_refuse(j, "not a number");
        for (; is_digit(j); j->p++)
            ;
    }
    return 0;
}

static int skip_plain(struct json *j)
{
    static const char *const word[] = {"true", "false", "null"};
    int c = peek(j);
    if (c == '"')
        return string(j, NULL, 0);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(word[i]);
        if (c == word[i][0] && (size_t)(j->end - j->p) >= n && !memcmp(j->p, word[i], n)) {
            j->p += n;
            return 0;
        }
    }
    return skip_number(j);
}

int json_skip(struct json *j)
{
    uint64_t is_object = 0; /* a bit for each open bracket, the innermost the lowest */
    bool first = false;
    int depth = 0;
    do {
        if (depth > 0) {
            int more = is_object & 1 ? next(j, &first, '}') : next(j, &first, ']');
            if (more < 0)
                return -1;
            if (more == 0) {
                depth--;
                is_object >>= 1;
                first = false;
                continue;
            }
            if (is_object & 1 && (string(j, NULL, 0) < 0 || expect(j, ':', "no colon after a name") < 0))
                return -1;
        }
        int c = peek(j);
        if (c != '{' && c != '[') {
            if (skip_plain(j) < 0)
                return -1;
            continue;
        }
        if (depth == JSON_DEPTH_MAX)
            return json_refuse(j, "values nested too deeply");
        depth++;
        is_object = is_object << 1 | (c == '{');
        first = true;
        j->p++;
    } while (depth > 0);
    return 0;
}

/* ---- writing ---- */

static bool grow(struct json_text *t, size_t n)
{
    if (t->is_short)
        return false;
    if (n <= t->room - t->n)
        return true;
    size_t room = (t->room + n) * 2;
    char *p = realloc(t->p, room);
    if (!p) {
        free(t->p);
        *t = (struct json_text){.is_short = true};
        return false;
    }
    t->p = p;
    t->room = room;
    return true;
}

void json_add(struct json_text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !grow(t, (size_t)n + 1))
        return;
    va_start(ap, fmt);
    vsnprintf(t->p + t->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->n += (size_t)n;
}

void json_add_string(struct json_text *t, const char *text)
{
    json_add(t, "\"");
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\')
            json_add(t, "\\%c", *p);
        else if (*p == '\n')
            json_add(t, "\\n");
        else if ((unsigned char)*p < ' ')
            json_add(t, "\\u%04x", (unsigned)*p);
        else if (grow(t, 2)) {
            t->p[t->n++] = *p;
            t->p[t->n] = 0;
        }
    }
    json_add(t, "\"");
}
