#include "runtime/base/plain.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at s, *ret its code point; 1 and UINT32_MAX where there is none (RFC 3629). */
static size_t decode(const unsigned char *s, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    uint32_t c = n == 1 ? s[0] : n ? s[0] & (0x7fu >> n) : UINT32_MAX;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            *ret = UINT32_MAX;
            return 1;
        }
        c = c << 6 | (s[i] & 0x3f);
    }
    if (!n || c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
        *ret = UINT32_MAX;
        return 1;
    }
    *ret = c;
    return n;
}

static bool is_plain(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == UINT32_MAX || (c & 0xfffe) == 0xfffe)
        return false;
    return !(c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff);
}

size_t plain_next(const char *s, bool *ret_is_plain)
{
    uint32_t c;
    size_t n = decode((const unsigned char *)s, &c);
    *ret_is_plain = is_plain(c);
    return n;
}

static void make_plain(char *text, char keep)
{
    char *to = text;
    for (const char *from = text; *from;) {
        bool is_kept;
        size_t n = plain_next(from, &is_kept);
        if (is_kept || *from == keep) {
            memmove(to, from, n);
            to += n;
        } else {
            *to++ = strchr("\t\n\v\f\r", *from) ? ' ' : '?';
        }
        from += n;
    }
    *to = 0;
}

void plain_line(char *text)
{
    make_plain(text, 0);
}

void plain_lines(char *text)
{
    make_plain(text, '\n');
}

static bool is_within(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

void plain_fit(char *to, size_t size, const char *text)
{
    static const char gap[] = " ... ";
    size_t n = strlen(text), head = n, tail = n;
    if (n >= size) {
        head = size * 3 / 5;
        tail = n - (size - sizeof gap - head);
        while (head > 0 && is_within(text[head]))
            head--;
        while (is_within(text[tail]))
            tail++;
    }
    snprintf(to, size, "%.*s%s%s", (int)head, text, n < size ? "" : gap, text + tail);
}
