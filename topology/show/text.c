#include "topology/show/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/plain.h"

static bool grow(struct text *t, size_t more)
{
    if (t->is_lost)
        return false;
    if (t->n + more < t->size)
        return true;
    size_t size = 2 * (t->n + more) + 256;
    char *s = realloc(t->s, size);
    if (!s) {
        t->is_lost = true;
        return false;
    }
    t->s = s;
    t->size = size;
    return true;
}

static void add_bytes(struct text *t, const char *s, size_t n)
{
    if (!grow(t, n))
        return;
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
}

void text_add(struct text *t, const char *s)
{
    add_bytes(t, s, strlen(s));
}

void text_move(struct text *t, struct text *from)
{
    char *s = text_take(from);
    if (s)
        text_add(t, s);
    else
        t->is_lost = true;
    free(s);
}

void text_printf(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !grow(t, (size_t)n)) {
        t->is_lost = true;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(t->s + t->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->n += (size_t)n;
}

static void add_name(struct text *t, const char *name, size_t max_columns, bool is_ascii)
{
    bool is_cut = max_columns && text_columns(name) > max_columns;
    size_t columns = 0;
    for (const char *p = name; *p && (!is_cut || columns + 1 < max_columns); columns++) {
        bool is_kept;
        size_t n = plain_next(p, &is_kept);
        is_kept &= n == 1 || !is_ascii;
        add_bytes(t, is_kept ? p : "?", is_kept ? n : 1);
        p += n;
    }
    if (is_cut)
        text_add(t, "~");
}

void text_name(struct text *t, const char *name, size_t max_columns)
{
    add_name(t, name, max_columns, false);
}

void text_ascii(struct text *t, const char *name, size_t max_columns)
{
    add_name(t, name, max_columns, true);
}

void text_xml(struct text *t, const char *s)
{
    for (; *s; s++)
        switch (*s) {
        case '&':
            text_add(t, "&amp;");
            break;
        case '<':
            text_add(t, "&lt;");
            break;
        case '>':
            text_add(t, "&gt;");
            break;
        case '"':
            text_add(t, "&quot;");
            break;
        case '\'':
            text_add(t, "&#39;");
            break;
        default:
            add_bytes(t, s, 1);
        }
}

/* The last CPU of the run of equal steps that begins at lo. *ret_step: 1, or with any_step more, for three CPUs at
 * least. */
static unsigned run_end(const struct cpus *set, unsigned lo, bool any_step, unsigned *ret_step)
{
    unsigned hi = lo, next = cpus_next(set, lo + 1), step = any_step && next < CPUS_MAX ? next - lo : 1;
    if (cpus_has(set, lo + step + 1)) /* the next CPU begins a run of its own */
        step = 1;
    while (hi + step < CPUS_MAX && cpus_next(set, hi + 1) == hi + step)
        hi += step;
    *ret_step = step;
    return step > 1 && hi < lo + 2 * step ? lo : hi;
}

static void add_cpus(struct text *t, const struct cpus *set, bool any_step)
{
    const char *comma = "";
    for (unsigned lo = cpus_next(set, 0), hi, step; lo < CPUS_MAX; lo = cpus_next(set, hi + 1)) {
        hi = run_end(set, lo, any_step, &step);
        text_printf(t, "%s%u", comma, lo);
        if (hi > lo)
            text_printf(t, "-%u", hi);
        if (hi > lo && step > 1)
            text_printf(t, ":%u", step);
        comma = ",";
    }
    if (!comma[0])
        text_add(t, "none");
}

void text_cpus(struct text *t, const struct cpus *set)
{
    add_cpus(t, set, false);
}

void text_cpus_short(struct text *t, const struct cpus *set)
{
    add_cpus(t, set, true);
}

size_t text_columns(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

void text_pad(struct text *t, size_t column)
{
    if (!t->s)
        text_add(t, "");
    if (t->is_lost)
        return;
    const char *line = strrchr(t->s, '\n');
    for (size_t n = text_columns(line ? line + 1 : t->s); n < column; n++)
        text_add(t, " ");
}

void text_trim(struct text *t)
{
    while (!t->is_lost && t->n && t->s[t->n - 1] == ' ')
        t->s[--t->n] = 0;
}

char *text_take(struct text *t)
{
    text_add(t, "");
    char *s = t->is_lost ? NULL : t->s;
    if (t->is_lost)
        free(t->s);
    *t = (struct text){0};
    return s;
}
